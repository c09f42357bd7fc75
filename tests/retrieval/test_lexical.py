"""BM25 engines: parity, ties, masks, hostile queries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.retrieval.lexical import Leg, best_rows, build_lexical, open_lexical, tokenise

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "brown bears eat berries; foxes eat berries too",
    "a lazy afternoon by the river",
    "",
    "rivers run through brown valleys",
    "a lazy afternoon by the river",
    "dogs bark at the passing caravan",
    "the caravan goes on",
]
ENGINES = ["bm25s", "rank-bm25", "tantivy"]


def leg(engine: str, texts: list[str], folder: Path) -> Leg:
    build_lexical(engine, lambda: texts, folder)
    return open_lexical(engine, lambda: texts, folder, len(texts))


@pytest.fixture(params=ENGINES)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Leg:
    return leg(request.param, TEXTS, tmp_path)


def test_words_are_folded_stemmed_and_stopped() -> None:
    assert tokenise("The Foxes, a fox & I: running rivers' x2") == ["fox", "fox", "run", "river", "x2"]
    assert tokenise("\x00 \ud800 ...") == []


def test_finds_and_breaks_ties_by_row(small: Leg) -> None:
    rows, scores = small.top("lazy river", 5)
    assert rows[:2].tolist() == [2, 5]  # equal texts: the earlier row first
    assert scores[0] == scores[1]
    assert (np.diff(scores) <= 0).all()
    assert small.top("lazy river", 1)[0].tolist() == [2]


def test_never_returns_what_does_not_match_or_is_masked(small: Leg) -> None:
    allowed = np.ones(len(TEXTS), dtype=bool)
    allowed[[2, 4]] = False
    rows, scores = small.top("river", 8, allowed)
    assert rows.tolist() == [5]
    assert (scores > 0).all()
    assert small.top("river", 8, np.zeros(len(TEXTS), dtype=bool))[0].tolist() == []


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zzzz", "\x00", "🦊", "\ud800"])
def test_odd_queries_find_nothing(small: Leg, query: str) -> None:
    rows, scores = small.top(query, 5)
    assert len(rows) == len(scores) == 0
    assert small.score(query, np.array([0, 3])).tolist() == [0, 0]


def test_a_repeated_word_costs_no_more_than_one(small: Leg) -> None:
    assert small.top("fox " * 50_000, 3)[0].tolist() == small.top("fox", 3)[0].tolist()
    assert small.top("fox", 0)[0].tolist() == []


def test_score_agrees_with_top(small: Leg) -> None:
    rows, scores = small.top("brown foxes eating berries by the river", 8)
    assert small.score("brown foxes eating berries by the river", rows) == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_without_a_word(engine: str, tmp_path: Path) -> None:
    assert leg(engine, ["", "the", "!?"], tmp_path).top("anything", 3)[0].tolist() == []


def test_a_corpus_of_two_pages_can_be_searched(tmp_path: Path) -> None:
    """Okapi's idf is nought or negative for every word here."""
    found = leg("bm25s", ["the river bends north", "the river bends south"], tmp_path)
    assert found.top("which river bends south", 2)[0].tolist() == [1, 0]


def test_bm25s_equals_rank_bm25_on_real_text(real_data: Path, tmp_path: Path) -> None:
    with gzip.open(real_data / "hotpotqa100.corpus.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    queries = [item["query"] for item in json.loads((real_data / "hotpotqa100.queries.json").read_text())]
    ours, reference = leg("bm25s", texts, tmp_path), leg("rank-bm25", texts, tmp_path)
    words = [set(tokenise(text)) for text in texts]
    everywhere = np.arange(len(texts))
    compared = 0
    for query in queries:
        if any(2 * sum(word in text for text in words) >= len(texts) for word in set(tokenise(query))):
            continue
        compared += 1
        assert np.abs(ours.score(query, everywhere) - reference.score(query, everywhere)).max() < 1e-5
        assert ours.top(query, 10)[0].tolist() == reference.top(query, 10)[0].tolist()
    assert compared >= 95


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text("ab cd", max_size=30).map(lambda t: t.replace("a", "ant ").replace("b", "bee ")),
        min_size=1,
        max_size=20,
    ),
    st.text("ab ", max_size=12).map(lambda t: t.replace("a", "ant ").replace("b", "bee ")),
    st.integers(1, 25),
    st.data(),
)
def test_kernel_equals_sorting_all_scores(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int, data: st.DataObject
) -> None:
    engine = leg("bm25s", texts, tmp_path_factory.mktemp("kernel"))
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))))
    scores = engine.score(query, np.arange(len(texts)))
    assert engine.top(query, k, allowed)[0].tolist() == best_rows(scores, k, allowed & (scores > 0)).tolist()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=40), st.integers(0, 45))
def test_best_rows_is_a_stable_sort(values: list[float], k: int) -> None:
    scores = np.array(values)
    expected = sorted(range(len(values)), key=lambda row: (-values[row], row))[:k]
    assert best_rows(scores, k, None).tolist() == expected
