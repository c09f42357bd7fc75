"""`evaluate`: an agent over a task set, by the suite's protocol, into a run folder that resumes."""

from __future__ import annotations

import datetime
import logging
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agentgym.agents.base import Agent
from agentgym.core.errors import ConfigError
from agentgym.core.records import Status, Task, Trajectory, Truth
from agentgym.corpus.tasks import MANIFEST, TaskSet, read_manifest, read_taskset, write_taskset
from agentgym.corpus.tasksets import Suite, is_folder, parse_name, suites
from agentgym.envs.base import ToolEnv
from agentgym.evaluation.cost import cost, load_prices, reported_usage
from agentgym.evaluation.statistics import Estimate, estimates
from agentgym.evaluation.summary import metrics
from agentgym.rollouts.manifest import EpisodeRow, Planned, RunManifest, machine, versions
from agentgym.rollouts.play import EnvSpec
from agentgym.rollouts.replay import Replay, check_row, replay
from agentgym.rollouts.runner import run_episodes
from agentgym.rollouts.store import RunStore

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_ENV = "PruneSearch-v0"
_LOG = logging.getLogger("agentgym")
_RUN = "@run/"  # in a manifest: a path inside the run folder, which may be moved


def evaluate(
    tasks: str | TaskSet | None,
    agent: str | Agent,
    *,
    env: str | None = None,
    split: str | None = None,
    index: str | None = None,
    retrieval: str | None = None,
    profile: str | None = None,
    trials: int | None = None,
    seed_base: int | None = None,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    concurrency: int = 8,
    processes: int = 1,
    time_limit_s: float | None = None,
    infra_retries: int = 2,
    retry_failed: bool = False,
    progress: Callable[[EpisodeRow, int, int], None] | None = None,
    **env_kwargs: str,
) -> Run:
    """Play an agent over a task set and score it. Called again with the same arguments it goes on where it stopped.

    Args:
        tasks: a suite (`"prune-search-0"`, `"prune-search-0/dev"`), a task-set folder, a `TaskSet` from `read_tasks`, or
            None for an environment that has its own tasks.
        agent: a scripted agent's name, or an agent.
        env: environment id; the suite's by default. `"module:Id-v0"` imports the module that registers it first.
        split: the suite's split, when `tasks` does not name one.
        index: folder of an index to search (makes the run `custom`).
        retrieval: legs of the index that is built where `index` is not given (makes the run `custom`).
        profile: limits; the suite's by default. Another one makes the run `custom`.
        trials: episodes a task, seeds `seed_base … seed_base + trials − 1`; the suite's by default.
        seed_base: first seed; the suite's by default.
        limit: only the first so many tasks (makes the run `custom`).
        out: run folder; `runs/<tasks>-<agent>-<profile>` by default.
        concurrency: episodes live at once, over all processes.
        processes: 1 plays in this process, more in so many worker processes.
        time_limit_s: wall-clock seconds an episode may take before it is cut.
        infra_retries: how often an episode is played again that broke by no fault of the agent's.
        retry_failed: play again what an earlier call left as `agent_error`. `infra_error` is always played again.
        progress: called with each finished row, the number done and the number planned.
        env_kwargs: more arguments of the environment, as strings.

    Raises:
        ConfigError: an argument is not what it must be, or `out` holds another run.
        InfraError: the disk or a worker failed; what is finished is kept.
    """
    env_kwargs |= {key: value for key, value in (("index", index), ("retrieval", retrieval)) if value is not None}
    for name, value in (("trials", trials), ("limit", limit)):
        if value is not None and value < 1:
            raise ConfigError(f"{name}={value} must be at least 1")
    if seed_base is not None and seed_base < 0:
        raise ConfigError(f"seed_base={seed_base} must be at least 0")
    suite, split_name, named = _resolve(tasks, split)
    agent_name = agent if isinstance(agent, str) else agent.name
    profile = profile or (suite.profile if suite else None)
    folder = Path(out) if out is not None else _default_folder(tasks, named or env, agent_name, profile)
    kwargs: dict[str, str] = {**env_kwargs, **({"profile": profile} if profile else {})}
    if isinstance(tasks, TaskSet):
        _keep_tasks(tasks, folder)
        kwargs["tasks"] = _RUN + "tasks"
    elif named is not None:
        kwargs["tasks"] = named
    env_id = env or (suite.env if suite else DEFAULT_ENV)
    spec = EnvSpec.of(env_id, _inside(kwargs, folder))
    built = spec.build()
    if isinstance(agent, str):
        built.agent(agent)  # a name that is not known is told before anything is made
    trials_ = trials or (suite.trials if suite else 1)
    base = seed_base if seed_base is not None else (suite.seed_base if suite else 0)
    chosen = built.tasks[:limit]
    model = getattr(agent, "model", None)
    manifest = RunManifest(
        env=env_id,
        agent=agent_name,
        profile=built.profile.name,
        episodes=_plan(chosen, trials_, base),
        env_kwargs=kwargs,
        suite=suite.id if suite else "",
        split=split_name,
        taskset=built.taskset_hash(),
        model=model,
        trials=trials_,
        fingerprint=built.fingerprint(),
        counter=built.profile.counter,
        protocol="standard" if _standard(suite, built, trials_, base, limit, env_kwargs) else "custom",
        versions=versions(),
        machine=machine(),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv[0] else "",
    )
    with RunStore.create(folder, manifest) as store:
        store.forget({Status.INFRA_ERROR, Status.AGENT_ERROR} if retry_failed else {Status.INFRA_ERROR})
        done, planned = len(store.done()), len(manifest.episodes)

        def tell(row: EpisodeRow) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(row, done, planned)

        run_episodes(
            store,
            spec,
            agent,
            concurrency=concurrency,
            processes=processes,
            time_limit_s=time_limit_s,
            infra_retries=infra_retries,
            price=_pricer(model, store.manifest.date),
            progress=tell,
        )
        _tell_failures(store)
    return Run(folder)


