"""Fifty recorded episodes that pin what PruneSearch-v0 shows and how it scores.

    python -m tests.envs.prune_search.golden          # compare
    python -m tests.envs.prune_search.golden --write  # record anew

`golden.json` holds the actions themselves, so that scripted agents may grow stronger without touching it. When a leaf id
or a score changes, old results are no longer comparable: release it as the next version of the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from agentgym import testing
from agentgym.core.records import Trajectory, Turn
from agentgym.envs.prune_search.env import PruneSearchEnv

PLACE = Path(__file__).with_name("golden.json")
COUNT = 50
PROFILES = ("24k-eval", "8k")
AGENTS = ("greedy-prune", "informed", "oracle", "greedy", "single-search", "everything", "random")


class Golden(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One episode: what was played, the id of its last view, and what it came to."""

    profile: str
    task: str
    turns: tuple[Turn, ...]
    leaf: str
    score: dict[str, float | None]
    reward: float


class File(msgspec.Struct, frozen=True):
    """`golden.json`: fingerprints by profile, and the episodes."""

    fingerprints: dict[str, str]
    episodes: tuple[Golden, ...]


def read() -> File:
    return msgspec.json.decode(PLACE.read_bytes(), type=File)


def environments() -> dict[str, PruneSearchEnv]:
    """The shipped task set in each profile."""
    return {profile: PruneSearchEnv("sample", profile=profile) for profile in PROFILES}


def lived(env: PruneSearchEnv, task: str, turns: tuple[Turn, ...]) -> Golden:
    """Play recorded actions."""
    episode = env.open(task)
    for turn in turns:
        episode.step_sync(turn)
    return _golden(env, episode.trajectory())


def record() -> File:
    """Play scripted agents over the shipped tasks, the agents in turn."""
    envs = environments()
    episodes: list[Golden] = []
    for number in range(COUNT):
        env = envs[PROFILES[number % len(PROFILES)]]
        env.tasks = env.tasks[1:] + env.tasks[:1]
        ((row, trajectory),) = testing.play(env, AGENTS[number % len(AGENTS)], tasks=1)
        assert row.error is None, row.error
        episodes.append(_golden(env, trajectory))
    return File({profile: env.fingerprint() for profile, env in envs.items()}, tuple(episodes))


def _golden(env: PruneSearchEnv, trajectory: Trajectory) -> Golden:
    outcome = env.outcome(trajectory)
    score: dict[str, Any] = {"value": outcome.score.value, **outcome.score.metrics}
    turns = tuple(step.turn for step in trajectory.steps)
    return Golden(env.profile.name, trajectory.task, turns, trajectory.steps[-1].leaf, score, outcome.reward)


def write(file: File) -> None:
    """One episode a line, so that a change can be read in a diff."""
    lines = [msgspec.json.encode(episode).decode() for episode in file.episodes]
    head = msgspec.json.encode(file.fingerprints).decode()
    PLACE.write_text(f'{{"fingerprints": {head},\n"episodes": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write(record())
    envs = environments()
    kept = read()
    changed = [g for g in kept.episodes if lived(envs[g.profile], g.task, g.turns) != g]
    print(f"{len(kept.episodes)} episodes, {len(changed)} changed")
    sys.exit(bool(changed))
