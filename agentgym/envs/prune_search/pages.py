"""The chunks that one episode has met, as rows of a table. For their standing see `leads`."""

from __future__ import annotations

from itertools import accumulate
from operator import or_

import numpy as np
from numpy.typing import NDArray

from agentgym.core.records import Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.leads import Leads
from agentgym.envs.prune_search.ledger import Sighting
from agentgym.envs.prune_search.notes import Library, Reading, longer
from agentgym.envs.prune_search.reading import FOLLOWED_TIMES


class Pages:
    """Chunks met, numbered in order of meeting.

    `rows` (n or more, F) are the features of a chunk, but for those of its kind of candidate, `RANK`, `OPEN`, `USED`,
    `BROUGHT` and `COUNT`. `chunks`, `masks` (the question's terms, as bits), `readings` and `prunes` (the turn that prunes
    it) are lists beside it; `documents`, `sizes` and `reads` (the turn that reads it) are of the documents met.

    After `settle`: `standing` (n,) and the best of all, `top`; `live`, numbers of the chunks in view by standing, ties in
    order of meeting; `before` and `after`: the question's terms in the first i of them, and in the last i.
    """

    def __init__(self, library: Library, titles: list[str], budget_tokens: int | None) -> None:
        self.rows: NDArray[np.float64] = np.zeros((64, len(f.FEATURES)))
        # Of each page when it was seen last, its document, and its title's number as a name.
        self._turn, self._document, self._title = (np.zeros(64, dtype=np.int64) for _ in range(3))
        self._own: NDArray[np.float64] = np.zeros(64)  # standing before its title is followed
        self.number: dict[str, int] = {}
        self.chunks: list[str] = []
        self.masks: list[int] = []
        self.readings: list[Reading] = []
        self.prunes: list[Turn] = []
        self.documents: list[str] = []
        self.sizes: list[int] = []
        self.reads: list[Turn] = []
        self.met_mask = 0
        self.standing: NDArray[np.float64] = np.zeros(0)
        self.top = 0.0
        self._followed = titles
        self._budget = budget_tokens
        self._library = library
        self._document_number: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.chunks)

    def see(self, seen: Sighting, reading: Reading) -> int:
        """Take note of a chunk shown; another text of a known one takes its place. Returns its number."""
        number = self.number.get(seen.chunk)
        if number is None:
            number = self.number[seen.chunk] = len(self.chunks)
            self.chunks.append(seen.chunk)
            self.masks.append(reading.mask)
            self.readings.append(reading)
            self.prunes.append(self._library.prune(seen.chunk))
            self._make_room(number)
            self._document[number] = self._number_document(self._library.document(seen.chunk))
        self.masks[number], self.readings[number] = reading.mask, reading
        self.met_mask |= reading.mask
        self._turn[number], self._title[number] = seen.turn, reading.title_name
        self._own[number] = reading.standing
        row = [0.0] * len(f.FEATURES)
        row[f.OVERLAP], row[f.SENTENCE], row[f.PLACE] = reading.overlap, reading.best, 1 / (1 + seen.place)
        row[f.FOLLOWED] = any(title in reading.title for title in self._followed)
        row[f.TOKENS] = seen.tokens / self._budget if self._budget else 0.0
        row[f.LIVE] = 1.0
        self.rows[number] = row
        return number

    def _make_room(self, number: int) -> None:
        if number == len(self.rows):
            size = 2 * number
            self.rows, self._turn = longer(self.rows, size), longer(self._turn, size)
            self._document, self._title = longer(self._document, size), longer(self._title, size)
            self._own = longer(self._own, size)

    def _number_document(self, document: str) -> int:
        number = self._document_number.get(document)
        if number is None:
            number = self._document_number[document] = len(self.documents)
            self.documents.append(document)
            self.sizes.append(self._library.size(document))
            self.reads.append(self._library.read(document))
        return number

    def follow(self, title: str) -> None:
        """A lead was asked for: chunks whose title holds it count as followed."""
        self._followed.append(title)
        self.rows[[number for number, own in enumerate(self.readings) if title in own.title], f.FOLLOWED] = 1.0

    def show(self, live: dict[str, Sighting]) -> None:
        """Set which chunks are in view."""
        self.rows[:, f.LIVE] = 0.0
        self.rows[[self.number[chunk] for chunk in live], f.LIVE] = 1.0

    def weigh(self, leads: Leads) -> None:
        """Work out the standing of all chunks, and what their titles promise as leads."""
        count, top = len(self.chunks), max(1, leads.top)
        titles, rows = self._title[:count], self.rows[:count]
        self.standing = (self._own[:count] * np.where(rows[:, f.FOLLOWED], FOLLOWED_TIMES, 1.0)).round(6)
        self.top = float(self.standing.max(initial=0.0))
        rows[:, f.STANDING] = self.standing / self.top if self.top else 0.0
        rows[:, f.PROMISE] = leads.promise[titles] / top
        rows[:, f.MENTIONS] = f.mentions(leads.table["mentions"][titles])

    def settle(self, turn: int) -> None:
        """Order the chunks in view by standing, and let all grow older."""
        count = len(self.chunks)
        turns, rows = self._turn[:count], self.rows[:count]
        rows[:, f.AGE] = (turn - turns) / 16
        rows[:, f.NOVELTY] = turns == turn
        numbers = rows[:, f.LIVE].nonzero()[0]
        self.live: list[int] = numbers[(-self.standing[numbers]).argsort(kind="stable")].tolist()
        masks = [self.masks[number] for number in self.live]
        self.before = list(accumulate(masks, or_, initial=0))
        masks.reverse()
        self.after = list(accumulate(masks, or_, initial=0))

    def best(self, limit: int) -> list[int]:
        """Numbers of the best chunks met, in view or not."""
        best: list[int] = (-self.standing).argsort(kind="stable")[:limit].tolist()
        return best

    def open_documents(self, limit: int) -> list[tuple[int, int, int]]:
        """Documents that are not wholly in view, as (number, chunks that are not, number of its best chunk met), those
        with the best chunk first."""
        if len(self.live) == sum(self.sizes):
            return []
        documents = self._document[: len(self.chunks)]
        hidden = (np.array(self.sizes) - np.bincount(documents[self.live], minlength=len(self.sizes))).tolist()
        found: dict[int, int] = {}
        for number in (-self.standing).argsort(kind="stable").tolist():
            document = int(documents[number])
            if hidden[document] > 0 and document not in found:
                found[document] = number
                if len(found) == limit:
                    break
        return [(document, hidden[document], number) for document, number in found.items()]
