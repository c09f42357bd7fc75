"""Conformance checks for our environments and anyone's: what an environment must keep so that its scores can be trusted.

    from agentgym.testing import check_env, check_integrity, check_replay
    check_env(env); check_replay(env); check_integrity(env)

Each raises AssertionError that names the task and what was violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import gymnasium.utils.env_checker
import msgspec

from agentgym.agents.base import Agent
from agentgym.core.hashing import canonical
from agentgym.core.records import Status, ToolCall, Trajectory, Turn
from agentgym.core.seeding import generator
from agentgym.envs.base import ToolEnv, run
from agentgym.harness.sampling import random_turn
from agentgym.rollouts.manifest import EpisodeRow, Planned
from agentgym.rollouts.play import Player
from agentgym.rollouts.replay import replay

FLOOR_AGENTS = ("null", "random", "malformed")


def check_env(env: ToolEnv, *, seeds: Iterable[int] = range(3), turns: int = 50) -> None:
    """Gymnasium's own checker; then exact determinism: the same seed and actions give the same bytes."""
    gymnasium.utils.env_checker.check_env(env, skip_render_check=True)
    for seed in seeds:
        first, second = _lived(env, seed, turns), _lived(env, seed, turns)
        assert first == second, f"{env.name}, seed {seed}: the same seed and actions gave other views, rewards or infos"


def check_replay(env: ToolEnv, agents: Sequence[Agent | str] = FLOOR_AGENTS, *, tasks: int = 3) -> None:
    """Live score equals re-score equals replayed score, every view hash is equal again, and an altered turn is noticed."""
    for agent in agents:
        for row, trajectory in play(env, agent, tasks=tasks):
            where = f"{env.name}, task {row.task}, agent {agent if isinstance(agent, str) else agent.name}"
            assert row.status is Status.COMPLETED, f"{where}: {row.status}: {row.error}"
            again = env.outcome(trajectory)
            assert again.score == row.score, f"{where}: re-scored {again.score.value}, live {row.score.value}"
            found = replay(env, trajectory, score=row.score)
            assert not found.problems, f"{where}: {found.problems[0]}"
            altered = _altered(trajectory)
            assert replay(env, altered).problems, f"{where}: replay did not notice an altered turn"


def check_integrity(env: ToolEnv, *, tasks: int = 3) -> None:
    """Agents that know nothing score nothing, hostile turns never raise, and no truth is told at the start."""
    for agent in ("null", "malformed"):
        for row, _ in play(env, agent, tasks=tasks):
            assert not row.score.value, f"{env.name}, task {row.task}: the {agent} agent scores {row.score.value}"
    for task in env.tasks[:tasks]:
        told = canonical([env.open(task.id).view.messages, env.specs, task]).decode()
        for secret in _secrets(env, task.id):
            assert secret not in told, (
                f"{env.name}, task {task.id}: the opening tells {secret!r}, which only truth should hold"
            )
        env.reset(seed=0, options={"task": task.id})
        for turn in _hostile(env):
            terminated = env.step(turn)[2]
            if terminated:
                env.reset(seed=0, options={"task": task.id})


def play(env: ToolEnv, agent: Agent | str, *, tasks: int = 3) -> list[tuple[EpisodeRow, Trajectory]]:
    """Play an agent over the first tasks of an environment."""
    player = Player(env, agent)

    async def work() -> list[tuple[EpisodeRow, Trajectory]]:
        return [await player.play(Planned(task.id, 0, 0)) for task in env.tasks[:tasks]]

    return run(work())


def _lived(env: ToolEnv, seed: int, turns: int) -> list[tuple[str, float, bool, bytes]]:
    """View id, reward, end and info of each turn of random play."""
    rng = generator(seed, "check-env")
    view, info = env.reset(seed=seed)
    lived = [(view.id, 0.0, False, canonical(info))]
    for _ in range(turns):
        view, reward, terminated, truncated, info = env.step(random_turn(env.specs, rng))
        lived.append((view.id, float(reward), terminated, canonical(info)))
        if terminated or truncated:
            break
    return lived


def _altered(trajectory: Trajectory) -> Trajectory:
    first, *rest = trajectory.steps
    turn = msgspec.structs.replace(first.turn, content=first.turn.content + " altered")
    return msgspec.structs.replace(trajectory, steps=(msgspec.structs.replace(first, turn=turn), *rest))


def _secrets(env: ToolEnv, task_id: str) -> list[str]:
    """Texts of a task's truth that are long enough to be no accident."""
    truth = env.truths.get(task_id)
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str) and len(value) >= 8:
            found.append(value)
        elif isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item)

    if truth is not None:
        payload = {
            key: value for key, value in truth.payload.items() if key in {"answer", "answer_ids", "relevant", "key"}
        }
        walk(payload)
    return found


def _hostile(env: ToolEnv) -> list[Turn]:
    names = [spec.name for spec in env.specs]
    arguments = ("", "{", "null", "[]", '{"x": 1}', "\ud800", "\x00", '{"a": ' * 2000, "9" * 5000)
    turns = [
        Turn(tool_calls=(ToolCall("c", name, text),)) for name in [*names, "no_such_tool", ""] for text in arguments
    ]
    turns += [
        Turn(tool_calls=tuple(ToolCall("c", "no_such_tool", "{}") for _ in range(10_000))),
        Turn(malformed="unreadable"),
        Turn(reasoning="\ud800", tool_calls=(ToolCall("", "", ""),)),
        Turn("x" * 1_000_000),
    ]
    return turns
