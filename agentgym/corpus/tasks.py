"""Task sets on disk: a corpus, the tasks over it, and in a file of its own the truth.

A folder holds `corpus.jsonl`, `tasks.jsonl`, `truth.jsonl` (each may end in `.gz`) and `manifest.json`, which is written
last: a folder without it is an unfinished build. Each file opens with a header line that names its schema. Hashes are those
of the *uncompressed* bytes, because two versions of zlib may compress alike text differently.
"""

from __future__ import annotations

import gzip
import io
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agentgym.core.errors import CorpusError, DataError, InfraError, Tampered
from agentgym.core.hashing import canonical, digest, sha256, taskset_digest
from agentgym.core.records import Record, Task, Truth, upgrade
from agentgym.corpus.document import Document

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = "taskset/1"
SCHEMAS = {"corpus": "corpus/1", "tasks": "tasks/1", "truth": "truth/1"}
T = TypeVar("T", Document, Task, Truth)


class TaskSet(Record, frozen=True):
    """Tasks with the documents that they are asked over. `truths` is empty where scoring has not asked for them.

    `manifest` says where the set comes from: generator, version, seed, settings, counts; `write_taskset` adds the hashes.
    """

    name: str
    documents: tuple[Document, ...]
    tasks: tuple[Task, ...]
    truths: tuple[Truth, ...] = ()
    manifest: dict[str, Any] = {}

    def hashes(self) -> dict[str, str]:
        """SHA-256 of each file's uncompressed bytes; `taskset` over the tasks' own hashes, which trajectories carry."""
        parts: dict[str, Sequence[Record]] = {"corpus": self.documents, "tasks": self.tasks, "truth": self.truths}
        hashes = {kind: sha256(_lines(SCHEMAS[kind], rows)) for kind, rows in parts.items()}
        return hashes | {"taskset": taskset_digest({task.id: task.digest() for task in self.tasks})}

    def digest(self) -> str:
        """One hash for all of it: equal digests mean equal corpus, tasks and truth. This is what suites pin."""
        return digest(self.hashes())


def write_taskset(taskset: TaskSet, folder: Path, *, compress: bool = False) -> dict[str, Any]:
    """Write a task set into `folder` (made if missing; files of the same names are replaced) and return its manifest.

    Raises InfraError when the disk refuses, DataError when tasks and truths do not belong together.
    """
    _check(taskset)
    hashes = taskset.hashes()
    manifest = {
        **taskset.manifest,
        "schema": MANIFEST_SCHEMA,
        "name": taskset.name,
        "counts": {"documents": len(taskset.documents), "tasks": len(taskset.tasks)},
        "hashes": hashes,
        "digest": digest(hashes),
    }
    rows: dict[str, Sequence[Record]] = {"corpus": taskset.documents, "tasks": taskset.tasks, "truth": taskset.truths}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, records in rows.items():
            plain, packed = folder / f"{kind}.jsonl", folder / f"{kind}.jsonl.gz"
            data = _lines(SCHEMAS[kind], records)
            _replace(packed if compress else plain, _gzip(data) if compress else data)
            (plain if compress else packed).unlink(missing_ok=True)
        _replace(folder / MANIFEST, msgspec.json.format(canonical(manifest), indent=2) + b"\n")
    except OSError as error:
        raise InfraError(f"cannot write task set {taskset.name!r} to {folder}: {error}") from error
    return manifest


def read_taskset(folder: Path, *, truths: bool = False) -> TaskSet:
    """Read a task set, checking each file against its hash. The truth file is opened only when asked for.

    Raises DataError for a missing or malformed file, Tampered where bytes do not agree with the manifest.
    """
    manifest = read_manifest(folder)
    taskset = TaskSet(
        name=str(manifest["name"]),
        documents=tuple(_read(folder, "corpus", Document, manifest)),
        tasks=tuple(_read(folder, "tasks", Task, manifest)),
        truths=tuple(_read(folder, "truth", Truth, manifest)) if truths else (),
        manifest=manifest,
    )
    _check(taskset)
    return taskset


def read_truths(folder: Path) -> dict[str, Truth]:
    """Truth by task id: for scoring, and for the oracle that is explicitly given it."""
    return {truth.id: truth for truth in _read(folder, "truth", Truth, read_manifest(folder))}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a task-set folder."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, Any])
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no {MANIFEST}: no task set, or a build that did not finish; build it again"
        ) from error
    except msgspec.MsgspecError as error:
        raise DataError(f"{folder / MANIFEST} is not readable: {error}; build the set again") from error
    upgrade(str(manifest.get("schema")), MANIFEST_SCHEMA)
    missing = {"name", "hashes", "digest"} - manifest.keys()
    if missing:
        raise DataError(f"{folder / MANIFEST} lacks {', '.join(sorted(missing))}; build the set again")
    return manifest


def _lines(schema: str, rows: Iterable[Record]) -> bytes:
    return b"".join(canonical(row) + b"\n" for row in [{"schema": schema}, *rows])


def _gzip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0, filename="") as file:
        file.write(data)
    return buffer.getvalue()


def _replace(path: Path, data: bytes) -> None:
    """Write beside and rename: a reader sees the old file or the new one, never half of one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read(folder: Path, kind: str, record: type[T], manifest: dict[str, Any]) -> list[T]:
    path = folder / f"{kind}.jsonl"
    try:
        if path.is_file():
            data = path.read_bytes()
        else:
            path = folder / f"{kind}.jsonl.gz"
            data = gzip.decompress(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"{folder} holds no {kind}.jsonl(.gz); build the set again") from error
    except (OSError, EOFError) as error:
        raise Tampered(f"{path} cannot be read: {error}; build the set again") from error
    lines = data.splitlines()
    try:
        header = msgspec.json.decode(lines[0] if lines else b"{}", type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise DataError(f"{path}:1 is no header line: {error}") from error
    upgrade(header.get("schema", ""), SCHEMAS[kind])
    if sha256(data) != manifest["hashes"].get(kind):
        raise Tampered(f"{path} does not agree with the hash in {MANIFEST}; build the set again")
    decoder = msgspec.json.Decoder(record)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            rows.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise DataError(f"{path}:{number}: {error}") from error
    return rows


def _check(taskset: TaskSet) -> None:
    """Ids are unique, and each truth is of a task; tasks without a truth are allowed (they are played, not scored)."""
    kinds = {
        "document": [document.id for document in taskset.documents],
        "task": [task.id for task in taskset.tasks],
        "truth": [truth.id for truth in taskset.truths],
    }
    for kind, ids in kinds.items():
        twice = next((id for id, count in Counter(ids).items() if count > 1), None)
        if twice is not None:
            raise CorpusError(f"{kind} id {twice!r} occurs twice in task set {taskset.name!r}")
    tasks = set(kinds["task"])
    stray = next((id for id in kinds["truth"] if id not in tasks), None)
    if stray is not None:
        raise DataError(f"task set {taskset.name!r}: truth {stray!r} is of no task in it")
