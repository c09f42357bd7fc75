"""The chunks that one episode has met, as columns of a table.

*Standing* of a chunk: over its three best sentences, bearing × (.2 + the best promise of a name in it, relative to the best
of all). These are the scripted agents' rules (`reading.Reader`) but for two things that keep a step cheap: words are weighed
by their rarity in the corpus instead of among the chunks met, so that nothing is read twice, and only a chunk's weightiest
sentences count.
"""

from __future__ import annotations

from itertools import accumulate
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.core.records import Turn
from agentgym.envs.prune_search.features import FEATURES, FOLLOWED, OVERLAP, PLACE, SENTENCE, TOKENS
from agentgym.envs.prune_search.ledger import Sighting
from agentgym.envs.prune_search.notes import MILLION, NAMES, SENTENCES, Ints, Library, Reading, longer, wider

_COLUMNS: list[Any] = [
    ("turn", np.int64),  # when the chunk was seen last
    ("live", np.bool_),
    ("document", np.int64),
    ("title", np.int64),  # number as a name
    ("row", np.float64, (len(FEATURES),)),  # features that change only when the chunk is seen again or followed
]


class Sums(NamedTuple):
    """Running sums over chunks in some order: `masks[i]` the question's terms in the first i; of the first i + 1, `sentence`
    the best sentence's share of the question's weight, `standing` relative to the best of all, `tokens` as shares of the
    budget."""

    masks: list[int]
    sentence: NDArray[np.float64]
    standing: NDArray[np.float64]
    tokens: NDArray[np.float64]


class Pages:
    """Chunks met, numbered in order of meeting.

    `table` has a row a chunk; `chunks`, `masks` (the question's terms, as bits), `titles`, `readings` and `prunes` (the turn
    that prunes it) are lists beside it. After `settle`: `standing` (n,), `relative` (n,) to the best of all; `live` numbers
    of the chunks in view by standing, ties in order of meeting; `before` and `after` are running sums over them from the
    best and from the last.
    """

    def __init__(self, library: Library, titles: list[str], budget_tokens: int | None) -> None:
        self.table: NDArray[Any] = np.zeros(64, dtype=_COLUMNS)
        # Sentences of each page, and names in each; the short axes come first, where NumPy reduces quickly.
        self._bearings: Ints = np.zeros((SENTENCES, 64), dtype=np.int64)
        self._named: Ints = np.zeros((NAMES, SENTENCES, 64), dtype=np.int64)
        self.number: dict[str, int] = {}
        self.chunks: list[str] = []
        self.masks: list[int] = []
        self.titles: list[str] = []
        self.readings: list[Reading] = []
        self.prunes: list[Turn] = []
        self.documents: list[str] = []
        self.sizes: list[int] = []
        self.met_mask = 0
        self._followed = titles
        self._budget = budget_tokens
        self._library = library
        self._document_number: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.chunks)

    def see(self, seen: Sighting, reading: Reading) -> int:
        """Take note of a chunk shown; a longer or shorter text of a known one takes its place. Returns its number."""
        number = self.number.get(seen.chunk)
        if number is None:
            number = self.number[seen.chunk] = len(self.chunks)
            self.chunks.append(seen.chunk)
            self.masks.append(reading.mask)
            self.titles.append(reading.title)
            self.readings.append(reading)
            self.prunes.append(self._library.prune(seen.chunk))
            if number == len(self.table):
                self.table = longer(self.table, 2 * number)
                self._bearings, self._named = wider(self._bearings, 2 * number), wider(self._named, 2 * number)
        self.masks[number], self.readings[number] = reading.mask, reading
        self.met_mask |= reading.mask
        row = [0.0] * len(FEATURES)
        row[OVERLAP], row[SENTENCE], row[PLACE] = reading.overlap, reading.best, 1 / (1 + seen.place)
        row[FOLLOWED] = any(title in reading.title for title in self._followed)
        row[TOKENS] = seen.tokens / self._budget if self._budget else 0.0
        document = self._document(seen.chunk)
        self.table[number] = (seen.turn, True, document, reading.title_name, row)
        self._bearings[:, number] = reading.bearings
        self._named[:, :, number] = reading.named
        return number

    def _document(self, chunk: str) -> int:
        document = self._library.document(chunk)
        number = self._document_number.get(document)
        if number is None:
            number = self._document_number[document] = len(self.documents)
            self.documents.append(document)
            self.sizes.append(self._library.size(document))
        return number

    def follow(self, title: str) -> None:
        """A lead was asked for: chunks whose title holds it count as followed."""
        self._followed.append(title)
        rows = [number for number, own in enumerate(self.titles) if title in own]
        self.table["row"][rows, FOLLOWED] = 1.0

    def show(self, live: dict[str, Sighting]) -> None:
        """Set which chunks are in view."""
        self.table["live"] = False
        self.table["live"][[self.number[chunk] for chunk in live]] = True

    def weigh(self, promise: Ints, top: int) -> None:
        """Work out the standing of all chunks from the promise of names."""
        count = len(self.chunks)
        share = promise.take(self._named[:, :, :count]).max(axis=0) / max(1, top)
        values = np.sort(self._bearings[:, :count] * (0.2 + share), axis=0)
        self.standing: NDArray[Any] = np.round((values[-1] + values[-2] + values[-3]) / MILLION, 6)
        self.top = float(self.standing.max(initial=0.0))
        self.relative: NDArray[Any] = self.standing / self.top if self.top else self.standing

    def settle(self) -> None:
        """Order the chunks in view by standing."""
        numbers = np.flatnonzero(self.table["live"][: len(self.chunks)])
        self.live: list[int] = numbers[np.argsort(-self.standing[numbers], kind="stable")].tolist()
        self.before, self.after = self.sums(self.live), self.sums(self.live[::-1])

    def sums(self, numbers: list[int]) -> Sums:
        """Running sums over these chunks."""
        rows = self.table["row"][numbers]
        return Sums(
            list(accumulate([self.masks[number] for number in numbers], or_, initial=0)),
            np.maximum.accumulate(rows[:, SENTENCE]),
            np.cumsum(self.relative[numbers]),
            np.cumsum(rows[:, TOKENS]),
        )

    def best(self, limit: int) -> list[int]:
        """Numbers of the best chunks met, in view or not."""
        best: list[int] = np.argsort(-self.standing, kind="stable")[:limit].tolist()
        return best

    def open_documents(self, limit: int) -> list[tuple[int, int, int]]:
        """Documents that are not wholly in view, as (number, chunks that are not, number of its best chunk met), those
        with the best chunk first."""
        count = len(self.chunks)
        if len(self.live) == sum(self.sizes):
            return []
        documents, live = self.table["document"][:count], self.table["live"][:count]
        hidden = np.array(self.sizes) - np.bincount(documents[live], minlength=len(self.sizes))
        found: dict[int, int] = {}
        for number in np.argsort(-self.standing, kind="stable").tolist():
            document = int(documents[number])
            if hidden[document] > 0 and document not in found:
                found[document] = number
                if len(found) == limit:
                    break
        return [(document, int(hidden[document]), number) for document, number in found.items()]
