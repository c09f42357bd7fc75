"""The closed vocabulary: small enough, and each task one that can be done."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from agentgym.core.errors import ConfigError
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.tasks import TaskSet
from agentgym.synthesis.search.build import RECIPES
from agentgym.synthesis.search.tiny import CHUNK_SLACK, CHUNK_TOKENS, generate_tiny, verify_tiny


@pytest.fixture(scope="module")
def splits() -> dict[str, TaskSet]:
    recipes = {split: recipe for (suite, split), recipe in RECIPES.items() if suite == "tiny"}
    return {split: generate_tiny(seed, count, split) for split, (seed, count, _) in recipes.items()}


def test_vocabulary_is_closed_and_small(splits: dict[str, TaskSet]) -> None:
    texts = [d.text for part in splits.values() for d in part.documents]
    texts += [task.prompt for part in splits.values() for task in part.tasks]
    assert len({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text)}) <= 600


def test_sizes(splits: dict[str, TaskSet]) -> None:
    words = counter("words")
    for part in splits.values():
        for document in part.documents:
            (chunk,) = chunk_document(document, words, CHUNK_TOKENS, CHUNK_SLACK)
            assert chunk.tokens <= 32
        assert max(words.count(task.prompt) for task in part.tasks) <= 24


def test_tasks(splits: dict[str, TaskSet]) -> None:
    for part in splits.values():
        documents = {document.id: document for document in part.documents}
        hops = Counter(task.payload["hops"] for task in part.tasks)
        assert min(hops[1], hops[2]) >= len(part.tasks) // 4
        for task, truth in zip(part.tasks, part.truths, strict=True):
            assert verify_tiny(task, truth, documents) == []
            assert len(truth.payload["relevant"]) == task.payload["hops"]
            assert not any(name in task.prompt for name in truth.payload["entities"])


def test_splits_share_no_entity(splits: dict[str, TaskSet]) -> None:
    names = [{document.title for document in part.documents} for part in splits.values()]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]


def test_a_fault_is_named(splits: dict[str, TaskSet]) -> None:
    part = splits["dev"]
    documents = {document.id: document for document in part.documents}
    truth = part.truths[0]
    wrong = msgspec.structs.replace(truth, payload={**truth.payload, "quotes": ["No such page."] * 2})
    wrong.payload["quotes"] = wrong.payload["quotes"][: len(truth.payload["relevant"])]
    assert verify_tiny(part.tasks[0], wrong, documents)
    astray = msgspec.structs.replace(truth, payload={**truth.payload, "answer": "Nobody Here"})
    assert verify_tiny(part.tasks[0], astray, documents)


def test_too_many_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match="5000"):
        generate_tiny(5, 5000, "dev")
