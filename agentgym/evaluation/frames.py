"""Runs as pandas DataFrames: what statistics, plots and exports start from.

`load_runs` and `load_rewards` read stored rows alone, `load_steps` the trajectories too; none needs the environment,
its index or its tasks. Columns have fixed names; a metric or tag that bears one of them gets `metric_`, `tag_`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.core.errors import ConfigError
from agentgym.core.records import Status, Trajectory, Truth
from agentgym.rollouts.manifest import EpisodeRow, Planned
from agentgym.rollouts.store import RunStore

if TYPE_CHECKING:
    import pandas as pd

Runs = str | os.PathLike[str] | RunStore | Iterable[str | os.PathLike[str] | RunStore]
MISSING = "missing"
"""Status in a frame of an episode that was planned and has not finished."""

FAILED = frozenset({Status.AGENT_ERROR.value, Status.INFRA_ERROR.value, MISSING})
"""Statuses that count 0 in every score: the denominator is what was planned."""

_RUN_COLUMNS = ("run", "agent", "model", "env", "suite", "split", "profile", "protocol")
_EPISODE_COLUMNS = (
    *("task", "trial", "seed", "cluster", "status", "stop", "score", "reward", "steps", "calls"),
    *("tokens_in", "tokens_out", "tokens_cached", "context_tokens_peak", "wall_s", "cost_usd", "error", "trajectory"),
)
_STEP_COLUMNS = (
    *("run", "agent", "task", "trial", "turn", "calls", "errors", "used_tokens", "read_tokens"),
    *("shown", "pruned", "recall"),
)
_REWARD_COLUMNS = ("run", "agent", "task", "trial", "term", "value")


def open_runs(runs: Runs) -> list[RunStore]:
    """Run folders (or open stores), one or several, as stores to read. Raises ConfigError when there is none."""
    items = [runs] if isinstance(runs, str | os.PathLike | RunStore) else list(runs)
    if not items:
        raise ConfigError("no run was given: name at least one run folder")
    return [item if isinstance(item, RunStore) else RunStore.open(item) for item in items]


def labels(stores: Iterable[RunStore]) -> list[str]:
    """A short distinct name for each run: the agent, with its model, profile or folder only where needed."""
    stores = list(stores)
    forms: list[Callable[[RunStore], str]] = [
        lambda s: s.manifest.agent,
        lambda s: f"{s.manifest.agent} ({s.manifest.model})" if s.manifest.model else s.manifest.agent,
        lambda s: f"{s.manifest.agent} · {s.manifest.profile}",
        lambda s: f"{s.manifest.agent} · {Path(s.path).name}",
        lambda s: f"{s.manifest.agent} · {s.path}",
    ]
    for form in forms:
        names = [form(store) for store in stores]
        if len(set(names)) == len(names):
            return names
    return [f"{name} #{i}" for i, name in enumerate(names, 1)]


def load_runs(runs: Runs) -> pd.DataFrame:
    """One row an episode of the plan, also of those that have not finished (status `missing`, values empty).

    Columns: run, agent, model, env, suite, split, profile, protocol; task, trial, seed, cluster, status, stop, score
    (headline in [0, 1]), reward, steps (turns), calls, tokens_in, tokens_out, tokens_cached, context_tokens_peak,
    wall_s (seconds), cost_usd, error, trajectory (hash); then every metric and every tag by name.
    """
    import pandas as pd

    rows = [row for store in open_runs(runs) for row in _run_rows(store)]
    fixed = [*_RUN_COLUMNS, *_EPISODE_COLUMNS]
    others = dict.fromkeys(name for row in rows for name in row if name not in fixed)
    return pd.DataFrame(rows, columns=[*fixed, *others])


def load_steps(runs: Runs, truths: Mapping[str, Truth] | None = None) -> pd.DataFrame:
    """One row a turn, counted from 1.

    Columns: run, agent, task, trial, turn; calls, errors (calls that failed), used_tokens (context in use after it),
    read_tokens (size of all tool results so far), shown and pruned (chunks in this turn), recall (share of what is
    relevant met so far, in [0, 1]; empty without `truths`, which map task ids to truths of search tasks).
    """
    import pandas as pd

    rows = [
        row
        for store in open_runs(runs)
        for episode, trajectory in trajectories(store)
        for row in _step_rows(store, episode, trajectory, (truths or {}).get(episode.task))
    ]
    return pd.DataFrame(rows, columns=list(_STEP_COLUMNS))


def load_rewards(runs: Runs) -> pd.DataFrame:
    """One row an episode and reward term: run, agent, task, trial, term, value. The values sum to the reward."""
    import pandas as pd

    rows = [
        (str(store.path), store.manifest.agent, row.task, row.trial, term, value)
        for store in open_runs(runs)
        for row in store.rows()
        for term, value in row.reward_terms.items()
    ]
    return pd.DataFrame(rows, columns=list(_REWARD_COLUMNS))


def trajectories(store: RunStore) -> Iterator[tuple[EpisodeRow, Trajectory]]:
    """Every stored trajectory with its row, in the order of the plan."""
    for row in store.rows():
        if row.trajectory:
            yield row, store.trajectory(row)


def recall_series(trajectory: Trajectory, truth: Truth | None) -> list[float | None]:
    """Share of what is relevant that has been met after each turn; None where the truth says nothing of chunks."""
    if truth is None or "relevant" not in truth.payload:
        return [None] * len(trajectory.steps)
    from agentgym.envs.prune_search.score import SearchTruth, find

    known = SearchTruth.of(truth)
    met: list[str] = []
    series: list[float | None] = []
    for step in trajectory.steps:
        met += step.shown
        series.append(find(known, (), met).trajectory_recall)
    return series


def _run_rows(store: RunStore) -> Iterator[dict[str, Any]]:
    finished = {row.key: row for row in store.rows()}
    head = {"run": str(store.path), **{name: getattr(store.manifest, name) for name in _RUN_COLUMNS if name != "run"}}
    for planned in store.manifest.episodes:
        row = finished.get((planned.task, planned.trial))
        yield {**head, **(_missing(planned) if row is None else _episode(row))}


def _missing(planned: Planned) -> dict[str, Any]:
    return {"task": planned.task, "trial": planned.trial, "seed": planned.seed, "cluster": "", "status": MISSING}


def _episode(row: EpisodeRow) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": row.task,
        "trial": row.trial,
        "seed": row.seed,
        "cluster": row.cluster,
        "status": row.status.value,
        "stop": None if row.stop is None else row.stop.value,
        "score": row.score.value,
        "reward": row.reward,
        "steps": row.steps,
        "calls": row.usage.calls,
        "tokens_in": row.usage.tokens_in,
        "tokens_out": row.usage.tokens_out,
        "tokens_cached": row.usage.tokens_cached,
        "context_tokens_peak": row.context_tokens_peak,
        "wall_s": row.wall_s,
        "cost_usd": row.cost_usd,
        "error": row.error,
        "trajectory": row.trajectory,
    }
    for prefix, extra in (("metric_", row.score.metrics), ("tag_", row.tags)):
        for name, value in extra.items():
            taken = name in values or name in _RUN_COLUMNS
            values[f"{prefix}{name}" if taken else name] = value
    return values


def _step_rows(
    store: RunStore, row: EpisodeRow, trajectory: Trajectory, truth: Truth | None
) -> Iterator[tuple[Any, ...]]:
    read = 0
    recalls = recall_series(trajectory, truth)
    for turn, (step, recall) in enumerate(zip(trajectory.steps, recalls, strict=True), 1):
        read += sum(result.tokens for result in step.results)
        errors = sum(result.error is not None for result in step.results)
        head = (str(store.path), store.manifest.agent, row.task, row.trial, turn)
        yield (*head, len(step.results), errors, step.used, read, len(step.shown), len(step.pruned), recall)
