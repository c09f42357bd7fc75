"""Texts as the candidate builder reads them: a chunk once a process, a chunk for a question once, whatever the episodes.

`Library` is what all episodes over one index share: how rare terms are, how large results can get, and the readings made so
far. `Question` knows the clues of one question. Sets of its terms are bits of an integer, names are numbers, and shares are
millionths, so that an episode works with sums that are exact in any order.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.core.records import Turn
from agentgym.core.tokens import counter
from agentgym.envs.prune_search.agents import turn
from agentgym.envs.prune_search.features import FEATURES, FROM_LEAD, FROM_QUESTION, GREP, OVERLAP, RARITY, SEARCH, WHOLE
from agentgym.envs.prune_search.ledger import Ask
from agentgym.envs.prune_search.reading import LEAD_CHUNK, WHOLE_CHUNK, names, sentences, terms
from agentgym.harness.budget import CUT
from agentgym.retrieval.index import Index

SAMPLED_CHUNKS = 2_000
"""Chunks, evenly spaced, from which the rarity of terms is estimated (our choice: a fraction of a second a process instead
of minutes at a million chunks; smaller indexes are read whole)."""

NAMES = 16
"""Names that are taken from one chunk, those whose sentences bear most on the question (our choice)."""

MILLION = 1_000_000
SHORT_CHARS = 250
"""Arguments of so few characters surely have fewer than 1,024 tokens: most calls need not be counted to be judged."""

_CLAUSE = re.compile(r"[,;:]\s+|\s+(?:and|that|which|who|whose|whom|where|when)\s+")
_CLUES = 12
_BODY_TOKENS = 8  # room for the first character of a body after any header: an odd one takes a few tokens

Ints = NDArray[np.int64]


class Reading(NamedTuple):
    """A chunk as it bears on a question, by the rules in `leads`. Shares are in millionths (C clues).

    `title` (casefolded, without what stands in brackets) and its number as a name; `mask` the question's terms in the
    chunk, `overlap` their share of the question's weight, `best` its best sentence's share, `standing`, and `coverage` (C,)
    its best squared share of each clue. `names` (m,), of each its best sentence's bearing with the chunk's share, `bearings`
    (m,), and its `shares` (C, m); `pairs` (2, p) of names that stand in one sentence.
    """

    title: str
    title_name: int
    mask: int
    overlap: float
    best: float
    standing: float
    coverage: Ints
    names: Ints
    bearings: Ints
    shares: Ints
    pairs: Ints


class Query(NamedTuple):
    """A search or grep call ready to make: its number in the question, its turn, whether it is short enough not to be
    counted (see `room`), and the question's terms in it, as bits."""

    number: int
    text: str
    ask: Ask
    turn: Turn
    short: bool
    mask: int


