"""The names that one episode has read, as columns of a table.

The rules are the scripted agents' (`reading.Reader`) with two changes of ours: words are weighed by their rarity in the
corpus instead of among the chunks met, so that nothing has to be read twice; and names gain by evidence, without which a
name that each clue speaks of in another place stands behind one that a single sentence praises (on `sample`, 16 searches by
promise met .85 of what is relevant with it, .79 without). The *bearing* of a text is the largest weight of a clue's terms
in it, as a share of the question's weight.

- *standing* of a chunk: bearing of its best two neighbouring sentences and .3 of the weight of the question's terms in all
  of it; 1.3 times as much for a page about a name that was searched for.
- *evidence* of a name: over the clues, the best squared share that a sentence with this name holds, summed; and .6 of the
  best sum of a lead asked for that stands in one sentence with it.
- *promise* of a name: the bearing of its best sentence, .25 of that chunk's standing, and .3 of its evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.envs.prune_search.notes import Ints, Question, Reading, longer, wider


class Leads:
    """Names read, by their numbers in the question.

    `table` has a row a name: `bearing` of its best sentence with the chunk's share, `mentions` (chunks), `source` (number of
    the page with that sentence), `asked` (searched for). `coverage` (C,) is, for each clue, the best share that a sentence
    met holds. After `weigh`: `evidence` and `promise` (names,), the `top` promise, and leads in order of promise, ties by
    name, those without promise left out, at most `limit`: `fresh` not asked for, `asked` for, and `best` of both. `open`
    counts names not asked for. All shares are in millionths.
    """

    def __init__(self, question: Question, limit: int) -> None:
        self._question = question
        self._limit = limit
        clues = len(question.clues)
        columns: list[Any] = [
            ("bearing", np.int64),
            ("mentions", np.int64),
            ("source", np.int64),
            ("asked", np.bool_),
        ]
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
        better = reading.bearings > table["bearing"][names]
        table["bearing"][names[better]] = reading.bearings[better]
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
        asked = table["asked"]
        if self._pairs and asked.any():
            self._pairs = [np.concatenate(self._pairs, axis=1)]
            first, second = self._pairs[0][:, asked[self._pairs[0][0]]]
            beside = np.zeros_like(self.evidence)
            np.maximum.at(beside, second, self.evidence[first])
            self.evidence = self.evidence + 6 * beside // 10
        self.promise: Ints = table["bearing"] + 3 * self.evidence // 10
        self.top = int(self.promise.max())
        self.open = int(np.count_nonzero(table["mentions"]) - np.count_nonzero(asked))
        self.fresh = self._top(np.where(asked, 0, self.promise), self._limit)
        self.asked = self._top(np.where(asked, self.promise, 0), self._limit) if asked.any() else []
        both = [(-int(self.promise[lead]), self._question.leads[lead], lead) for lead in self.fresh + self.asked]
        self.best = [lead for _, _, lead in sorted(both)[: self._limit]]

    def _top(self, promise: Ints, limit: int) -> list[int]:
        rows = np.flatnonzero(promise)
        if len(rows) > limit:
            values = promise[rows]
            rows = rows[values >= np.partition(values, len(rows) - limit)[len(rows) - limit]]
        names = self._question.leads
        found = [(-value, names[row], row) for value, row in zip(promise[rows].tolist(), rows.tolist(), strict=True)]
        found.sort()
        return [row for _, _, row in found[:limit]]
