"""Faults planted in good tasks are found, each by its kind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agentgym.core.records import Task, Truth
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Chunk
from agentgym.corpus.tasks import TaskSet
from agentgym.synthesis.search.build import generate
from agentgym.synthesis.search.clues import broken_rules
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.verify import Kind, holds, verify

Fault = Callable[[dict[str, Any], dict[str, Any], dict[str, Chunk], dict[str, str]], None]
"""Changes task and truth (as builtins), chunks and documents in place."""


@pytest.fixture(scope="module")
def taskset() -> TaskSet:
    return generate(3, 8, Settings(split="dev", regions=4, page_tokens=(300, 900)))


def altered_item_quote(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["items"][0]["item_quotes"] = ["Nothing of the kind was ever recorded in these pages."]


def altered_clue_quote(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["items"][1]["clue_quotes"] = ["was mistaken for something else entirely"] * 3


def truth_missing(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    """The page no longer says what the truth quote says."""
    item = next(item for item in truth["items"] if item.get("truth_quotes"))
    chunk = chunks[item["chunk"]]
    text = chunk.text.replace(item["truth_quotes"][0], "It never came to that.")
    chunks[item["chunk"]] = msgspec.structs.replace(chunk, text=text)


def no_item_holds_truth(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    for item in truth["items"]:
        item["truth_quotes"] = []


def truth_in_distractors(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    """In another form: the distinct part of the name alone, in lower case."""
    for id in truth["distractors"][:3]:
        documents[id] += f" It recalls what they say of {truth['cores'][0].lower()}."


def too_few_distractors(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["distractors"] = truth["distractors"][:7]


def leaked_name(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["question"] += f" It is {truth['entities'][0]}."
    task["prompt"] += f" It is {truth['entities'][0]}."


def leaked_year(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["question"] += " it was in 1921."
    task["prompt"] += " it was in 1921."


def too_long(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["clues"][0] += " It was old. It was grey."
    task["prompt"] = " ".join([*truth["clues"], truth["question"]])


def prompt_altered(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    task["prompt"] = task["prompt"].replace(".", ";", 1)


def broken_bridge(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    for item in truth["items"]:
        if item["level"] == 1:
            item["bridge"] = truth["items"][0]["chunk"]


def duplicate_support(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["items"][1] = truth["items"][0]


def missing_support(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    del truth["items"][1]


def unknown_chunk(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["relevant"].append("w99999_0")


def another_answer(task: Any, truth: Any, chunks: Any, documents: Any) -> None:
    truth["answer"] = "Somebody Else"


FAULTS: dict[Fault, Kind] = {
    altered_item_quote: Kind.ITEM_QUOTE,
    altered_clue_quote: Kind.CLUE_QUOTE,
    truth_missing: Kind.TRUTH_QUOTE,
    no_item_holds_truth: Kind.NO_TRUTH,
    truth_in_distractors: Kind.DISTRACTORS,
    too_few_distractors: Kind.DISTRACTORS,
    leaked_name: Kind.RULE,
    leaked_year: Kind.RULE,
    too_long: Kind.RULE,
    prompt_altered: Kind.PROMPT,
    broken_bridge: Kind.BRIDGE,
    duplicate_support: Kind.DUPLICATE,
    missing_support: Kind.SUPPORT,
    unknown_chunk: Kind.UNKNOWN_CHUNK,
    another_answer: Kind.NO_TRUTH,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_is_found_in_every_task(fault: Fault, taskset: TaskSet) -> None:
    tokens = counter("o200k")
    all_chunks = {chunk.id: chunk for document in taskset.documents for chunk in chunk_document(document, tokens)}
    tried = 0
    for task, truth in zip(taskset.tasks, taskset.truths, strict=True):
        if fault is broken_bridge and task.payload["hops"] == 1:
            continue
        if fault is truth_in_distractors and not truth.payload["cores"][0]:
            continue
        raw_task, raw_truth = msgspec.to_builtins(task), msgspec.to_builtins(truth)
        raw_truth["payload"] = copy.deepcopy(raw_truth["payload"])
        chunks, documents = dict(all_chunks), {document.id: document.text for document in taskset.documents}
        fault(raw_task, raw_truth["payload"], chunks, documents)
        problems = verify(
            msgspec.convert(raw_task, Task), msgspec.convert(raw_truth, Truth), chunks, documents, 8, _cores(taskset)
        )
        assert FAULTS[fault] in {problem.kind for problem in problems}
        tried += 1
    assert tried >= 4


def _cores(taskset: TaskSet) -> set[str]:
    names = {name for truth in taskset.truths for name in truth.payload["entities"]}
    return {word.lower() for name in names for word in name.split() if word[0].isupper()} - {"the", "of", "and"}


@pytest.mark.parametrize(
    "text",
    ["on 3 May 1921", "on May 3, 1921 it", "the 3rd of May 1921", "1921-05-03", "03.05.1921", "3 may, 1921", "May 3rd 1921"],
)  # fmt: skip
def test_a_date_is_known_in_any_notation(text: str) -> None:
    assert holds("3 May 1921", "", text)


@pytest.mark.parametrize("text", ["13 May 1921", "3 May 1920", "3 June 1921", "May 1921", "31921"])
def test_another_date_is_not(text: str) -> None:
    assert not holds("3 May 1921", "", text)


@pytest.mark.parametrize("text", ["I. Marbrook", "MARBROOK's", "the Marbrooks? no: marbrook", "Ilse Marbrook"])
def test_a_name_is_known_by_its_own_part(text: str) -> None:
    assert holds("Ilse Marbrook", "Marbrook", text)
    assert not holds("Ilse Marbrook", "Marbrook", "Ilse Marbrooke and Ilse")


def test_clue_rules() -> None:
    good = "Somebody lived by the sea. It was cold."
    assert broken_rules([good], "Who was it?", {"marbrook"}) == []
    assert broken_rules([good], "Who was it in 1921?", set())
    assert broken_rules([good], "Who was it, if not Ilse?", set())
    assert broken_rules([good], "Marbrook was who?", {"marbrook"})
    assert broken_rules([good], "Who lost a quiet ledger?", {"quiet ledger"})
    assert broken_rules([good + " One. Two."], "Who was it?", set())
