"""The names that one episode has read, as columns of a table.

- *evidence* of a name: over the clues, the best squared share that a sentence with this name holds, summed.
- *promise* of a name: its evidence, and .6 of the best evidence of a lead asked for that stands in one sentence with it.

All in millionths, as integers. The rules are the scripted agents' (see `pages`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.envs.prune_search.notes import Ints, Question, Reading, longer, wider


class Leads:
    """Names read, by their numbers in the question.

    `table` has a row a name: its `strongest` share of a clue, `mentions` (chunks), `source` (number of
    the page with its strongest sentence), `asked` (searched for). `coverage` (C,) is, for each clue, the best share that a
    sentence met holds. After `weigh`: `evidence` and `promise` (names,), the `top` promise, and leads
    in order of promise, ties by name, those without promise left out, at most `limit`: `fresh` not asked for, `asked` for,
    and `best` of both. `open` counts names not asked for.
    """

    def __init__(self, question: Question, limit: int) -> None:
        self._question = question
        self._limit = limit
        clues = len(question.clues)
        columns: list[Any] = [
            ("strongest", np.int64),
            ("mentions", np.int64),
            ("source", np.int64),
            ("asked", np.bool_),
        ]
        self._known = [question.lead(name) for name in question.names]
        self.table: NDArray[Any] = np.zeros(2 * len(question.leads) + 64, dtype=columns)
        self._best: Ints = np.zeros((clues, len(self.table)), dtype=np.int64)
        self.coverage: Ints = np.zeros(clues, dtype=np.int64)
        self._pairs: list[Ints] = []

    def read(self, page: int, reading: Reading, before: Reading | None) -> None:
        """Take note of a chunk's names; `before` is what was read of it earlier."""
        if len(self._question.leads) > len(self.table):
            size = 2 * len(self._question.leads)
            self.table, self._best = longer(self.table, size), wider(self._best, size)
        np.maximum(self.coverage, reading.coverage, out=self.coverage)
        names, table = reading.names, self.table
        if before is not None:
            table["mentions"][before.names] -= 1
        if not len(names):
            return
        self._best[:, names] = np.maximum(self._best[:, names], reading.shares)
        strongest = reading.shares.max(axis=0)
        better = strongest > table["strongest"][names]
        table["strongest"][names[better]] = strongest[better]
        table["source"][names[better]] = page
        table["mentions"][names] += 1
        if reading.pairs.size:
            self._pairs.append(reading.pairs)

    def ask(self, name: int) -> bool:
        """A lead was asked for; returns whether it is the first time."""
        first = not self.table["asked"][name]
        self.table["asked"][name] = True
        return first

    def weigh(self) -> None:
        """Work out evidence, promise, and the order of leads."""
        table = self.table
        self.evidence: Ints = self._best.sum(axis=0)
        self.promise: Ints = self.evidence
        asked = table["asked"]
        if self._pairs and asked.any():
            self._pairs = [np.concatenate(self._pairs, axis=1)]
            first, second = self._pairs[0][:, asked[self._pairs[0][0]]]
            beside = np.zeros_like(self.evidence)
            np.maximum.at(beside, second, self.evidence[first])
            self.promise = self.evidence + 6 * beside // 10
        self.top = int(self.promise.max())
        self.open = int(np.count_nonzero(table["mentions"]) - np.count_nonzero(asked))
        promise = self.promise.copy()
        promise[self._known] = 0
        self.fresh = self._top(np.where(asked, 0, promise), self._limit)
        self.asked = self._top(np.where(asked, promise, 0), self._limit) if asked.any() else []
        both = sorted(self.fresh + self.asked, key=lambda lead: (-promise[lead], self._question.leads[lead]))
        self.best = both[: self._limit]

    def _top(self, promise: Ints, limit: int) -> list[int]:
        rows = np.flatnonzero(promise)
        if len(rows) > limit:
            values = promise[rows]
            rows = rows[values >= np.partition(values, len(rows) - limit)[len(rows) - limit]]
        pairs = zip(promise[rows].tolist(), rows.tolist(), strict=True)
        names = self._question.leads
        return [row for _, row in sorted(pairs, key=lambda pair: (-pair[0], names[pair[1]]))[:limit]]