def _tell_failures(store: RunStore) -> None:
    """A run whose episodes broke must not look like one whose agent did badly."""
    failed = [row for row in store.rows() if row.status in {Status.INFRA_ERROR, Status.AGENT_ERROR}]
    if failed:
        _LOG.warning(
            "%d of %d episodes failed and count 0; first: task %s, %s: %s",
            len(failed),
            len(store.manifest.episodes),
            failed[0].task,
            failed[0].status.value,
            failed[0].error,
        )


class Run:
    """A finished or unfinished run folder: its rows, tables, report, replay and re-scoring."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.store = RunStore.open(self.path)

    @property
    def manifest(self) -> RunManifest:
        """How the run was made."""
        return self.store.manifest

    @property
    def rows(self) -> list[EpisodeRow]:
        """Finished episodes in the order of the plan."""
        return self.store.rows()

    def metrics(self) -> dict[str, Estimate]:
        """Every metric by name, with its interval, over the planned episodes."""
        return metrics(self.store)

    def fused(self) -> dict[str, Estimate]:
        """Metrics with all trials of a task fused into one answer ("4x" with four trials), for environments that can.

        A task whose trials all failed counts 0.

        Raises:
            ConfigError: the environment does not say how trials are fused.
        """
        rows: dict[str, list[EpisodeRow]] = {planned.task: [] for planned in self.manifest.episodes}
        for row in self.rows:
            if row.trajectory and row.status in {"completed", "truncated"}:
                rows[row.task].append(row)
        scores = {
            task: self.env.fuse([self.store.trajectory(row) for row in found]) for task, found in rows.items() if found
        }
        names = sorted({name for score in scores.values() for name in score.metrics})
        values = {name: [scores[t].metrics[name] if t in scores else 0.0 for t in rows] for name in names}
        return estimates(values, list(rows), [self.env.task(task).cluster for task in rows])

    def frame(self) -> pd.DataFrame:
        """A row an episode, metrics as columns."""
        from agentgym.evaluation.frames import load_runs

        return load_runs([self.path])

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write an HTML report with plots and trajectories."""
        from agentgym.evaluation.report import write_report

        return write_report([self.path], path, truths=self.truths())

    @cached_property
    def env(self) -> ToolEnv:
        """A fresh environment like the run's."""
        kwargs: dict[str, Any] = _inside(self.manifest.env_kwargs, self.path)
        return EnvSpec.of(self.manifest.env, kwargs).build()

    def truths(self) -> Mapping[str, Truth]:
        """What scoring knows of the run's tasks."""
        return self.env.truths

    def replay(self, *, verify: bool = True, progress: Callable[[int, int], None] | None = None) -> list[Replay]:
        """Play every stored trajectory again; `problems` of each result is empty when all agreed."""
        results = []
        rows = [row for row in self.rows if row.trajectory]
        for number, row in enumerate(rows, 1):
            result = replay(self.env, self.store.trajectory(row), verify=verify)
            wrong = check_row(self.env, row, result.outcome)
            results.append(msgspec.structs.replace(result, problems=(*result.problems, *wrong)))
            if progress is not None:
                progress(number, len(rows))
        return results

    def problems(self) -> list[str]:
        """What `run.json` says of the run that its environment and plan contradict; empty when all agrees."""
        manifest, env = self.manifest, self.env
        facts = {
            "profile": env.profile.name,
            "counter": env.profile.counter,
            "taskset": env.taskset_hash(),
            "fingerprint": env.fingerprint(),
            "trials": 1 + max((planned.trial for planned in manifest.episodes), default=0),
        }
        found = [
            f"run.json: {name} is {getattr(manifest, name)!r}, found {fact!r}"
            for name, fact in facts.items()
            if getattr(manifest, name) != fact
        ]
        suite = suites().get(manifest.suite)
        if manifest.protocol == "standard" and (
            suite is None
            or not _standard(suite, env, manifest.trials, suite.seed_base, None, {})
            or manifest.episodes != _plan(env.tasks, suite.trials, suite.seed_base)
        ):
            found.append(f"run.json: protocol is 'standard', but this is not the protocol of suite {manifest.suite!r}")
        return found

    def rescore(self, out: str | os.PathLike[str]) -> Run:
        """Score the stored trajectories again with today's scorer, without running anything, into a new run folder."""
        manifest = msgspec.structs.replace(self.manifest, fingerprint=self.env.fingerprint())
        if any(value == _RUN + "tasks" for value in manifest.env_kwargs.values()):
            _keep_tasks(read_taskset(self.path / "tasks", truths=True), Path(out))
        with RunStore.create(out, manifest) as store:
            done = store.done()
            for row in self.rows:
                if row.key not in done:
                    self._rescore(row, store)
        return Run(out)

    def _rescore(self, row: EpisodeRow, store: RunStore) -> None:
        trajectory = self.store.trajectory(row) if row.trajectory else None
        if trajectory is not None and row.status in {"completed", "truncated"}:
            outcome = self.env.outcome(trajectory)
            row = msgspec.structs.replace(row, score=outcome.score, reward=outcome.reward, reward_terms=outcome.terms)
        store.add(row, trajectory)


