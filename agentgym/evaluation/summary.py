"""From rows to a table: every metric of a run with its interval, over the episodes that were planned.

An episode that failed or never finished counts 0 in everything that is a score. It says nothing of what a normal
episode costs, so it is left out of measures (turns, tokens, seconds …), which would look the better the more episodes
fail. What is None (no judgements, nothing pruned) is left out, and `n` says how many were left in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from agentgym.core.errors import ConfigError
from agentgym.evaluation.frames import FAILED, MISSING, Runs, labels, open_runs
from agentgym.evaluation.statistics import Estimate, estimates, paired_difference
from agentgym.rollouts.manifest import EpisodeRow, Key
from agentgym.rollouts.store import RunStore

if TYPE_CHECKING:
    import pandas as pd

_FIRST = ("success", "final_answer_found", "score", "f1", "recall", "precision", "fact_recall", "trajectory_recall")
MEASURES = frozenset(
    {
        *("prune_accuracy", "calls_per_turn", "turns", "tokens", "context_peak", "invalid_call_rate", "critical_steps"),
        *("tokens_in", "tokens_out", "wall_s", "cost_usd"),
    }
)
"""Metrics that failed episodes are left out of: costs, sizes, and rates of what an agent did."""


def episode_values(store: RunStore, name: str) -> dict[Key, float | None]:
    """One metric of every planned episode, failed and missing ones by the rule above. For paired comparisons.

    Raises ConfigError for a metric that no episode has.
    """
    table = _values(store)
    if name not in table:
        raise ConfigError(f"{store.path} has no metric {name!r}; it has {', '.join(table)}")
    return {(p.task, p.trial): value for p, value in zip(store.manifest.episodes, table[name], strict=True)}


def metrics(
    run: RunStore, *, where: Mapping[str, object] | None = None, names: Container[str] | None = None
) -> dict[str, Estimate]:
    """Every metric of a run by name (or those in `names`), scores first; `where` keeps the episodes with these tags,
    e.g. `{"hops": 2}`.

    `failed_rate` is the share of planned episodes that ended in an error or have not finished.
    """
    table = _values(run)
    rows = {row.key: row for row in run.rows()}
    plan = run.manifest.episodes
    tags = task_tags(rows.values())
    kept = [
        i
        for i, planned in enumerate(plan)
        if all(tags.get(planned.task, {}).get(key) == value for key, value in (where or {}).items())
    ]
    groups = {row.task: row.cluster for row in rows.values()}
    return estimates(
        {name: [values[i] for i in kept] for name, values in table.items() if names is None or name in names},
        [plan[i].task for i in kept],
        [groups.get(plan[i].task, "") for i in kept],
    )


def summary(runs: Runs) -> pd.DataFrame:
    """A row a run and metric: run (folder), label (short and distinct), metric, mean, lo, hi, n, planned."""
    import pandas as pd

    stores = open_runs(runs)
    rows = [
        (str(store.path), label, name, found.mean, found.lo, found.hi, found.n, len(store.manifest.episodes))
        for store, label in zip(stores, labels(stores), strict=True)
        for name, found in metrics(store).items()
    ]
    return pd.DataFrame(rows, columns=["run", "label", "metric", "mean", "lo", "hi", "n", "planned"])


def difference(first: RunStore, second: RunStore, name: str) -> Estimate:
    """Paired difference first − second of a metric over the episodes both planned, with its interval."""
    groups = {row.task: row.cluster for store in (first, second) for row in store.rows()}
    return paired_difference(episode_values(first, name), episode_values(second, name), groups)


def task_tags(rows: Iterable[EpisodeRow]) -> dict[str, dict[str, object]]:
    """Tags by task: those of any of its finished episodes, so that a failed trial is grouped with its siblings."""
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        found.setdefault(row.task, {}).update(row.tags)
    return found


def _values(store: RunStore) -> dict[str, list[float | None]]:
    """Metric → one value a planned episode, in the order of the plan."""
    rows = {row.key: row for row in store.rows()}
    plan = [rows.get((planned.task, planned.trial)) for planned in store.manifest.episodes]
    scored = [None if row is None or row.status in FAILED else _scored(row) for row in plan]
    if not any(scored):
        scored = [{"score": 0.0} for _ in plan]  # nothing ended as it should
    names = dict.fromkeys(name for values in scored if values for name in values)
    table: dict[str, list[float | None]] = {}
    for name in sorted(names, key=_rank):
        column = [None if values is None else values.get(name) for values in scored]
        if name not in MEASURES and any(value is not None for value in column):
            column = [0.0 if values is None else value for values, value in zip(scored, column, strict=True)]
        table[name] = column
    table["failed_rate"] = [float((MISSING if row is None else row.status) in FAILED) for row in plan]
    return table


def _scored(row: EpisodeRow) -> dict[str, float | None]:
    values = dict(row.score.metrics)
    values.setdefault("score", row.score.value)
    values.setdefault("reward", row.reward)
    values.setdefault("wall_s", row.wall_s)
    values.setdefault("cost_usd", row.cost_usd)
    return values


def _rank(name: str) -> tuple[int, int, str]:
    if name in _FIRST:
        return 0, _FIRST.index(name), name
    return (2 if name in MEASURES else 1), 0, name


def episode_terms(store: RunStore) -> dict[str, list[float]]:
    """Reward term → one value a planned episode; failed and missing episodes earn 0 in each."""
    rows = {row.key: row for row in store.rows() if row.status not in FAILED}
    plan = [rows.get((planned.task, planned.trial)) for planned in store.manifest.episodes]
    names = dict.fromkeys(term for row in plan if row is not None for term in row.reward_terms)
    return {name: [0.0 if row is None else row.reward_terms.get(name, 0.0) for row in plan] for name in names}
