"""Task sets and their indexes, opened once a process."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from agentgym.core.errors import ConfigError
from agentgym.core.records import Task, Truth
from agentgym.corpus.tasks import read_manifest, read_taskset
from agentgym.corpus.tasksets import cache_dir, locate, parse_name
from agentgym.retrieval.index import Index

_LOG = logging.getLogger("agentgym")


class LoadedTasks(NamedTuple):
    """Tasks in order, and their truths by id (empty where there are no judgements)."""

    tasks: tuple[Task, ...]
    truths: MappingProxyType[str, Truth]


def load(name: str) -> LoadedTasks:
    """The task set of that name or folder."""
    return _load(locate(name))


@functools.lru_cache(maxsize=8)
def _load(folder: Path) -> LoadedTasks:
    taskset = read_taskset(folder, truths=True)
    return LoadedTasks(taskset.tasks, MappingProxyType({truth.id: truth for truth in taskset.truths}))


def open_index(tasks: str, index: str | None, retrieval: str | None, counter: str) -> Index:
    """The index that an environment searches.

    Args:
        tasks: task set whose corpus is indexed where `index` is not given.
        index: folder of an index that exists.
        retrieval: legs to build; by default the suite's, else `lexical`.
        counter: the profile's token counter, which the index must have counted with.

    Raises:
        ConfigError: the index was counted with another counter, or there is no corpus to index.
    """
    if index is not None:
        if retrieval is not None:
            raise ConfigError(f"give index={index!r} or retrieval={retrieval!r}, not both: an index has its legs")
        opened = Index.open(index)
    else:
        opened = _default_index(locate(tasks), retrieval or _suite_retrieval(tasks), counter)
    if opened.settings.counter != counter:
        raise ConfigError(
            f"the index at {opened.folder} was counted by {opened.settings.counter!r}, the profile counts by {counter!r}; "
            f"build one with counter={counter!r}"
        )
    return opened


def _suite_retrieval(tasks: str) -> str:
    if Path(tasks).is_dir():
        return "lexical"
    return parse_name(tasks)[0].retrieval


@functools.lru_cache(maxsize=8)
def _default_index(folder: Path, retrieval: str, counter: str) -> Index:
    """The index over a task set's own corpus, in the user's cache; built at first use."""
    manifest = read_manifest(folder)
    corpus = str(manifest["hashes"]["corpus"])
    chunk_tokens, slack = _chunking(manifest)
    place = cache_dir() / "indexes" / f"{corpus[:16]}-{retrieval}-{counter}-{chunk_tokens}"
    if (place / "manifest.json").is_file():
        return Index.open(place)
    documents = read_taskset(folder).documents
    if not documents:
        raise ConfigError(f"the task set {folder} has no corpus of its own: give index=, the folder of an Index")
    return Index.build(documents, place, retrieval=retrieval, counter=counter, chunk_tokens=chunk_tokens, slack=slack)


def _chunking(manifest: dict[str, Any]) -> tuple[int, int]:
    """How the set's corpus is cut, since its truth names chunks; 512 tokens and 100 of slack by default (report)."""
    settings = manifest.get("chunking", {})
    return int(settings.get("max_tokens", 512)), int(settings.get("slack", 100))
