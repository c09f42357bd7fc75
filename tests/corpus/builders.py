"""Builders of task sets that suite files in tests name."""

from __future__ import annotations

from pathlib import Path

from agentgym.core.records import Task, Truth
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet, write_taskset

CALLS: list[tuple[str, str]] = []


def taskset(suite: str, split: str) -> TaskSet:
    return TaskSet(
        f"{suite}-{split}",
        (Document("d0", "The comet returns in May."),),
        (Task(f"{split}0", "prune-search", "When does the comet return?"),),
        (Truth(f"{split}0", "prune-search", {"level": "document", "relevant": ["d0"]}),),
    )


def build(suite: str, split: str, folder: Path) -> None:
    CALLS.append((suite, split))
    write_taskset(taskset(suite, split), folder)


def build_while_another_does(suite: str, split: str, folder: Path) -> None:
    """Another process finishes the same set first."""
    build(suite, split, folder)
    done = folder.parent / folder.name.removeprefix(".").rpartition("-")[0]
    write_taskset(taskset(suite, split), done)


def build_another(suite: str, split: str, folder: Path) -> None:
    """A generator that has changed since the suite was pinned."""
    write_taskset(taskset(suite, "changed"), folder)


def break_off(suite: str, split: str, folder: Path) -> None:
    (folder / "corpus.jsonl").write_text("half of ")
    raise KeyboardInterrupt
