"""Means with honest intervals, comparisons of two runs, and pass@k: NumPy only, same numbers everywhere.

Episodes are not independent: trials share a task, tasks share a source. So a score is the mean over tasks of each
task's mean over trials, and its interval comes from a percentile bootstrap that resamples whole clusters of tasks, then
the trials of each task (10,000 draws, fixed seed). Resampling trials as well makes intervals slightly wide rather than
narrow. With a single cluster the tasks are resampled, with a single task its trials: the topmost level that has two
members. One episode alone has no interval.

Two runs are compared pair by pair on the same episodes, never by looking at two intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.core import seeding
from agentgym.core.errors import ConfigError
from agentgym.core.records import Record
from agentgym.rollouts.manifest import Key

DRAWS = 10_000
_DECIMALS = 6  # sums differ in the last bits between machines; nobody reads the seventh digit
_CHUNK_CELLS = 2_000_000  # memory of a chunk of draws: about 50 MB

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Estimate(Record, frozen=True):
    """A mean with its 95 % interval. `n` counts the episodes (or tasks, for pass@k) in it; None where there is none."""

    mean: float | None
    lo: float | None
    hi: float | None
    n: int


class McNemar(Record, frozen=True):
    """Paired yes/no outcomes of two runs: counts of each kind of pair, and the exact two-sided p-value."""

    both: int
    only_first: int
    only_second: int
    neither: int
    p: float


def estimates(
    values: Mapping[str, Sequence[float | None]],
    tasks: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Mean and interval of several metrics over the same episodes, from the same resamples.

    Args:
        values: metric → one value an episode; None or NaN leaves the episode out of that metric (and out of its `n`).
        tasks: the task of each episode.
        clusters: the cluster of each episode's task; empty strings (and None for all) make each task its own.
        draws: resamples.
        seed: of the resampling.
        level: coverage of the interval, in (0, 1).
    """
    count = len(tasks)
    columns = [*values.values(), tasks if clusters is None else clusters]
    if any(len(column) != count for column in columns):
        raise ConfigError(f"values and clusters must have one entry for each of the {count} episodes")
    if not 0 < level < 1:
        raise ConfigError(f"level={level} must lie between 0 and 1")
    if not values or not count:
        return {name: Estimate(None, None, None, 0) for name in values}
    table = np.array([[np.nan if v is None else v for v in column] for column in values.values()], dtype=np.float64)
    task_index = np.unique(np.array(tasks, dtype=object), return_inverse=True)[1].astype(np.int64)
    order = np.argsort(task_index, kind="stable")
    weights, weighted = _task_weights(table[:, order], task_index[order])
    unit_of_task = _units(task_index, clusters)
    tops, bottoms = [], []
    for counts in _multiplicities(task_index[order], unit_of_task, draws, seed):
        tops.append(counts @ weighted.T)
        bottoms.append(counts @ weights.T)
    top, bottom = np.concatenate(tops), np.concatenate(bottoms)
    return {
        name: _estimate(table[i], weighted[i], weights[i], top[:, i], bottom[:, i], level)
        for i, name in enumerate(values)
    }