class Question:
    """One question: its clues (sentences), terms, and the pieces that queries are made from.

    Names and queries are numbered in the order in which they are first met, names from 1. Numbers differ between
    processes, so nothing may be ordered by them. `rows` (queries, F) are the features of queries that never change.
    """

    def __init__(self, prompt: str, library: Library) -> None:
        self.prompt = prompt
        self.folded = prompt.casefold()
        self.clues = sentences(prompt)[:_CLUES] or [prompt]
        self.names = tuple(dict.fromkeys(name for clue in self.clues for name in names(clue)))
        self.terms = {term: i for i, term in enumerate(dict.fromkeys(terms(prompt)))}
        self.leads = [""]
        self.rows: NDArray[np.float64] = np.zeros((64, len(FEATURES)))
        self._queries: dict[tuple[str, str, bool], Query] = {}
        self._numbers: dict[str, int] = {}
        self._spelling: dict[str, str] = {}
        for word in re.findall(r"[\w'’-]+", prompt):
            for term in terms(word):
                self._spelling.setdefault(term, word)
        self._library = library
        self._weights = [library.weight(term) for term in self.terms]
        self._known: dict[int, float] = {0: 0.0}
        self._shares: dict[int, float] = {}
        self._total = self.weight((1 << len(self.terms)) - 1) or 1.0
        self.clue_masks = [self.mask(terms(clue)) for clue in self.clues]

    def lead(self, name: str) -> int:
        """Number of a name."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.leads)
            self.leads.append(name)
        return number

    def query(self, tool: str, text: str, from_lead: bool) -> Query:
        """The call that searches for, or greps, a text."""
        return self._queries.get((tool, text, from_lead)) or self._new_query(tool, text, from_lead)

    def _new_query(self, tool: str, text: str, from_lead: bool) -> Query:
        grep = tool == "grep_corpus"
        made = one_call(tool, "pattern" if grep else "query", re.escape(text) if grep else text)
        arguments = made.tool_calls[0].arguments
        found = list(dict.fromkeys(terms(text)))
        number, mask = len(self._queries), self.mask(found)
        if number == len(self.rows):
            self.rows = longer(self.rows, 2 * number)
        row = self.rows[number]
        row[GREP if grep else SEARCH] = row[FROM_LEAD if from_lead else FROM_QUESTION] = 1.0
        row[WHOLE] = text == self.prompt
        row[OVERLAP] = self.share(mask)
        row[RARITY] = self._library.rarity(found)
        query = Query(number, text, (tool, arguments), made, len(arguments) <= SHORT_CHARS, mask)
        self._queries[tool, text, from_lead] = query
        return query

    def mask(self, found: Iterable[str]) -> int:
        """The question's terms among these, as bits."""
        bits, known = 0, self.terms
        for term in found:
            if term in known:
                bits |= 1 << known[term]
        return bits

    def weight(self, mask: int) -> float:
        """Summed weight of the terms in a mask."""
        value = self._known.get(mask)
        if value is None:
            value = round(math.fsum(w for i, w in enumerate(self._weights) if mask >> i & 1), 6)
            self._known[mask] = value
        return value

    def share(self, mask: int) -> float:
        """Weight of a mask as a share of the question's, in [0, 1]."""
        share = self._shares.get(mask)
        if share is None:
            share = self._shares[mask] = self.weight(mask) / self._total
        return share

    def shares(self, mask: int) -> list[int]:
        """For each clue, the squared share of its weight that a sentence with these terms holds, in millionths: one common
        word is no evidence."""
        totals = [(self.weight(clue), self.weight(clue & mask)) for clue in self.clue_masks]
        return [round((held / total) ** 2 * MILLION) if total else 0 for total, held in totals]

    def bearing(self, mask: int) -> float:
        """The largest weight of a clue's terms in a mask, as a share of the question's."""
        return max([self.share(clue & mask) for clue in self.clue_masks])

    def words(self, mask: int, limit: int) -> str:
        """The weightiest terms of a mask as the question spells them, in its order; at most `limit`."""
        inside = [i for i in range(len(self._weights)) if mask >> i & 1]
        kept = set(sorted(inside, key=lambda i: (-self._weights[i], i))[:limit])
        return " ".join(self._spelling.get(term, term) for term, i in self.terms.items() if i in kept)

    @functools.cached_property
    def pieces(self) -> tuple[str, ...]:
        """Queries made from the question alone, without repeats: whole, clues, names, rare words, clauses."""
        found = [self.prompt, *self.clues, *self.names, self.words((1 << len(self.terms)) - 1, 6)]
        found += [clause for clue in self.clues for clause in _CLAUSE.split(clue) if len(terms(clause)) >= 3]
        return tuple(dict.fromkeys(piece.strip() for piece in found if piece.strip()))


