"""`ToolEnv`: what makes an environment out of tools, tasks and a score.

A subclass says which tools an episode has (`toolset`), how it opens (`opening`), and how a trajectory scores (`score`).
It is then a `gymnasium.Env`, a factory of Episodes for the asynchronous runner, and replayable, with nothing to add.
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from agentgym.agents.base import Agent
from agentgym.agents.simple import MalformedAgent, NullAgent, RandomAgent
from agentgym.core.errors import ConfigError, EpisodeOver, UnknownName
from agentgym.core.graph import View
from agentgym.core.hashing import bare, digest, taskset_digest
from agentgym.core.records import Message, Record, Score, Task, Trajectory, Truth, Turn
from agentgym.envs.spaces import TurnSpace, ViewSpace
from agentgym.harness.effects import EffectLog
from agentgym.harness.episode import Episode
from agentgym.harness.profiles import Profile
from agentgym.harness.text import render_message
from agentgym.harness.tool import Toolset

T = TypeVar("T")


class Outcome(Record, frozen=True):
    """What an episode came to: its score, and the training reward with the terms that sum to it."""

    score: Score
    reward: float
    terms: dict[str, float]


class ToolEnv(gym.Env[View, Turn]):
    """Base class of text environments.

    Args:
        tasks: the task set, in the order that seeds select from.
        profile: limits of an episode.
        truths: what scoring knows, by task id; a task without truth scores None.
        reward: the environment's reward settings, a frozen record.
        render_mode: `"ansi"` or None.

    Observation: a `View`. Action: a `Turn`. `reset(seed=s)` alone plays task `order[s % n]`;
    `reset(options={"task": id})` names one. `info` holds `task` and `usage`; at the end also `score`, `metrics`,
    `reward_terms` and `stop`. The limits are part of the task, so they end an episode as `terminated`; `truncated` is for
    cuts from outside.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # type: ignore[misc]
    name: ClassVar[str]
    family: ClassVar[str]
    scorer_version: ClassVar[str] = "1"
    tools: type[Toolset]
    agents: ClassVar[Mapping[str, Callable[[Any], Agent]]] = {
        "null": lambda env: NullAgent(),
        "random": lambda env: RandomAgent(),
        "malformed": lambda env: MalformedAgent(),
    }

    def __init__(
        self,
        tasks: Sequence[Task],
        profile: Profile,
        *,
        truths: Mapping[str, Truth] | None = None,
        reward: Record | None = None,
        render_mode: str | None = None,
    ) -> None:
        if not tasks:
            raise ConfigError(f"{self.name}: the task set is empty")
        if render_mode not in (None, "ansi"):
            raise ConfigError(f"{self.name}: render_mode={render_mode!r} is not offered; use 'ansi' or None")
        self.tasks = tuple(tasks)
        self.profile = profile
        self.truths: Mapping[str, Truth] = truths or {}
        self.reward_config = reward
        self.render_mode = render_mode
        self._by_id = {task.id: task for task in self.tasks}
        if len(self._by_id) != len(self.tasks):
            raise ConfigError(f"{self.name}: task ids are not unique")
        self._offered = self.offered()
        self.specs = self.tools.specs(self._offered)
        self.observation_space = ViewSpace()
        self.action_space = TurnSpace(self.specs)
        self.episode: Episode | None = None
        self._generator: np.random.Generator | None = None
        self._unseeded = False

    # -- what a subclass says -----------------------------------------------------------------------------------------

    @abstractmethod
    def toolset(self, task: Task, seed: int) -> Toolset:
        """The tools of one episode, with their state. What is drawn at random is drawn by `np.random.default_rng(seed)`."""

    @abstractmethod
    def opening(self, task: Task) -> Sequence[Message]:
        """Messages before the first turn."""

    @abstractmethod
    def score(self, task: Task, truth: Truth, trajectory: Trajectory) -> Score:
        """How well the task was done. Pure: reads its arguments and nothing else."""

    def reward_terms(self, truth: Truth, trajectory: Trajectory, score: Score) -> dict[str, float]:
        """Named terms of the training reward; their sum is the reward. Default: the score."""
        return {"outcome": score.value or 0.0}

    def offered(self) -> Sequence[str] | None:
        """Names of the tools that agents are told of; None for all."""
        return None

    def agent(self, name: str) -> Agent:
        """The scripted agent of that name.

        Raises:
            UnknownName: this environment has none of that name.
        """
        if name not in self.agents:
            raise UnknownName("agent", name, self.agents)
        return self.agents[name](self)

    # -- episodes -----------------------------------------------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        """The task of that id.

        Raises:
            UnknownName: there is none; the message lists near misses.
        """
        if task_id not in self._by_id:
            raise UnknownName("task", task_id, self._by_id)
        return self._by_id[task_id]

    def open(self, task_id: str, seed: int = 0, effects: EffectLog | None = None) -> Episode:
        """A new episode of a task: the one that `reset(seed=seed, options={"task": task_id})` would start."""
        return self._open(self.task(task_id), seed, effects)

    def _open(self, task: Task, seed: int, effects: EffectLog | None = None) -> Episode:
        return Episode(
            task,
            self.toolset(task, seed),
            self.profile,
            self.opening(task),
            seed=seed,
            offered=self._offered,
            effects=effects,
        )

    def outcome(self, trajectory: Trajectory) -> Outcome:
        """Score and reward of a trajectory: of a live episode, a stored or a replayed one alike."""
        truth = self.truths.get(trajectory.task)
        if truth is None:
            return Outcome(Score(None), 0.0, {})
        score = self.score(self._by_id[trajectory.task], truth, trajectory)
        terms = self.reward_terms(truth, trajectory, score)
        return Outcome(score, sum(terms.values()), terms)

    def fuse(self, trajectories: Sequence[Trajectory]) -> Score:
        """Score of several rollouts of one task taken as one answer ("4x"), where an environment says how."""
        raise ConfigError(f"{self.name} does not say how rollouts of a task are fused")

    def fingerprint(self) -> str:
        """Hash of all that may change a score: environment id, profile, tool specs, prompts, data, scorer."""
        probe = self.opening(Task("probe", self.family, "probe"))
        return digest(
            [self.name, bare(self.profile), self.specs, [m.text for m in probe], self.data_hash(), self.scorer_version]
        )

    def data_hash(self) -> str:
        """Hash of what the tools work on (an index, a repository); empty where tasks hold it all."""
        return ""

    def taskset_hash(self) -> str:
        """Hash of the task set: over the tasks' own hashes, whatever their order."""
        return taskset_digest({task.id: task.digest() for task in self.tasks})

    def set_reward(self, config: Record) -> None:
        """Replace the reward settings; takes effect with the next episode that ends."""
        if type(config) is not type(self.reward_config):
            raise ConfigError(
                f"{self.name}: reward settings must be a {type(self.reward_config).__name__}, not {type(config).__name__}"
            )
        self.reward_config = config

    # -- gymnasium ----------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[View, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: alone it selects the task `order[seed % n]`; without one a task is drawn from `np_random`.
            options: `{"task": id}` names the task.
        """
        if type(seed) is int and seed >= 0:
            self._np_random_seed, self._unseeded = seed, True
        else:
            super().reset(seed=seed)  # says what is wrong with a seed
        named = self._named_task(options) if options else None
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self.episode = episode = self._open(named or self.tasks[seed % len(self.tasks)], seed)
        return episode.view, _info(episode)

    # Gymnasium seeds its generator at every `reset(seed=...)`, which takes a third of an episode of eight turns. Few draw
    # from it after that, so here it is seeded when it is first asked for: same seed, same numbers.

    @property
    def _np_random(self) -> np.random.Generator | None:
        if self._unseeded:
            self._generator, self._unseeded = seeding.np_random(self._np_random_seed)[0], False
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._generator, self._unseeded = generator, False

    def _named_task(self, options: Mapping[str, Any]) -> Task | None:
        unknown = set(options) - {"task"}
        if unknown:
            raise ConfigError(f"{self.name}: unknown reset options {sorted(unknown)}; offered: ['task']")
        return self.task(options["task"])

    def step(self, action: Turn) -> tuple[View, float, bool, bool, dict[str, Any]]:
        """Take one turn; reward is 0 until the end.

        Raises:
            EpisodeOver: before `reset` or after the end.
            ConfigError: the action is no `Turn`.
        """
        episode = self.episode
        if episode is None:
            raise EpisodeOver(f"{self.name}: call reset before step")
        if not isinstance(action, Turn):
            raise ConfigError(
                f"{self.name}: an action is an agentgym.Turn, not {type(action).__name__}; "
                "wrap the environment in agentgym.TextActions to act by text"
            )
        view = episode.step_sync(action)
        if episode.stop is None:
            return view, 0.0, False, False, _info(episode)
        outcome = self.outcome(episode.trajectory(sealed=False))
        info = _info(episode)
        info["score"] = outcome.score.value
        info["metrics"] = outcome.score.metrics.copy()
        info["reward_terms"] = outcome.terms.copy()
        info["stop"] = episode.stop.value
        return view, outcome.reward, True, False, info

    def render(self) -> str | None:  # type: ignore[override]
        """The current view as text, for `render_mode="ansi"`."""
        if self.render_mode is None or self.episode is None:
            return None
        return "\n\n".join(f"{m.role}: {render_message(m)}" for m in self.episode.view.messages)


def _info(episode: Episode) -> dict[str, Any]:
    return {
        "task": episode.task.id,
        "usage": {
            "tokens_in": episode.tokens_in,
            "tokens_out": episode.tokens_out,
            "calls": episode.calls,
            "turns": episode.turns,
            "context": episode.context.used,
        },
    }


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from synchronous code, inside a running loop (a notebook) or not."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    box: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            box.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 — handed to the caller's thread, whatever it is
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return box[0]