def estimate(
    values: Sequence[float | None],
    tasks: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """`estimates` for one metric; without `tasks` each value is a task of its own."""
    tasks = [str(i) for i in range(len(values))] if tasks is None else tasks
    return estimates({"": values}, tasks, clusters, draws=draws, seed=seed, level=level)[""]


def paired_difference(
    first: Mapping[Key, float | None],
    second: Mapping[Key, float | None],
    clusters: Mapping[str, str] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Mean of first − second over the episodes `(task, trial)` that both have a value for, with its interval.

    An interval that excludes 0 says that other tasks of the same kind would agree. `clusters` maps task → cluster.
    """
    keys = sorted(first.keys() & second.keys())
    if not keys:
        raise ConfigError("the two runs have no (task, trial) in common: compare runs of the same suite")
    differences = [_minus(first[key], second[key]) for key in keys]
    tasks = [task for task, _ in keys]
    groups = None if clusters is None else [clusters.get(task, "") for task in tasks]
    return estimate(differences, tasks, groups, draws=draws, seed=seed, level=level)


def mcnemar(first: Mapping[Key, float | None], second: Mapping[Key, float | None]) -> McNemar:
    """Exact two-sided McNemar test of yes/no outcomes (a value of 0.5 or more is a yes) over the episodes both have."""
    pairs = [(first[key], second[key]) for key in sorted(first.keys() & second.keys())]
    outcomes = [(a >= 0.5, b >= 0.5) for a, b in pairs if a is not None and b is not None]
    only_first = outcomes.count((True, False))
    only_second = outcomes.count((False, True))
    p = _binomial_p(min(only_first, only_second), only_first + only_second)
    return McNemar(outcomes.count((True, True)), only_first, only_second, outcomes.count((False, False)), p)


def pass_at_k(successes: int, trials: int, k: int) -> float:
    """Chance that at least one of k trials drawn from these succeeds: 1 − C(n−s, k)/C(n, k)."""
    _check_k(successes, trials, k)
    return 1 - math.comb(trials - successes, k) / math.comb(trials, k)


def pass_hat_k(successes: int, trials: int, k: int) -> float:
    """pass^k, the chance that all of k trials drawn from these succeed: C(s, k)/C(n, k)."""
    _check_k(successes, trials, k)
    return math.comb(successes, k) / math.comb(trials, k)


def passes(
    values: Sequence[float | None],
    tasks: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    k: int,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Estimate, Estimate]:
    """pass@k and pass^k averaged over the tasks that have at least k trials with a value; `n` counts those tasks.

    A value of 0.5 or more is a success.
    """
    outcomes: dict[str, list[bool]] = {}
    cluster_of = dict(zip(tasks, clusters if clusters is not None else [""] * len(tasks), strict=True))
    for task, value in zip(tasks, values, strict=True):
        if value is not None and not math.isnan(value):
            outcomes.setdefault(task, []).append(value >= 0.5)
    if k < 1:
        raise ConfigError(f"k={k} must be at least 1")
    names = sorted(task for task, results in outcomes.items() if len(results) >= k)
    counts = [(sum(outcomes[task]), len(outcomes[task])) for task in names]
    found = estimates(
        {
            "at": [pass_at_k(s, n, k) for s, n in counts],
            "hat": [pass_hat_k(s, n, k) for s, n in counts],
        },
        names,
        [cluster_of[task] for task in names],
        draws=draws,
        seed=seed,
    )
    return found["at"], found["hat"]


def _check_k(successes: int, trials: int, k: int) -> None:
    if not 0 <= successes <= trials or not 1 <= k <= trials:
        raise ConfigError(f"need 0 <= successes <= trials and 1 <= k <= trials, not {successes} of {trials} at k={k}")


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _binomial_p(smaller: int, n: int) -> float:
    """Two-sided p of at most `smaller` of n fair coins; whole numbers, so no rounding until the end."""
    tail = sum(math.comb(n, i) for i in range(smaller + 1))
    return round(min(1.0, 2 * tail / (1 << n)), 12)


def _task_weights(table: Floats, task_index: Ints) -> tuple[Floats, Floats]:
    """Per metric and episode: 1 / (episodes of its task with a value), 0 without one; and that weight × value."""
    present = ~np.isnan(table)
    per_task = np.stack([np.bincount(task_index, row, minlength=task_index[-1] + 1) for row in present.astype(float)])
    weights = np.where(present, 1 / np.maximum(per_task, 1)[:, task_index], 0.0)
    return weights, np.where(present, table, 0.0) * weights


def _units(task_index: Ints, clusters: Sequence[str] | None) -> Ints:
    """What is resampled first: for each task the index of its cluster, or of itself where all share one."""
    tasks = int(task_index.max()) + 1
    first_episode = np.unique(task_index, return_index=True)[1]
    names = [(clusters[i] if clusters is not None else "") for i in first_episode]
    keys = np.array([f"c:{name}" if name else f"t:{i:09d}" for i, name in enumerate(names)], dtype=object)
    unit = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return unit if unit.max() > 0 else np.arange(tasks, dtype=np.int64)


def _multiplicities(task_index: Ints, unit_of_task: Ints, draws: int, seed: int) -> Iterator[Floats]:
    """How often each episode (in task order) stands in each draw: arrays (draws in this chunk, episodes)."""
    rng = seeding.generator(seed, "bootstrap")
    episodes, tasks, units = len(task_index), len(unit_of_task), int(unit_of_task.max()) + 1
    trials = np.bincount(task_index)
    starts = np.concatenate([[0], np.cumsum(trials)[:-1]])
    chunk = max(1, _CHUNK_CELLS // max(episodes, 1))
    for done in range(0, draws, chunk):
        rows = min(chunk, draws - done)
        drawn = rng.integers(units, size=(rows, units)) + units * np.arange(rows)[:, None]
        per_unit = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        per_task = per_unit[:, unit_of_task]
        if episodes == tasks:
            yield per_task.astype(np.float64)
            continue
        # Each appearance of a task draws its n trials anew, with replacement.
        cell = np.repeat(np.arange(rows * tasks), (per_task * trials).ravel())
        row, task = np.divmod(cell, tasks)
        episode = starts[task] + (rng.random(len(cell)) * trials[task]).astype(np.int64)
        counts = np.bincount(row * episodes + episode, minlength=rows * episodes)
        yield counts.reshape(rows, episodes).astype(np.float64)


def _estimate(values: Floats, weighted: Floats, weights: Floats, top: Floats, bottom: Floats, level: float) -> Estimate:
    n = int(np.count_nonzero(~np.isnan(values)))
    if n == 0:
        return Estimate(None, None, None, 0)
    mean = round(float(weighted.sum() / weights.sum()), _DECIMALS)
    if n == 1:
        return Estimate(mean, None, None, 1)
    drawn = top[bottom > 0] / bottom[bottom > 0]  # a draw may hold no episode with a value
    lo, hi = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, round(float(lo), _DECIMALS), round(float(hi), _DECIMALS), n)
