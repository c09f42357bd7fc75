"""The next calls that an episode's moment offers, kind by kind, each with its features and whether it can be made now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.core.records import Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.agents import answer, turn
from agentgym.envs.prune_search.leads import Leads
from agentgym.envs.prune_search.ledger import Ask, Ledger
from agentgym.envs.prune_search.notes import MILLION, Library, Query, Question
from agentgym.envs.prune_search.pages import Pages
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.room import Room

FINISH, MET = (5, 10, 20, None), (10, 20)
"""Finish variants: the best 5, 10, 20 in view, or all; the best 10 or 20 of all chunks met."""
KEEP = (5, 10, 20)
"""Sweep variants: how many of the best chunks stay in view."""
# Of the searches: leads, asked for or not, that are listed with the words of the least covered clues, so many clues, and so
# many words of each; leads asked for that are listed again, to page on; share of the rest for queries from the question.
_CLUED, _CLUES, _CLUE_WORDS, _AGAIN, _FROM_QUESTION = 4, 2, 8, 3, 0.6
_GREP_NAMES = 2  # names of the question that are grepped for


class Slate:
    """Candidates being listed: `turns`, whether each is `valid` now, and the first rows of `features` (k, F)."""

    __slots__ = ("features", "turns", "valid")

    def __init__(self, k: int) -> None:
        self.features: NDArray[np.float64] = np.zeros((k, len(f.FEATURES)))
        self.turns: list[Turn] = []
        self.valid: list[bool] = []

    def add(self, turns: Sequence[Turn], valid: Sequence[bool]) -> NDArray[np.float64]:
        """Add candidates; returns their rows, to be filled in."""
        start = len(self.turns)
        self.turns += turns
        self.valid += valid
        return self.features[start : start + len(turns)]


class _Queries(NamedTuple):
    """Searches and greps as listed, with their rows; `following` are the places of those that follow a lead, `sources`
    the pages of these leads."""

    searches: list[Query]
    greps: list[Query]
    rows: NDArray[np.float64]
    following: list[int]
    sources: list[int]


class Moves:
    """What can be done in one episode: `settle` after each view, then list kind by kind.

    `offered` remembers the queries listed so far, with the number of the lead that each follows (0 for none); `tried` are
    the question's terms in queries made.
    """

    def __init__(self, library: Library, profile: SearchProfile, question: Question, leads: int) -> None:
        self.ledger = Ledger()
        self.leads = Leads(question, leads)
        self.pages = Pages(library, [name.casefold() for name in question.names], profile.budget_tokens)
        self.room = Room(profile, library, 0)
        self.offered: dict[Ask, tuple[Query, int]] = {}
        self.tried = 0
        self._queries: _Queries | None = None
        self._profile = profile
        self._question = question
        self._library = library

    def settle(self, stale: bool) -> None:
        """Work out what several kinds need. `stale` says that something was read, searched or grepped since."""
        self.room = Room(self._profile, self._library, self.ledger.used)
        if stale:
            self.leads.weigh()
            self.pages.weigh(self.leads)
            self._queries = None
        self.pages.settle(self.ledger.turns)
        cells = self.pages.rows[: len(self.pages), [f.SENTENCE, f.STANDING, f.LIVE, f.TOKENS]]
        self._cells: list[list[float]] = cells.tolist()

    # -- finish, sweep, prune -----------------------------------------------------------------------------------------

    def finishes(self, slate: Slate) -> None:
        """Answers; those that return the same come once."""
        pages, most = self.pages, self._profile.answer_chunks
        made: list[list[int]] = [[]]
        for count in FINISH:
            chosen = pages.live[:count][:most]
            if chosen not in made:
                made.append(chosen)
                self._finish(slate, chosen, pages.before[len(chosen)], pages.after[len(pages.live) - len(chosen)])
        best = pages.best(max(MET))
        for count in MET:
            chosen = best[:count][:most]
            if chosen not in made:
                made.append(chosen)
                mask = others = 0
                for number in chosen:
                    mask |= pages.masks[number]
                for number in pages.live:
                    if number not in chosen:
                        others |= pages.masks[number]
                self._finish(slate, chosen, mask, others)

    def _finish(self, slate: Slate, chosen: list[int], mask: int, others: int) -> None:
        reply = answer([self.pages.chunks[number] for number in chosen])
        row = slate.add([reply], [self.room.answers(reply.content)])[0]
        self._several(row, f.FINISH, chosen, mask, others)

    def sweeps(self, slate: Slate) -> None:
        """Prunes of all but the best in view."""
        pages = self.pages
        for keep in KEEP:
            out = pages.live[keep:]
            if len(out) > 1 and self._profile.prune:  # one alone is a prune
                swept = turn(("prune_chunks", {"chunk_ids": [pages.chunks[number] for number in out]}))
                row = slate.add([swept], [self.room.prunes(swept)])[0]
                self._several(row, f.SWEEP, out, pages.after[len(out)], pages.before[keep])

    def _several(self, row: NDArray[np.float64], kind: int, chosen: list[int], mask: int, others: int) -> None:
        """Fill in the features of several chunks: `mask` are the question's terms in them, `others` those in the other
        chunks in view."""
        sentence, standing, live, tokens = zip(*[self._cells[number] for number in chosen], strict=True)
        row[kind] = 1.0
        row[f.OVERLAP] = self._question.share(mask)
        row[f.SENTENCE] = max(sentence)
        row[f.OPEN] = self._question.share(mask & ~others)
        row[f.STANDING] = math.fsum(standing) / len(chosen)
        row[f.LIVE] = sum(live) / len(chosen)
        row[f.TOKENS] = math.fsum(tokens)
        row[f.COUNT] = len(chosen) / 30

    def prunes(self, slate: Slate, limit: int) -> None:
        """A prune of each chunk in view, the least standing first."""
        pages, share = self.pages, self._question.share
        numbers = pages.live[: -limit - 1 : -1] if self._profile.prune and limit > 0 else []
        if not numbers:
            return
        turns = [pages.prunes[number] for number in numbers]
        rows = slate.add(turns, [self.room.prunes(made) for made in turns])
        rows[:] = pages.rows.take(numbers, 0)
        rows[:, f.PRUNE] = 1.0
        count, last = len(pages.live), max(1, len(pages.live) - 1)
        rows[:, f.RANK] = [1 - (count - 1 - place) / last for place in range(len(numbers))]
        alone = [
            pages.masks[number] & ~(pages.before[count - 1 - place] | pages.after[place])
            for place, number in enumerate(numbers)
        ]
        rows[:, f.OPEN] = [share(mask) for mask in alone]

    # -- search, grep, read -------------------------------------------------------------------------------------------

    def queries(self, slate: Slate, searches: int, greps: int) -> None:
        """Searches and greps. Only a search or a new chunk changes which there are."""
        listed = self._queries
        if listed is None:
            listed = self._queries = self._list_queries(searches, greps)
        if listed.following:
            sources = self.pages.rows.take(listed.sources, 0)
            listed.rows[listed.following, f.AGE] = sources[:, f.AGE]
            listed.rows[listed.following, f.LIVE] = sources[:, f.LIVE]
        needs = self.room.needs(self._profile.shown), self.room.needs(self._profile.grep_chunks)
        valid = []
        for found, needed in zip(listed[:2], needs, strict=True):
            easy = self.room.easily(needed)
            valid += [(easy and query.short) or self.room.brings(query.turn, needed) for query in found]
        found = listed.searches + listed.greps
        slate.add([query.turn for query in found], valid)[:] = listed.rows

    def _list_queries(self, searches: int, greps: int) -> _Queries:
        question, names, leads = self._question, self._question.leads, self.leads
        fresh = [(names[lead], lead) for lead in leads.fresh]
        again = [(names[lead], lead) for lead in leads.asked[:_AGAIN]]
        clued = [(f"{names[lead]} {words}", lead) for lead in leads.best[:_CLUED] for words in self._clue_words()]
        found: dict[str, tuple[Query, int]] = {}
        rest = max(0, searches - len(clued) - len(again))
        first = max(rest - len(fresh), round(_FROM_QUESTION * rest))
        self._propose(found, [(text, 0) for text in question.pieces], first)
        self._propose(found, clued + again + fresh, searches)
        grepped = [(name, 0) for name in question.names[:_GREP_NAMES]] + fresh
        patterns = [(question.query("grep_corpus", text, lead > 0), lead) for text, lead in grepped[:greps]]
        listed = [*found.values(), *patterns]
        self.offered.update({query.ask: (query, lead) for query, lead in listed})
        rows = self._rows(listed)
        following = [place for place, (_, lead) in enumerate(listed) if lead]
        numbers = [lead for _, lead in listed if lead]
        table = self.leads.table[numbers]
        sources = table["source"].tolist()
        rows[following, f.EVIDENCE] = self.leads.evidence[numbers] / MILLION
        rows[following, f.SENTENCE] = self.pages.rows[sources, f.SENTENCE]
        rows[following, f.PROMISE] = self.leads.promise[numbers] / max(1, self.leads.top)
        rows[following, f.MENTIONS] = f.mentions(table["mentions"])
        rows[following, f.WITH_CLUE] = [listed[place][0].text != names[listed[place][1]] for place in following]
        rows[following, f.STANDING] = self.pages.rows[sources, f.STANDING]
        rows[following, f.PLACE] = self.pages.rows[sources, f.PLACE]
        split = len(found)
        queries = [query for query, _ in listed]
        return _Queries(queries[:split], queries[split:], rows, following, sources)

    def _propose(self, found: dict[str, tuple[Query, int]], texts: list[tuple[str, int]], limit: int) -> None:
        """Add searches, up to `limit` in all. One that brought nothing never will, for what was seen stays left out."""
        for text, lead in texts:
            if len(found) >= limit:
                return
            if text not in found:
                query = self._question.query("search_corpus", text, lead > 0)
                if self.ledger.brought.get(query.ask) != 0:
                    found[text] = query, lead

    def _rows(self, listed: list[tuple[Query, int]]) -> NDArray[np.float64]:
        """What is known of queries without their leads."""
        question, ledger, asked = self._question, self.ledger, self.leads.table["asked"]
        rows = question.rows[[query.number for query, _ in listed]]
        unmet, untried = ~self.pages.met_mask, ~self.tried
        rows[:, f.OPEN] = [question.share(query.mask & unmet) for query, _ in listed]
        for row, (query, _) in zip(rows, listed, strict=True):
            if query.ask in ledger.asked:
                row[f.USED] = ledger.asked[query.ask] / 4
                row[f.BROUGHT] = ledger.brought.get(query.ask, 0) / self._profile.shown
        rows[:, f.NOVELTY] = [
            not asked[lead] if lead else (query.mask & untried).bit_count() / max(1, query.mask.bit_count())
            for query, lead in listed
        ]
        return rows

    def reads(self, slate: Slate, limit: int) -> None:
        """Documents met that are not wholly in view, those with the best chunk first."""
        pages, ledger = self.pages, self.ledger
        found = pages.open_documents(limit)
        if not found:
            return
        turns = [pages.reads[document] for document, _, _ in found]
        asks = [("read_document", made.tool_calls[0].arguments) for made in turns]
        hidden = [count for _, count, _ in found]
        valid = [self.room.brings(made, self.room.needs(count)) for made, count in zip(turns, hidden, strict=True)]
        rows = slate.add(turns, valid)
        rows[:] = pages.rows.take([number for _, _, number in found], 0)
        rows[:, f.READ] = 1.0
        rows[:, f.TOKENS] = rows[:, f.NOVELTY] = 0.0
        rows[:, f.USED] = [ledger.asked.get(ask, 0) / 4 for ask in asks]
        rows[:, f.BROUGHT] = [ledger.brought.get(ask, 0) / self._profile.shown for ask in asks]
        rows[:, f.COUNT] = [count / 30 for count in hidden]

    def _clue_words(self) -> list[str]:
        """The weightiest words of each of the clues that the chunks met cover least."""
        question, coverage = self._question, self.leads.coverage
        least = np.argsort(coverage, kind="stable")[:_CLUES].tolist()
        words = [question.words(question.clue_masks[clue], _CLUE_WORDS) for clue in least]
        return [text for text in words if text]
