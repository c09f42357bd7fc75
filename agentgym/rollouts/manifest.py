"""What a run folder says about a run: how it was made (`run.json`) and how each episode ended (`episodes.jsonl`).

Statistics, reports and exports read these two records and nothing else, so that a run can be looked at without the
environment, its index or its task set. Whatever depends on the clock or the machine stands here and in no hash.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agentgym.core.records import Record, Score, Status, StopReason, Usage

RUN_SCHEMA = "run/1"
EPISODES_SCHEMA = "episodes/1"

Tag = str | int | float | bool
Key = tuple[str, int]
"""`(task, trial)`: what identifies an episode within a run."""

_CIRCUMSTANCES = frozenset({"versions", "machine", "date", "command"})
_DISTRIBUTIONS = (
    "agentgym-suite",
    "gymnasium",
    "numpy",
    "msgspec",
    "tiktoken",
    "bm25s",
    "faiss-cpu",
    "sentence-transformers",
    "torch",
)


class Planned(NamedTuple):
    """One episode of the plan; `[task, trial, seed]` on disk."""

    task: str
    trial: int
    seed: int


class RunManifest(Record, frozen=True):
    """How a run was made; file `run.json`, schema `run/1`.

    `episodes` is the whole plan and so the denominator of every mean. `taskset` is the hash of the task set,
    `fingerprint` that of environment, profile, tools, prompts, index, counter and scorer. `protocol` is `standard` for
    the pinned limits and counter of a suite, `custom` for anything else. `date` is ISO 8601; `versions` and `machine`
    are those of the start: a resumed run keeps them.
    """

    env: str
    agent: str
    profile: str
    episodes: tuple[Planned, ...]
    env_kwargs: dict[str, str] = {}
    suite: str = ""
    split: str = ""
    taskset: str = ""
    model: str | None = None
    trials: int = 1
    fingerprint: str = ""
    counter: str = ""
    protocol: Literal["standard", "custom"] = "standard"
    versions: dict[str, str] = {}
    machine: dict[str, str] = {}
    date: str = ""
    command: str = ""

    def difference(self, other: RunManifest) -> str | None:
        """First field in which `other` is another run, with both values; None for the same run.

        Date, command, machine and versions may differ: a run may be continued tomorrow, elsewhere. Our choice, since
        whatever changes a score is in the fingerprint.
        """
        for field in self.__struct_fields__:
            mine, theirs = getattr(self, field), getattr(other, field)
            if field not in _CIRCUMSTANCES and mine != theirs:
                if field == "episodes":
                    mine, theirs = _first_difference(mine, theirs)
                return f"{field} is {_clip(mine)} there and {_clip(theirs)} here"
        return None


class EpisodeRow(Record, frozen=True):
    """How one episode ended; a line of `episodes.jsonl`, schema `episodes/1`.

    `reward` is the sum of `reward_terms`. `context_tokens_peak` is the fullest context by the run's counter, `wall_s`
    seconds by the wall clock, `cost_usd` None where no price is known. `tags` are what tables group by (`hops`,
    `domain`). `error` is the exception of an episode that broke, shortened by the runner. The store fills in
    `trajectory` (final link of its hash chain, also its file name; empty when there is none), `file` (SHA-256 of the
    compressed bytes) and `ext` (the trajectory's own, which stands outside its hash).
    """

    task: str
    trial: int
    seed: int
    status: Status
    stop: StopReason | None = None
    score: Score = Score(None)
    reward: float | None = None
    reward_terms: dict[str, float] = {}
    usage: Usage = Usage()
    context_tokens_peak: int = 0
    wall_s: float = 0.0
    steps: int = 0
    trajectory: str = ""
    file: str = ""
    cluster: str = ""
    tags: dict[str, Tag] = {}
    cost_usd: float | None = None
    error: str | None = None
    ext: dict[str, Any] = {}

    @property
    def key(self) -> Key:
        """`(task, trial)`."""
        return self.task, self.trial


def _first_difference(mine: tuple[Planned, ...], theirs: tuple[Planned, ...]) -> tuple[object, object]:
    if len(mine) != len(theirs):
        return f"a plan of {len(mine)}", f"a plan of {len(theirs)}"
    return next((tuple(a), tuple(b)) for a, b in zip(mine, theirs, strict=True) if a != b)


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python, agentgym and of those installed libraries that can change a result."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name.removesuffix("-suite")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that this run did without
    return found


@functools.cache
def machine() -> dict[str, str]:
    """CPU model, usable cores and operating system, for `RunManifest.machine`."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"cpu": cpu, "cores": str(cores), "os": platform.platform(terse=True)}
