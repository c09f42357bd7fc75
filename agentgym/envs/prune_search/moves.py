"""The next calls that an episode's moment offers, kind by kind, each with its features and whether it can be made now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.core.records import Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.agents import answer, turn
from agentgym.envs.prune_search.leads import Leads
from agentgym.envs.prune_search.ledger import Ask, Ledger
from agentgym.envs.prune_search.notes import MILLION, Library, Query, Question, one_call
from agentgym.envs.prune_search.pages import Pages, Sums
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.room import Room

FINISH = (5, 10, None)
"""Finish variants: the best 5 in view, the best 10, all. A fourth returns the best `MET` of all chunks met."""
MET = 8
KEEP = (5, 10)
"""Sweep variants: how many of the best chunks stay in view."""
# Of the searches: leads, asked for or not, that are listed with the words of the least covered clues, so many clues, and so
# many words of each; leads asked for that are listed again, to page on; share of the rest for queries from the question.
_CLUED, _CLUES, _CLUE_WORDS, _AGAIN, _FROM_QUESTION = 4, 2, 8, 3, 0.6
_GREP_NAMES = 2  # names of the question that are grepped for
_SEVERAL = [f.OVERLAP, f.SENTENCE, f.OPEN, f.STANDING, f.LIVE, f.TOKENS, f.COUNT]


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
            self.pages.weigh(self.leads.promise, self.leads.top)
            self._queries = None
        self.pages.settle()

    # -- finish, sweep, prune -----------------------------------------------------------------------------------------

    def finishes(self, slate: Slate) -> None:
        """Answers; those that return the same come once."""
        pages, most = self.pages, self._profile.answer_chunks
        made: list[list[int]] = [[]]
        for count in FINISH:
            chosen = pages.live[:count][:most]
            if chosen not in made:
                made.append(chosen)
                self._finish(slate, chosen, pages.before, pages.after.masks[len(pages.live) - len(chosen)], 1.0)
        chosen = pages.best(MET)[:most]
        if chosen not in made:
            others = [number for number in pages.live if number not in chosen]
            live = 1 - len([number for number in chosen if number not in pages.live]) / len(chosen)
            self._finish(slate, chosen, pages.sums(chosen), pages.sums(others).masks[-1], live)

    def _finish(self, slate: Slate, chosen: list[int], sums: Sums, others: int, live: float) -> None:
        reply = answer([self.pages.chunks[number] for number in chosen])
        row = slate.add([reply], [self.room.answers(reply.content)])[0]
        row[f.FINISH] = 1.0
        row[_SEVERAL] = self._several(sums, len(chosen), others, live)

    def sweeps(self, slate: Slate) -> None:
        """Prunes of all but the best in view."""
        pages = self.pages
        for keep in KEEP:
            out = pages.live[keep:]
            if len(out) > 1 and self._profile.prune:  # one alone is a prune
                swept = turn(("prune_chunks", {"chunk_ids": [pages.chunks[number] for number in out]}))
                row = slate.add([swept], [self.room.prunes(swept)])[0]
                row[f.SWEEP] = 1.0
                row[_SEVERAL] = self._several(pages.after, len(out), pages.before.masks[keep], 1.0)

    def _several(self, sums: Sums, count: int, others: int, live: float) -> tuple[float, ...]:
        """Features of the first `count` of chunks summed up; `others` are the question's terms in the other chunks in
        view."""
        mask = sums.masks[count]
        return (
            self._question.share(mask),
            sums.sentence[count - 1],
            self._question.share(mask & ~others),
            sums.standing[count - 1] / count,
            live,
            sums.tokens[count - 1],
            count / 30,
        )

    def prunes(self, slate: Slate, limit: int) -> None:
        """A prune of each chunk in view, the least standing first."""
        pages, share = self.pages, self._question.share
        count = len(pages.live)
        numbers = pages.live[: -limit - 1 : -1] if self._profile.prune and limit > 0 else []
        if not numbers:
            return
        turns = [pages.prunes[number] for number in numbers]
        rows = slate.add(turns, [self.room.prunes(made) for made in turns])
        table = self._fill(rows, numbers)
        rows[:, f.PRUNE] = rows[:, f.LIVE] = 1.0
        rows[:, f.RANK] = 1 - np.arange(count - 1, count - 1 - len(numbers), -1) / max(1, count - 1)
        before, after = pages.before.masks, pages.after.masks
        rows[:, f.OPEN] = [
            share(pages.masks[number] & ~(before[count - 1 - place] | after[place]))
            for place, number in enumerate(numbers)
        ]
        rows[:, f.NOVELTY] = table["turn"] == self.ledger.turns

    def _fill(self, rows: NDArray[np.float64], numbers: list[int]) -> NDArray[Any]:
        """Fill in what is known of chunks; returns their rows of the table."""
        table = self.pages.table[numbers]
        titles = table["title"]
        rows[:] = table["row"]
        rows[:, f.STANDING] = self.pages.relative[numbers]
        rows[:, f.AGE] = (self.ledger.turns - table["turn"]) / 16
        rows[:, f.PROMISE] = self.leads.promise[titles] / max(1, self.leads.top)
        rows[:, f.MENTIONS] = _mentions(self.leads.table["mentions"][titles])
        return table

    # -- search, grep, read -------------------------------------------------------------------------------------------

    def queries(self, slate: Slate, searches: int, greps: int) -> None:
        """Searches and greps. Only a search or a new chunk changes which there are."""
        listed = self._queries
        if listed is None:
            listed = self._queries = self._list_queries(searches, greps)
        if listed.following:
            table = self.pages.table[listed.sources]
            listed.rows[listed.following, f.AGE] = (self.ledger.turns - table["turn"]) / 16
            listed.rows[listed.following, f.LIVE] = table["live"]
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
        rows[following, f.EVIDENCE] = self.leads.evidence[numbers] / MILLION
        rows[following, f.SENTENCE] = table["strongest"] / MILLION
        rows[following, f.PROMISE] = self.leads.promise[numbers] / max(1, self.leads.top)
        rows[following, f.MENTIONS] = _mentions(table["mentions"])
        rows[following, f.WITH_CLUE] = [listed[place][0].text != names[listed[place][1]] for place in following]
        sources = table["source"].tolist()
        rows[following, f.STANDING] = self.pages.relative[sources]
        rows[following, f.PLACE] = self.pages.table["row"][sources, f.PLACE]
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
        turns = [one_call("read_document", "doc_id", pages.documents[document]) for document, _, _ in found]
        asks = [("read_document", made.tool_calls[0].arguments) for made in turns]
        hidden = [count for _, count, _ in found]
        valid = [self.room.brings(made, self.room.needs(n)) for made, n in zip(turns, hidden, strict=True)]
        numbers = [number for _, _, number in found]
        rows = slate.add(turns, valid)
        table = self._fill(rows, numbers)
        rows[:, f.READ] = 1.0
        rows[:, f.TOKENS] = 0.0
        rows[:, f.LIVE] = table["live"]
        rows[:, f.USED] = [ledger.asked.get(ask, 0) / 4 for ask in asks]
        rows[:, f.BROUGHT] = [ledger.brought.get(ask, 0) / self._profile.shown for ask in asks]
        rows[:, f.COUNT] = [count / 30 for count in hidden]

    def _clue_words(self) -> list[str]:
        """The weightiest words of each of the clues that the chunks met cover least."""
        question, coverage = self._question, self.leads.coverage
        least = np.argsort(coverage, kind="stable")[:_CLUES].tolist()
        words = [question.words(question.clue_masks[clue], _CLUE_WORDS) for clue in least]
        return [text for text in words if text]


def _mentions(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return f.MENTION_STEPS[np.minimum(counts, len(f.MENTION_STEPS) - 1)]
