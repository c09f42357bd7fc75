"""Reciprocal rank fusion."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.retrieval.fusion import rrf, rrf_scores

RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), max_size=5)


def test_fuses_by_rank() -> None:
    scores = rrf_scores([[7, 3], [3, 9]])
    assert scores == pytest.approx({7: 1 / 61, 3: 1 / 62 + 1 / 61, 9: 1 / 62})
    assert rrf([[7, 3], [3, 9]]) == [3, 7, 9]


def test_ties_by_item_and_ids_may_be_text() -> None:
    assert rrf([["b"], ["a"]]) == ["a", "b"]
    assert rrf([[10], [9]]) == [9, 10]


def test_depth_cuts_each_ranking_and_repeats_count_once() -> None:
    assert rrf([[1, 2, 3]], depth=2) == [1, 2]
    assert rrf_scores([[5, 5, 5, 6]]) == pytest.approx({5: 1 / 61, 6: 1 / 62})


def test_four_rollouts_fuse() -> None:
    """An item in the middle of every answer beats one at the top of a single answer."""
    answers = [["x1", "common"], ["x2", "common"], ["x3", "common"], ["x4", "common"]]
    assert rrf(answers)[0] == "common"


@given(RANKINGS)
def test_order_of_rankings_plays_no_role(rankings: list[list[int]]) -> None:
    expected = rrf(rankings)
    for permuted in itertools.islice(itertools.permutations(rankings), 24):
        assert rrf(permuted) == expected
    assert sorted(expected) == sorted({item for ranking in rankings for item in ranking})


@given(st.lists(st.integers(0, 99), unique=True, max_size=50))
def test_one_ranking_stays_itself(ranking: list[int]) -> None:
    assert rrf([ranking]) == ranking
