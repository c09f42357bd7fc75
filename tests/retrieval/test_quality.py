"""Recall on real corpora with judgements, at document level: the figures of DESIGN §3 are reached by the defaults."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from agentgym.corpus.document import Document
from agentgym.retrieval.index import Index


def recall_at_10(index: Index, queries: list[dict[str, object]]) -> float:
    total = 0.0
    for item in queries:
        gold = set(item["gold"])  # type: ignore[call-overload]
        found = dict.fromkeys(index.chunk(row).doc for row in index.search(str(item["query"]), 50))
        total += len(gold & set(list(found)[:10])) / len(gold)
    return total / len(queries)


def load(folder: Path, name: str) -> tuple[list[Document], list[dict[str, object]]]:
    with gzip.open(folder / f"{name}.corpus.jsonl.gz", "rt") as lines:
        documents = [Document(row["_id"], row["text"]) for row in map(json.loads, lines)]
    return documents, json.loads((folder / f"{name}.queries.json").read_text())


@pytest.mark.timeout(900)  # the model embeds some 20 abstracts a second on one core
@pytest.mark.parametrize(("name", "lexical", "hybrid"), [("hotpotqa100", 0.885, 0.90), ("cranfield225", 0.445, 0.48)])
def test_recall(name: str, lexical: float, hybrid: float, real_data: Path, tmp_path: Path) -> None:
    documents, queries = load(real_data, name)
    words = Index.build(documents, tmp_path / "words", retrieval="lexical")
    assert recall_at_10(words, queries) >= lexical
    assert len(words.documents) == len(documents)
    both = Index.build(documents, tmp_path / "both")
    assert recall_at_10(both, queries) >= hybrid
