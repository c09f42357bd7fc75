"""What an index is on disk: a manifest that pins every file, and writes that a kill cannot tear.

A folder holds an index if and only if it holds `manifest.json`, which is written last. Opening checks the manifest's
own seal, every file's size, and the SHA-256 of small files; `check_files(whole=True)` reads everything.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agentgym.core import hashing
from agentgym.core.errors import ConfigError, IndexDamaged, InfraError
from agentgym.core.records import Record
from agentgym.retrieval.settings import Settings

MANIFEST = "manifest.json"
SCHEMA = "index/1"
_HASHED_AT_OPEN_BYTES = 1 << 20

Progress = Callable[[str, int, int], None]
"""Told `(stage, done, total)` while an index is built."""


class Manifest(Record, frozen=True):
    """An index's table of contents.

    `files` maps each name to its size in bytes and its SHA-256; `rerank` is `settings.rerank` with `auto` decided;
    `seal` is the hash of all other fields.
    """

    schema: str
    hash: str
    corpus: str
    settings: Settings
    documents: int
    chunks: int
    tokens: int
    sources: tuple[str, ...]
    rerank: str
    versions: dict[str, str]
    files: dict[str, tuple[int, str]]
    seal: str = ""

    def sealed(self) -> Manifest:
        """This manifest with its seal."""
        bare = msgspec.structs.replace(self, seal="")
        return msgspec.structs.replace(bare, seal=hashing.digest(bare))


def index_hash(corpus: str, settings: Settings) -> str:
    """What pins an index: its corpus and settings, not its vectors, whose last bits differ by machine."""
    return hashing.digest({"schema": SCHEMA, "corpus": corpus, "settings": hashing.bare(settings)})


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write canonical JSON, whole or not at all."""
    write_bytes(path, hashing.canonical(value))


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.save(file, array)
    partial.replace(path)


def write_blocks(path: Path, length: int, blocks: Iterator[NDArray[Any]]) -> None:
    """Write blocks that share their type and all but their first axis as one array of `length`, whole or not at all.

    Through a file, not a map: a full disk is an error here, and would be a fatal signal there.
    """
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        for i, block in enumerate(blocks):
            if i == 0:
                header = {"descr": block.dtype.str, "fortran_order": False, "shape": (length, *block.shape[1:])}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(block).data)
    partial.replace(path)


def map_array(path: Path) -> NDArray[Any]:
    """A saved array, memory-mapped read-only, as a plain ndarray (memmap's subclass slows every slice)."""
    empty = path.stat().st_size <= 128
    return np.asarray(np.load(path, mmap_mode=None if empty else "r"))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index. Raises ConfigError where there is none, IndexDamaged for a broken one."""
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        unfinished = (folder / "building.json").exists()
        hint = (
            "its build was interrupted: build it again, what is done is kept"
            if unfinished
            else "build one with Index.build"
        )
        raise ConfigError(f"{folder} holds no index; {hint}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IndexDamaged(f"{path}: {error}; {_REBUILD}") from None
    if manifest.schema != SCHEMA or manifest.sealed() != manifest:
        raise IndexDamaged(f"{path}: its contents do not agree with its seal or schema {SCHEMA!r}; {_REBUILD}")
    return manifest


_REBUILD = "delete the folder and build the index again"


def check_files(folder: Path, manifest: Manifest, *, whole: bool) -> None:
    """Compare files with the manifest: all sizes, the hashes of small files (`whole`: of all). Raises IndexDamaged."""
    for name, (size, sha256) in sorted(manifest.files.items()):
        path = folder / name
        if not path.is_file():
            raise IndexDamaged(f"index {folder}: {name} is missing; {_REBUILD}")
        found = path.stat().st_size
        if found != size:
            raise IndexDamaged(f"index {folder}: {name} has {found:,} bytes, not {size:,}; {_REBUILD}")
        if (whole or size <= _HASHED_AT_OPEN_BYTES) and hashing.file_digest(path) != sha256:
            raise IndexDamaged(f"index {folder}: {name} is altered (its SHA-256 is another); {_REBUILD}")


def describe(folder: Path, name: str) -> tuple[int, str]:
    """Size and SHA-256 of a file, as a manifest has them."""
    path = folder / name
    return path.stat().st_size, hashing.file_digest(path)


@contextlib.contextmanager
def building(folder: Path) -> Iterator[None]:
    """One builder a folder: others wait, and then find the index. What the disk refuses becomes an InfraError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:  # NumPy reports a full disk without its error number, so all of them are told alike
        raise InfraError(
            f"the index at {folder} cannot be written ({error}): free space or permissions, then build it again; "
            "finished parts are kept"
        ) from error