class Library:
    """What all episodes over one index share; use `library(index)`."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._counter = counter(index.settings.counter)
        rows = range(0, len(index), max(1, len(index) // SAMPLED_CHUNKS))
        self._frequency = Counter(term for row in rows for term in set(terms(index.text(row))))
        self._sampled = len(rows)
        self._highest = self.weight("")
        self.question = functools.lru_cache(4_096)(self._question)
        self.reading = functools.lru_cache(20_000)(self._reading)
        self.prune = functools.lru_cache(50_000)(functools.partial(one_call, "prune_chunks", "chunk_ids"))
        self.read = functools.lru_cache(20_000)(functools.partial(one_call, "read_document", "doc_id"))
        self.document = functools.lru_cache(200_000)(self._document)
        self._parsed = functools.lru_cache(20_000)(_parse)

    def weight(self, term: str) -> float:
        """Rarity of a term, log(2 + n / (1 + chunks that hold it)); 0 for one that surely is nowhere in the corpus."""
        if term and not self._frequency[term] and self._sampled == len(self._index):
            return 0.0
        return round(math.log(2 + self._sampled / (1 + self._frequency[term])), 6)

    def _question(self, prompt: str) -> Question:
        return Question(prompt, self)

    def rarity(self, found: list[str]) -> float:
        """Mean weight of terms relative to the largest possible; 0 for none."""
        return math.fsum(map(self.weight, found)) / len(found) / self._highest if found else 0.0

    def _reading(self, prompt: str, chunk: str, text: str) -> Reading:
        """A chunk, as far as a view shows it, for a question."""
        question: Question = self.question(prompt)
        title, parsed = self._parsed(chunk, text)
        masks = [question.mask(words) for words, _ in parsed]
        whole = 0
        for mask in masks:
            whole |= mask
        pairs = [question.bearing(mask | after) for mask, after in zip(masks, [*masks[1:], 0], strict=False)]
        overlap = question.share(whole)
        standing = round(max(pairs, default=0.0) + WHOLE_CHUNK * overlap, 6)
        coverage = [0] * len(question.clues)
        bearings: dict[int, int] = {}
        shares: dict[int, list[int]] = {}
        together: dict[tuple[int, int], None] = {}
        for mask, (_, named) in zip(masks, parsed, strict=True):
            own = question.shares(mask)
            coverage = list(map(max, coverage, own))
            value = round((question.bearing(mask) + LEAD_CHUNK * standing) * MILLION)
            numbers = [question.lead(name) for name in named if name.casefold() not in question.folded]
            for number in numbers:
                bearings[number] = max(bearings.get(number, 0), value)
                shares[number] = list(map(max, shares.get(number, own), own))
                if mask:
                    together.update({(number, other): None for other in numbers if other != number})
        kept = sorted(bearings, key=lambda number: (-bearings[number], question.leads[number]))[:NAMES]
        return Reading(
            title.casefold(),
            question.lead(title),
            whole,
            overlap,
            max([question.share(mask) for mask in masks], default=0.0),
            standing,
            np.array(coverage, dtype=np.int64),
            np.array(kept, dtype=np.int64),
            np.array([bearings[number] for number in kept], dtype=np.int64),
            np.array([shares[number] for number in kept], dtype=np.int64).reshape(-1, len(coverage)).T,
            np.array([pair for pair in together if pair[0] in kept and pair[1] in kept], dtype=np.int64)
            .reshape(-1, 2)
            .T,
        )

    @property
    def start_tokens(self) -> int:
        """Tokens within which the beginning of any chunk can be shown: its header, a first character, the mark of a cut."""
        return self._largest[0]

    @property
    def chunk_tokens(self) -> int:
        """Tokens of the largest chunk, header included, or a few more."""
        return self._largest[1]

    @functools.cached_property
    def _largest(self) -> tuple[int, int]:
        header = body = 0
        for row in range(len(self._index)):
            chunk = self._index.chunk(row)
            header = max(header, self._counter.count(f"[{chunk.id}] {chunk.title}"))
            body = max(body, chunk.tokens)
        return header + _BODY_TOKENS + self._counter.count(CUT), header + body

    def count(self, text: str) -> int:
        """Tokens of a text by the index's counter."""
        return self._counter.count(text)

    def _document(self, chunk: str) -> str:
        """Id of the document that a chunk belongs to."""
        return self._index.document(self._index.row(chunk)).id

    def size(self, document: str) -> int:
        """Number of chunks of a document."""
        return len(self._index.read(document))


@functools.lru_cache(maxsize=4)
def library(index: Index) -> Library:
    """The library of an index, one a process."""
    return Library(index)


def one_call(tool: str, argument: str, value: str) -> Turn:
    """A turn of one call with one argument; `prune_chunks` takes a list."""
    return turn((tool, {argument: [value] if tool == "prune_chunks" else value}))


def _parse(chunk: str, text: str) -> tuple[str, tuple[tuple[frozenset[str], tuple[str, ...]], ...]]:
    """Title without what stands in brackets, and the terms and names of each sentence; the title counts as one."""
    header, _, body = text.partition("\n")
    title = header.removeprefix(f"[{chunk}]").strip()
    pieces = [title, *sentences(body.removesuffix(CUT))]
    found = [(frozenset(terms(piece)), tuple(dict.fromkeys(names(piece)))) for piece in pieces]
    return title.partition(" (")[0], tuple(item for item in found if item[0])


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """The array with zeros after it, up to this length."""
    grown = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def wider(array: NDArray[Any], width: int) -> NDArray[Any]:
    """The array with zeros at the end of its last axis, up to this width."""
    grown = np.zeros((*array.shape[:-1], width), dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown
