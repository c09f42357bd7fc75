"""Play one episode to its end and say how it ended. A bad rollout is data: whatever happens becomes a status."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from typing import Any

import gymnasium as gym
import msgspec

from agentgym.agents.base import Agent, Brief
from agentgym.core.errors import ConfigError, InfraError
from agentgym.core.records import Record, Score, Status, Task, Trajectory, settings_of
from agentgym.envs.base import Outcome, ToolEnv
from agentgym.harness.episode import Episode
from agentgym.rollouts.manifest import EpisodeRow, Planned, Tag


class EnvSpec(Record, frozen=True):
    """How to build an environment anywhere: entry point `module:Class` and keyword arguments (JSON)."""

    id: str
    entry_point: str
    kwargs: dict[str, Any] = {}

    @classmethod
    def of(cls, env_id: str, kwargs: dict[str, Any]) -> EnvSpec:
        """Look an id up in Gymnasium's registry (`module:Id-v0` imports the module first).

        Raises:
            ConfigError: the id is not registered, or its environment was registered as something other than a class.
        """
        if ":" in env_id:
            module, env_id = env_id.split(":", 1)
            try:
                importlib.import_module(module)
            except (ImportError, ValueError) as error:
                raise ConfigError(
                    f"environment {env_id!r}: its module {module!r} cannot be imported: {error}"
                ) from error
        if env_id not in gym.registry:
            known = ", ".join(sorted(key for key, spec in gym.registry.items() if "agentgym" in str(spec.entry_point)))
            raise ConfigError(
                f"environment {env_id!r} is not registered with Gymnasium; agentgym's own: {known}; "
                'one of yours is named with the module that registers it: "module:Id-v0"'
            )
        spec = gym.registry[env_id]
        entry: Any = spec.entry_point
        if isinstance(entry, type):
            entry = f"{entry.__module__}:{entry.__qualname__}"
        if not isinstance(entry, str):
            raise ConfigError(f"environment {env_id!r}: its entry point {entry!r} cannot be named; register a class")
        return cls(env_id, entry, {**spec.kwargs, **kwargs})

    def build(self) -> ToolEnv:
        """The environment, without Gymnasium's wrappers."""
        module, _, name = self.entry_point.partition(":")
        made = getattr(importlib.import_module(module), name)
        try:
            inspect.signature(made).bind(**self.kwargs)
        except TypeError as error:
            raise ConfigError(f"{self.id} does not take these arguments: {error}") from None
        env = made(**self.kwargs)
        if not isinstance(env, ToolEnv):
            raise ConfigError(f"{self.id} is no ToolEnv: the runner needs its episodes")
        return env


class Player:
    """An environment and an agent, ready to play episodes, many of them at the same time in one event loop.

    `time_limit_s` cuts an episode from outside (`truncated`); `infra_retries` plays an episode again that broke by no
    fault of the agent's, at most so often.
    """

    def __init__(
        self,
        spec: EnvSpec | ToolEnv,
        agent: Agent | str,
        *,
        time_limit_s: float | None = None,
        infra_retries: int = 2,
    ) -> None:
        self.env = spec.build() if isinstance(spec, EnvSpec) else spec
        self.agent = self.env.agent(agent) if isinstance(agent, str) else agent
        self.time_limit_s = time_limit_s
        self.infra_retries = infra_retries
        self._fingerprint = self.env.fingerprint()

    async def play(self, planned: Planned) -> tuple[EpisodeRow, Trajectory]:
        """Play one planned episode. Raises ConfigError alone: whatever else goes wrong is a status."""
        attempt = 0
        row, trajectory = await self._attempt(planned)
        while row.status is Status.INFRA_ERROR and attempt < self.infra_retries:
            attempt += 1
            row, trajectory = await self._attempt(planned)
        return (
            row if attempt == 0 else msgspec.structs.replace(row, tags={**row.tags, "attempts": attempt + 1})
        ), trajectory

    async def _attempt(self, planned: Planned) -> tuple[EpisodeRow, Trajectory]:
        started = time.perf_counter()
        episode = self.env.open(planned.task, planned.seed)
        status, error = await self._live(episode, planned)
        trajectory = msgspec.structs.replace(
            episode.trajectory(env=self.env.name, fingerprint=self._fingerprint),
            reward=settings_of(self.env.reward_config),
        )
        outcome = Outcome(Score(0.0), 0.0, {})
        if status is Status.COMPLETED or status is Status.TRUNCATED:
            outcome = self.env.outcome(trajectory)
        return self._row(planned, episode, status, error, outcome, time.perf_counter() - started), trajectory

    async def _live(self, episode: Episode, planned: Planned) -> tuple[Status, str | None]:
        profile = self.env.profile
        try:
            async with asyncio.timeout(self.time_limit_s) as limit:
                brief = Brief(episode.task, self.env.specs, planned.seed, profile.budget_tokens, profile.max_turns)
                policy = self.agent.begin(brief)
                while episode.stop is None:
                    await episode.step(await policy.act(episode.view))
                    await asyncio.sleep(0)  # where nobody waits, siblings and the time limit get their turn here
        except TimeoutError as error:
            episode.cancel()
            if limit.expired():
                return Status.TRUNCATED, f"cut after {self.time_limit_s} s"
            return Status.AGENT_ERROR, _one_line(error)  # the agent's own, from something that it waited for
        except InfraError as error:
            episode.cancel()
            return Status.INFRA_ERROR, _one_line(error)
        except ConfigError:  # a wrong key or model is the user's to mend, and would break every episode alike
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # from outside, by whoever runs this player
                raise
            episode.cancel()
            return Status.AGENT_ERROR, _one_line(error)  # the agent's own, from something that it awaited
        # The one broad except: a broken episode, or a library that calls sys.exit, must not take its siblings down.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            episode.cancel()
            return Status.AGENT_ERROR, _one_line(error)
        return Status.COMPLETED, None

    def _row(
        self, planned: Planned, episode: Episode, status: Status, error: str | None, outcome: Outcome, wall_s: float
    ) -> EpisodeRow:
        trajectory_steps = episode.trajectory(sealed=False).steps
        return EpisodeRow(
            task=planned.task,
            trial=planned.trial,
            seed=planned.seed,
            status=status,
            stop=episode.stop,
            score=outcome.score,
            reward=outcome.reward,
            reward_terms=outcome.terms,
            usage=episode.usage,
            context_tokens_peak=max((step.used for step in trajectory_steps), default=episode.context.used),
            wall_s=round(wall_s, 6),
            steps=episode.turns,
            cluster=episode.task.cluster or planned.task,
            tags=tags_of(episode.task),
            error=error,
        )


def tags_of(task: Task) -> dict[str, Tag]:
    """The plain values of a task's public payload: what tables group by (hops, domain)."""
    return {key: value for key, value in task.payload.items() if isinstance(value, str | int | float | bool)}


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
