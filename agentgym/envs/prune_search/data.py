"""Task sets and their indexes, opened once a process."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from agentgym.core.errors import ConfigError, DataError, ToolError
from agentgym.core.records import Record, Task, Truth
from agentgym.corpus.tasks import read_manifest, read_taskset
from agentgym.corpus.tasksets import cache_dir, is_folder, locate, parse_name
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.score import SearchTruth
from agentgym.retrieval.index import Index

_LOG = logging.getLogger("agentgym")


class LoadedTasks(NamedTuple):
    """Tasks in order, and their truths by id (empty where there are no judgements)."""

    tasks: tuple[Task, ...]
    truths: MappingProxyType[str, Truth]


def load(name: str) -> LoadedTasks:
    """The task set of that name or folder.

    Raises:
        DataError: a file is missing, altered or malformed, or a truth is not one of a search task.
    """
    folder = locate(name).resolve()
    return _load(folder, str(read_manifest(folder)["digest"]))


@functools.lru_cache(maxsize=8)
def _load(folder: Path, digest: str) -> LoadedTasks:  # the digest is there for the cache: a rebuilt folder is read anew
    taskset = read_taskset(folder, truths=True)
    for truth in taskset.truths:
        SearchTruth.of(truth)
    return LoadedTasks(taskset.tasks, MappingProxyType({truth.id: truth for truth in taskset.truths}))


def open_index(tasks: str, index: str | None, retrieval: str | None, profile: SearchProfile) -> Index:
    """The index that an environment searches.

    Args:
        tasks: task set whose corpus is indexed where `index` is not given.
        index: folder of an index that exists.
        retrieval: legs to build; by default the suite's, else `lexical`.
        profile: its counter must be the index's; it says how to cut a corpus whose task set does not.

    Raises:
        ConfigError: the index was counted with another counter or cut another way than the truth's chunks, it holds
            nothing of what the truth names, or there is no corpus to index.
    """
    folder = locate(tasks).resolve()
    cut = _cut(read_manifest(folder), profile)
    if index is not None:
        if retrieval is not None:
            raise ConfigError(f"give index={index!r} or retrieval={retrieval!r}, not both: an index has its legs")
        opened = Index.open(index)
    else:
        opened = _default_index(folder, retrieval or _suite_retrieval(tasks), cut)
    if opened.settings.counter != profile.counter:
        raise ConfigError(
            f"the index at {opened.folder} was counted by {opened.settings.counter!r}, profile {profile.name!r} counts "
            f"by {profile.counter!r}: build one with counter={profile.counter!r}, or take another profile"
        )
    _check_truths(load(tasks).truths, opened, cut)
    return opened


def _suite_retrieval(tasks: str) -> str:
    return "lexical" if is_folder(tasks) else parse_name(tasks)[0].retrieval


class Cut(Record, frozen=True):
    """How documents are cut into chunks."""

    counter: str
    max_tokens: int
    slack: int


def _cut(manifest: dict[str, Any], profile: SearchProfile) -> Cut:
    """As the task set pins it, whose truth may name chunks; else as the profile says."""
    pinned = manifest.get("chunking")
    if pinned is None:
        return Cut(profile.counter, profile.chunk_tokens, profile.chunk_slack)
    try:
        cut = msgspec.convert(pinned, Cut)
    except msgspec.ValidationError as error:
        raise DataError(f"manifest of task set {manifest['name']!r}: chunking {pinned}: {error}") from None
    if cut.counter != profile.counter:
        raise ConfigError(
            f"task set {manifest['name']!r} is cut by counter {cut.counter!r}, profile {profile.name!r} counts by "
            f"{profile.counter!r}: take a profile or a task set that fits the other"
        )
    return cut


def _default_index(folder: Path, retrieval: str, cut: Cut) -> Index:
    """The index over a task set's own corpus, in the user's cache; built at first use."""
    corpus = str(read_manifest(folder)["hashes"]["corpus"])
    name = "-".join(map(str, (corpus[:16], retrieval, *astuple(cut))))
    place = cache_dir() / "indexes" / name
    if (place / "manifest.json").is_file():
        return Index.open(place)
    documents = read_taskset(folder).documents
    if not documents:
        raise ConfigError(f"the task set {folder} has no corpus of its own: give index=, the folder of an Index")
    _LOG.info("building the %s index of %s (%d documents) in %s", retrieval, folder, len(documents), place)
    return Index.build(
        documents,
        place,
        retrieval=retrieval,
        counter=cut.counter,
        chunk_tokens=cut.max_tokens,
        slack=cut.slack,
    )


def _check_truths(truths: Mapping[str, Truth], index: Index, cut: Cut) -> None:
    """Refuse an index in which the truth cannot be met: every score would be 0, and nobody would know why.

    Chunk ids must all be there, cut as the truth's were. Of documents one that is there will do: public judgements name
    some that their corpus lacks.
    """
    documents = {entry.id for entry in index.documents}
    some_document: str | None = None
    for truth in truths.values():
        known = SearchTruth.of(truth)
        if known.level == "document":
            if documents.isdisjoint(known.relevant):
                some_document = some_document or next(iter(known.relevant), None)
                continue
            return
        settings = index.settings
        if Cut(settings.counter, settings.chunk_tokens, settings.slack) != cut:
            raise ConfigError(
                f"the truth names chunks of {cut.max_tokens} tokens (+{cut.slack}, {cut.counter}), the index at "
                f"{index.folder} is cut by {settings.chunk_tokens} (+{settings.slack}, {settings.counter}): build it alike"
            )
        for chunk in known.relevant:
            try:
                index.row(chunk)
            except ToolError:
                raise ConfigError(
                    f"truth {truth.id!r} names chunk {chunk!r}, which the index at {index.folder} does not hold: "
                    "build the index over the task set's own corpus"
                ) from None
    if some_document is not None:
        raise ConfigError(
            f"the index at {index.folder} holds none of the judged documents, such as {some_document!r}; its ids are "
            f"like {index.documents[0].id!r}: is it over another corpus?"
        )
