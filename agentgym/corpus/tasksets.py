"""Named task sets: `suite/split`, pinned by hash, found in the package or built on this machine at first use.

A suite file (`benchmarks/suites/*.toml`, in the wheel as package data) says what a suite is made of and how it is run: a
task set and corpus a split, pinned by hash, and the protocol (environment, profile, trials, seeds, scorer version). Small
sets ship as package data; others are generated from their seeds into the user's cache by the `builder` that the file
names, and refused if their hash is not the pinned one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentgym.core.errors import ConfigError, IndexMismatch, InfraError, UnknownName
from agentgym.core.hashing import digest
from agentgym.core.records import Record
from agentgym.corpus.tasks import MANIFEST, read_manifest

_PACKAGE = Path(__file__).resolve().parent.parent / "data"
_CHECKOUT_SUITES = Path(__file__).resolve().parents[2] / "benchmarks" / "suites"

_LOG = logging.getLogger("agentgym")

Builder = Callable[[str, str, Path], None]
"""Makes a task set: `builder(suite, split, folder)`."""


class SplitPin(Record, frozen=True):
    """A split of a suite: how many tasks, and the one hash of corpus, tasks and truth (`TaskSet.digest`)."""

    tasks: int
    digest: str


class Suite(Record, frozen=True, kw_only=True):
    """A suite file. `retrieval` says which legs its index has; `builder` is `module:function` for sets not in the package."""

    id: str
    title: str
    family: str
    env: str
    profile: str
    splits: dict[str, SplitPin]
    default_split: str = "test"
    trials: int = 1
    seed_base: int = 0
    scorer: str = "1"
    retrieval: str = "hybrid"
    builder: str | None = None

    def split(self, name: str) -> SplitPin:
        """The split of that name."""
        if name not in self.splits:
            raise UnknownName(f"split of suite {self.id}", name, self.splits)
        return self.splits[name]


def cache_dir() -> Path:
    """Where built task sets and indexes live: `AGENTGYM_CACHE`, else `$XDG_CACHE_HOME/agentgym`, else `~/.cache/agentgym`."""
    named = os.environ.get("AGENTGYM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym"


@functools.lru_cache(maxsize=1)
def suites() -> dict[str, Suite]:
    """All suites by id."""
    folder = _CHECKOUT_SUITES if _CHECKOUT_SUITES.is_dir() else _PACKAGE / "suites"
    found = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            suite = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Suite)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise ConfigError(f"suite file {path}: {error}") from None
        found[suite.id] = suite
    return found


def parse_name(name: str) -> tuple[Suite, str]:
    """`suite` or `suite/split` → the suite and the split's name."""
    suite_id, _, split = name.partition("/")
    known = suites()
    if suite_id not in known:
        raise UnknownName("suite or folder", name, known)
    suite = known[suite_id]
    split = split or suite.default_split
    suite.split(split)
    return suite, split


def is_folder(name: str) -> bool:
    """Whether a name means a folder: one that holds a task set, or that is there and no suite is called so."""
    folder = Path(name)
    if (folder / MANIFEST).is_file():
        return True
    return folder.is_dir() and name.partition("/")[0] not in suites()


def locate(name: str) -> Path:
    """Folder of a task set: a folder given as such, the package's, the cache's; built there when it is not yet.

    Args:
        name: a folder, or `suite[/split]`.

    Raises:
        UnknownName: no such suite or split.
        IndexMismatch: what was built, shipped or cached is not what the suite file pins.
        InfraError: the cache cannot be written to.
    """
    if is_folder(name):
        return Path(name)
    suite, split = parse_name(name)
    pin = suite.split(split)
    shipped = _PACKAGE / suite.id / split
    cached = cache_dir() / "tasks" / f"{suite.id}-{split}-{pin.digest[:12]}"
    for folder in (shipped, cached):
        if folder.is_dir():
            _check_pin(folder, f"{suite.id}/{split}", pin)
            return folder
    if suite.builder is None:
        raise ConfigError(f"{name}: not in the package, and its suite file names no builder")
    _LOG.info("building %s/%s (%d tasks) into %s", suite.id, split, pin.tasks, cached)
    _build(suite, split, cached)
    return cached


def _build(suite: Suite, split: str, folder: Path) -> None:
    """Build a split beside its place and move it there once it has proved to be what the suite file pins."""
    module, _, function = str(suite.builder).partition(":")
    try:
        builder: Builder = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"suite {suite.id!r}: builder {suite.builder!r} cannot be loaded: {error}") from error
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    except OSError as error:
        raise InfraError(f"cannot write to the cache: {error}; set AGENTGYM_CACHE to a folder that can be") from error
    try:
        builder(suite.id, split, scratch)
        _check_pin(scratch, f"{suite.id}/{split}", suite.split(split))
        with contextlib.suppress(OSError):  # another process was quicker
            scratch.rename(folder)
        if not folder.is_dir():
            raise InfraError(f"cannot move the built task set to {folder}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_pin(folder: Path, name: str, pin: SplitPin) -> None:
    """Refuse a set that is not the pinned one; its files are checked against these hashes when they are read."""
    made = digest(read_manifest(folder)["hashes"])
    if made != pin.digest:
        raise IndexMismatch(
            f"{name} in {folder} has digest {made[:12]}, the suite file pins {pin.digest[:12]}: "
            "this agentgym's generator or data is not the suite's; delete the folder, and use one version of agentgym"
        )
