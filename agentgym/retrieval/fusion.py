"""Reciprocal rank fusion: rankings from scorers that share no scale become one, by ranks alone.

The same function fuses the legs of a search (rows), named sources (rows), and the answers of several rollouts of one
task ("4x" in reference/reports.md §1; chunk ids).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

RRF_K = 60
DEPTH = 50

Item = TypeVar("Item", int, str)


def rrf_scores(rankings: Iterable[Sequence[Item]], *, k: int = RRF_K, depth: int = DEPTH) -> dict[Item, float]:
    """Fused score of each item: the sum over rankings of 1 / (k + rank), ranks from 1, the first `depth` counted.

    An item that a ranking repeats counts once, at its best rank. Sums are exactly rounded, so that neither the order of
    the rankings nor the machine can break a tie. k = 60 and depth 50 are DESIGN §3's, measured on HotpotQA.
    """
    terms: dict[Item, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking[:depth]), start=1):
            terms.setdefault(item, []).append(1.0 / (k + rank))
    return {item: math.fsum(parts) for item, parts in terms.items()}


def rrf(rankings: Iterable[Sequence[Item]], *, k: int = RRF_K, depth: int = DEPTH) -> list[Item]:
    """All items of the rankings, best fused score first; ties by the item itself (row or id), ascending."""
    scores = rrf_scores(rankings, k=k, depth=depth)
    return sorted(scores, key=lambda item: (-scores[item], item))