def _plan(tasks: Sequence[Task], trials: int, base: int) -> tuple[Planned, ...]:
    """Every task in order, trial by trial."""
    return tuple(Planned(task.id, k, base + k) for k in range(trials) for task in tasks)


def _keep_tasks(taskset: TaskSet, folder: Path) -> None:
    """Write a task set into a run folder; one that holds a run of other tasks is left as it is."""
    kept = folder / "tasks"
    if (folder / "run.json").exists():
        if not (kept / MANIFEST).exists() or read_manifest(kept)["digest"] != taskset.digest():
            raise ConfigError(f"{folder} holds another run, of other tasks; give another folder, or delete this one")
    else:
        write_taskset(taskset, kept)


def _resolve(tasks: str | TaskSet | None, split: str | None) -> tuple[Suite | None, str, str | None]:
    """The suite, the split and the name by which the environment finds the tasks."""
    if tasks is None or isinstance(tasks, TaskSet):
        return None, "", None
    if is_folder(tasks):
        return None, "", str(tasks)
    name = f"{tasks}/{split}" if split else tasks
    suite, split_name = parse_name(name)
    return suite, split_name, f"{suite.id}/{split_name}"


def _standard(
    suite: Suite | None, env: ToolEnv, trials: int, base: int, limit: int | None, env_kwargs: Mapping[str, str]
) -> bool:
    """Whether a run follows the suite's protocol to the letter."""
    return (
        suite is not None
        and env.profile.name == suite.profile
        and trials == suite.trials
        and base == suite.seed_base
        and (limit is None or limit >= len(env.tasks))
        and not env_kwargs
    )


def _inside(kwargs: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Environment arguments with paths inside the run folder made whole."""
    return {
        key: str(folder / value.removeprefix(_RUN)) if value.startswith(_RUN) else value
        for key, value in kwargs.items()
    }


def _pricer(model: str | None, date: str) -> Callable[[Trajectory], float | None] | None:
    """Cost of an episode from the policy's own token counts, at the prices of the run's first day."""
    if model is None:
        return None
    prices, day = load_prices(), datetime.datetime.fromisoformat(date).date()
    return lambda trajectory: cost(reported_usage(trajectory), model, prices, on=day)


def _default_folder(tasks: str | TaskSet | None, name: str | None, agent: str, profile: str | None) -> Path:
    """`runs/<tasks>-<agent>-<profile>`; a task set of one's own is told apart by its hash."""
    if isinstance(tasks, TaskSet):
        name = f"{tasks.name}-{tasks.digest()[:8]}"
    return Path("runs") / _slug(name or "tasks", agent, profile or "")


def _slug(*pieces: str) -> str:
    text = "-".join(piece for piece in pieces if piece)
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in text)
