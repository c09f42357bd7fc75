"""The dense leg: exact inner products of the query's vector with every window; a chunk scores as its best window.

One matrix-vector product over the memory-mapped vectors. faiss's flat index takes the same time (10 ms at 100,000
windows of 384 numbers on one core: both wait for memory), but wants a copy of the vectors and knows neither windows nor
masks, so NumPy it is; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import IndexMismatch
from agentgym.retrieval.embedder import Embedded, Embedder
from agentgym.retrieval.files import Progress, map_array, write_blocks
from agentgym.retrieval.lexical import Mask, Rows, Scores, best_rows

VECTORS, WINDOWS = "vectors.npy", "windows.npy"
TOKENS, PIECES = "tokens.npy", "pieces.npy"
SHARD = 256
"""Chunks a shard: the most that a killed build does again."""


class Dense:
    """Exact search over unit vectors, float32 (windows, dim); `windows.npy` has each chunk's first window and the end."""

    def __init__(self, folder: Path, embedder: Callable[[], Embedder]) -> None:
        self._vectors = map_array(folder / VECTORS)
        self._starts = map_array(folder / WINDOWS)[:-1]
        self._single = len(self._starts) == len(self._vectors)
        self._embedder = embedder
        self._last: tuple[str, NDArray[np.float32]] = ("", np.zeros(0, dtype=np.float32))

    def top(self, query: str, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        scores = self._scores(query)
        rows = best_rows(scores, k, allowed)
        return rows, scores[rows].astype(np.float64)

    def score(self, query: str, rows: Rows) -> Scores:
        return self._scores(query)[rows].astype(np.float64)

    def _scores(self, query: str) -> NDArray[np.float32]:
        """Score of every chunk. The last query's are kept: each named source asks for them again."""
        last_query, last_scores = self._last
        if query == last_query and len(last_scores):
            return last_scores
        vector, _ = self._embedder().query(query)
        if len(vector) != self._vectors.shape[1]:
            raise IndexMismatch(
                f"the index has vectors of {self._vectors.shape[1]} numbers, its embedder gives {len(vector)}: build it again"
            )
        scores = self._vectors @ vector
        if not self._single:
            scores = np.maximum.reduceat(scores, self._starts)
        self._last = (query, scores)
        return scores


def build_vectors(
    texts: Iterable[str], chunks: int, folder: Path, embedder: Embedder, tokens: bool, report: Progress
) -> None:
    """Embed texts in shards, each kept as soon as it is done, then join the shards."""
    group: list[str] = []
    shard = 0
    for row, text in enumerate(texts, start=1):
        group.append(text)
        if len(group) == SHARD or row == chunks:
            path = _shard(folder, shard)
            if not path.exists():
                _write_shard(path, embedder.embed(group, tokens=tokens))
            report("vectors", row, chunks)
            shard, group = shard + 1, []
    shards = [_shard(folder, i) for i in range(shard)]
    _join(shards, "vectors", folder / VECTORS)
    _join_offsets(shards, "windows", folder / WINDOWS)
    if tokens:
        _join(shards, "tokens", folder / TOKENS)
        _join_offsets(shards, "pieces", folder / PIECES)
    for path in shards:
        path.unlink()


def _shard(folder: Path, number: int) -> Path:
    return folder / f"shard.{number:06d}.npz"


def _write_shard(path: Path, embedded: Embedded) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, **embedded._asdict())
    partial.replace(path)


def _read(path: Path, field: str) -> NDArray[Any]:
    with np.load(path) as shard:
        array: NDArray[Any] = shard[field]
        return array


def _join(shards: list[Path], field: str, path: Path) -> None:
    count_field = {"vectors": "windows", "tokens": "pieces"}[field]
    length = sum(int(_read(shard, count_field).sum()) for shard in shards)
    blocks: Iterator[NDArray[Any]] = (_read(shard, field) for shard in shards)
    write_blocks(path, length, blocks)


def _join_offsets(shards: list[Path], field: str, path: Path) -> None:
    counts = np.concatenate([_read(shard, field) for shard in shards])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    write_blocks(path, len(offsets), iter([offsets]))
