"""Rerankers: what orders the best 50 of the fused legs.

`MaxSim` needs no model of its own: late interaction over the embedder's token vectors, zero-shot. Each word piece of
the query takes its most similar piece of the chunk, and the chunk scores the mean of these. Token vectors are made with
the chunk's vector in one pass and kept on disk as float16 (0.8 kB a word piece), which is why it is off for large corpora.

MaxSim is one more vote: its ranking is fused by RRF with those of the legs (recall@10 on HotpotQA .905 → .910, Cranfield
.493 → .500; fused with their fusion .900 and .492, alone .885 and .456). A cross-encoder's order stands as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentgym.retrieval.dense import PIECES, TOKENS
from agentgym.retrieval.embedder import Embedder, quiet
from agentgym.retrieval.files import map_array
from agentgym.retrieval.lexical import Rows, Scores


class Reranker(Protocol):
    """Scores given rows for a query; higher is better."""

    def score(self, query: str, rows: Rows) -> Scores:
        """A score for each row, in the order given."""


class MaxSim:
    """Mean over the query's word pieces of the best cosine in the chunk, in [-1, 1]."""

    def __init__(self, folder: Path, embedder: Callable[[], Embedder]) -> None:
        self._tokens = map_array(folder / TOKENS)
        self._offsets = map_array(folder / PIECES)
        self._embedder = embedder

    def score(self, query: str, rows: Rows) -> Scores:
        _, pieces = self._embedder().query(query)
        if not len(rows) or not len(pieces):
            return np.zeros(len(rows))
        parts = [self._tokens[self._offsets[row] : self._offsets[row + 1]] for row in rows]
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        similar = pieces @ np.concatenate(parts).astype(np.float32).T
        scores: Scores = np.maximum.reduceat(similar, starts, axis=1).astype(np.float64).mean(axis=0)
        return scores


class CrossEncoder:
    """A sentence-transformers cross-encoder, by name or path. `text(row)` gives a chunk's text."""

    def __init__(self, name: str, text: Callable[[int], str]) -> None:
        self._name = name
        self._text = text

    @functools.cached_property
    def _model(self) -> Any:
        from sentence_transformers import CrossEncoder as Model

        with quiet():
            return Model(self._name, device="cpu")

    def score(self, query: str, rows: Rows) -> Scores:
        if not len(rows):
            return np.zeros(0)
        pairs = [(query, self._text(int(row))) for row in rows]
        return np.asarray(self._model.predict(pairs, show_progress_bar=False), dtype=np.float64)
