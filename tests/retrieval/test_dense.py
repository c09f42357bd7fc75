"""Vectors: windows, exactness against faiss, the bundled model, users' functions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from agentgym.core.errors import ConfigError, IndexMismatch
from agentgym.corpus.document import Document
from agentgym.retrieval.dense import Dense, build_vectors
from agentgym.retrieval.embedder import FunctionEmbedder, SentenceEmbedder, load_embedder
from agentgym.retrieval.index import Index
from agentgym.retrieval.settings import BUNDLED


class Given:
    """Stands for a model: queries are numbers of rows of a matrix."""

    def __init__(self, queries: np.ndarray) -> None:
        self.queries = queries
        self.dim = queries.shape[1]

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        return self.queries[int(text)], self.queries[:0]


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_equals_faiss(tmp_path: Path) -> None:
    import faiss

    rng = np.random.default_rng(0)
    vectors, queries = unit(rng, 5000, 48), unit(rng, 20, 48)
    np.save(tmp_path / "vectors.npy", vectors)
    np.save(tmp_path / "windows.npy", np.arange(5001))
    leg = Dense(tmp_path, lambda: Given(queries))  # type: ignore[arg-type,return-value]
    flat = faiss.IndexFlatIP(48)
    flat.add(vectors)
    scores, rows = flat.search(queries, 50)
    for i in range(20):
        found, own = leg.top(str(i), 50)
        assert own == pytest.approx(scores[i], abs=1e-6)
        assert len(set(found.tolist()) & set(rows[i].tolist())) >= 49  # a tie at the cut may fall either way
        assert leg.score(str(i), found) == pytest.approx(own)


def test_a_chunk_scores_as_its_best_window(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    vectors, queries = unit(rng, 300, 16), unit(rng, 5, 16)
    starts = np.unique(np.concatenate([[0, 300], rng.integers(1, 300, 90)]))
    np.save(tmp_path / "vectors.npy", vectors)
    np.save(tmp_path / "windows.npy", starts)
    leg = Dense(tmp_path, lambda: Given(queries))  # type: ignore[arg-type,return-value]
    allowed = rng.random(len(starts) - 1) < 0.5
    for i in range(5):
        best = np.array([(vectors[a:b] @ queries[i]).max() for a, b in itertools.pairwise(starts)])
        rows, scores = leg.top(str(i), 10, allowed)
        assert rows.tolist() == sorted(np.flatnonzero(allowed), key=lambda row: -best[row])[:10]
        assert scores == pytest.approx(best[rows], abs=1e-6)


@pytest.fixture(scope="module")
def model() -> SentenceEmbedder:
    embedder = load_embedder(BUNDLED, "fp32")
    assert isinstance(embedder, SentenceEmbedder)
    return embedder


def test_the_bundled_model_agrees_with_sentence_transformers(model: SentenceEmbedder) -> None:
    texts = ["A river flows north.", "", "Foxes hunt at night, mostly alone."]
    embedded = model.embed(texts, tokens=True)
    expected = model._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert embedded.vectors == pytest.approx(expected, abs=1e-5)
    assert embedded.windows.tolist() == [1, 1, 1]
    assert embedded.tokens.dtype == np.float16
    assert embedded.pieces.tolist() == [5, 1, 8]  # punctuation counts; an empty text keeps one vector of noughts
    lengths = np.linalg.norm(embedded.tokens.astype(np.float32), axis=1)
    assert lengths == pytest.approx([1] * 5 + [0] + [1] * 8, abs=1e-3)
    assert model.embed(texts, tokens=False).vectors == pytest.approx(embedded.vectors, abs=1e-6)


def test_long_texts_are_cut_into_windows_that_lose_nothing(model: SentenceEmbedder) -> None:
    words = [f"word{i} antidisestablishmentarianism" for i in range(400)]
    text = " ".join(words)
    windows = model.windows(text)
    assert "".join(windows) == text
    assert len(windows) > 5
    pieces = [len(model._tokeniser(window)["input_ids"]) for window in windows]
    assert max(pieces) <= 256
    assert min(pieces) > 128
    assert all(window[0] != " " and (i == len(windows) - 1 or window[-1] == " ") for i, window in enumerate(windows))
    for hard in ["x" * 100_000, "汉" * 3000, "!" * 2000, "\n" * 5000, "a\x00" * 900]:
        parts = model.windows(hard)
        assert "".join(parts) == hard
        assert all(len(model._tokeniser(part)["input_ids"]) <= 256 for part in parts)


def test_what_stands_past_256_word_pieces_is_found(model: SentenceEmbedder, tmp_path: Path) -> None:
    filler = "The committee met on Tuesday and discussed the budget of the library at length. "
    corpus = [Document(f"d{i}", filler * 20) for i in range(5)]
    corpus.append(Document("late", filler * 24 + "Octopuses taste with the suckers on their eight arms."))
    index = Index.build(corpus, tmp_path / "i", retrieval="dense", rerank=False)
    assert index.chunk(index.search("what do an octopus's arms sense?", 1)[0]).doc == "late"


def test_query_vectors_are_kept(model: SentenceEmbedder) -> None:
    before = model.query.cache_info()
    first, again = model.query("a question asked twice"), model.query("a question asked twice")
    assert first[0] is again[0]
    assert model.query.cache_info().hits == before.hits + 1
    assert len(first[1]) == 4
    assert len(model.query("long " * 5000)[1]) == 254


def test_bf16_stays_close(model: SentenceEmbedder) -> None:
    texts = ["A river flows north.", "Foxes hunt at night."]
    rough = SentenceEmbedder(BUNDLED, "bf16", "cpu").embed(texts, tokens=False).vectors
    exact = model.embed(texts, tokens=False).vectors
    assert (rough * exact).sum(axis=1).min() > 0.99
    assert np.abs(rough - exact).max() > 0


def test_functions_by_name(tmp_path: Path) -> None:
    from tests.retrieval import vectors

    index = Index.build([Document("a", "red fox"), Document("b", "blue whale")], tmp_path / "i", embedder=vectors.words)
    assert index.settings.embedder == "tests.retrieval.vectors:words"
    assert index.manifest.rerank == "none"
    assert index.search("a blue whale", 1) == [1]
    for name in ["no.such.module:f", "tests.retrieval.vectors:missing"]:
        with pytest.raises(ConfigError, match="cannot be imported"):
            FunctionEmbedder(name)
    with pytest.raises(ConfigError, match=r"gave shape \(8,\) for 1 texts"):
        FunctionEmbedder("tests.retrieval.vectors:wrong_shape")
    with pytest.raises(ConfigError, match="rerank=False"):
        Index.build([Document("a", "red fox")], tmp_path / "j", embedder=vectors.words, rerank=True)


def test_a_model_that_changed_its_size_is_refused(tmp_path: Path) -> None:
    build_vectors(
        ["one", "two"], 2, tmp_path, FunctionEmbedder("tests.retrieval.vectors:words"), False, lambda *_: None
    )
    leg = Dense(tmp_path, lambda: Given(np.ones((1, 7))))  # type: ignore[arg-type,return-value]
    with pytest.raises(IndexMismatch, match="32 numbers, its embedder gives 7"):
        leg.top("0", 1)
