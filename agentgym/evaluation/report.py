"""One HTML file that shows what runs did: how they were made, scores with intervals, plots, and whole trajectories.

The page is self-contained (no scripts, no requests, and a policy in its head that forbids both), follows the reader's
light or dark setting, and is written from the same run to the same bytes. Everything that an agent or a corpus wrote is
escaped by the template engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.core.errors import ConfigError
from agentgym.core.records import Truth
from agentgym.evaluation import plots
from agentgym.evaluation.frames import FAILED, Runs, labels, load_steps, open_runs
from agentgym.evaluation.statistics import Estimate
from agentgym.evaluation.summary import MEASURES, difference, metrics, summary
from agentgym.evaluation.trajectory_view import TrajectoryView, view
from agentgym.rollouts.files import write_whole
from agentgym.rollouts.manifest import EpisodeRow, Key
from agentgym.rollouts.store import RunStore

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["summary", "write_report"]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # no HTML may hold them
_TRAJECTORIES = 4
_FAILURES = 20


@dataclass(frozen=True)
class _Cell:
    """An estimate as text; positions in percent of [0, 1] for scores."""

    mean: str
    interval: str
    n: str
    lo: float | None = None
    hi: float | None = None
    at: float | None = None


@dataclass(frozen=True)
class _Pair:
    first: str
    second: str
    mean: str
    interval: str
    n: int
    decided: bool


def write_report(
    runs: Runs,
    path: str | os.PathLike[str],
    *,
    truths: Mapping[str, Truth] | None = None,
    show: Sequence[Key] | None = None,
) -> Path:
    """Write the report of one or several runs; returns its path.

    Args:
        runs: run folders or stores; the first is the one that others are compared with.
        path: the HTML file.
        truths: task id → truth; adds recall against tokens and marks relevant chunks.
        show: the episodes `(task, trial)` whose trajectories are shown; by default those that prune most.

    Raises:
        MissingExtra: matplotlib is not installed.
        InfraError: the file cannot be written.
        ConfigError: no run was given, or none of them has an episode in `show`.
    """
    plots.require()
    import jinja2
    from markupsafe import Markup

    stores = open_runs(runs)
    names = labels(stores)
    steps = load_steps(stores, truths)
    drawn = [
        plots.score_by_hops(stores, names),
        plots.recall_over_tokens(steps, stores, names),
        plots.reward_terms(stores, names),
    ]
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = engine.get_template("report.html").render(
        title=_title(stores),
        legend=[plots.entry(name, i) for i, name in enumerate(names)],
        facts=_facts(stores),
        groups=_groups(stores),
        pairs=_pairs(stores, names),
        failures=_failures(stores, names),
        plots=[(plot, Markup(plot.svg)) for plot in drawn if plot is not None],
        has_recall=drawn[1] is not None,
        trajectories=_trajectories(stores, names, _chosen(stores, steps, show), truths or {}),
    )
    target = Path(path)
    write_whole(target, _CONTROL.sub("\ufffd", page).encode("utf-8", "replace"))
    return target


def _title(stores: Sequence[RunStore]) -> str:
    found = {(s.manifest.suite or s.manifest.env, s.manifest.split) for s in stores}
    return " and ".join(sorted("/".join(part for part in pair if part) for pair in found))


def _facts(stores: Sequence[RunStore]) -> list[tuple[str, list[str]]]:
    """How the runs were made: a name and one value a run, or a single value where all agree."""
    table: dict[str, list[str]] = {}
    for store in stores:
        m = store.manifest
        rows = store.rows()
        seeds = [episode.seed for episode in m.episodes]
        kwargs = ", ".join(f"{key}={value}" for key, value in sorted(m.env_kwargs.items()))
        counts = {status: sum(row.status == status for row in rows) for status in sorted({r.status for r in rows})}
        values = {
            "environment": f"{m.env} ({kwargs})" if kwargs else m.env,
            "model": m.model or "none",
            "profile": m.profile,
            "protocol": m.protocol,
            "episodes": f"{len(rows):,} of {len(m.episodes):,} planned"
            + (f" ({', '.join(f'{n:,} {status}' for status, n in counts.items())})" if counts else ""),
            "trials a task": str(m.trials),
            "seeds": f"{min(seeds)} – {max(seeds)}" if seeds else "none",
            "token counter": m.counter or "none",
            "task set": m.taskset[:16] or "none",
            "fingerprint": m.fingerprint[:16] or "none",
            "date": m.date,
            "machine": ", ".join(
                [m.machine.get("cpu", ""), f"{m.machine.get('cores', '?')} cores", m.machine.get("os", "")]
            ),
            "versions": ", ".join(f"{name} {version}" for name, version in m.versions.items()),
            "command": m.command,
        }
        for name, value in values.items():
            table.setdefault(name, []).append(value)
    return [(name, values[:1] if len(set(values)) == 1 else values) for name, values in table.items()]


def _groups(stores: Sequence[RunStore]) -> list[tuple[str, list[tuple[str, list[_Cell]]]]]:
    found = [metrics(store) for store in stores]
    rest = dict.fromkeys(name for values in found for name in values)
    rest = {
        name: None for name in rest if name not in MEASURES or any(values[name].n for values in found if name in values)
    }
    kinds = (
        ("Scores", [name for name in rest if name not in MEASURES and name != "failed_rate"]),
        ("Measures", [name for name in rest if name in MEASURES or name == "failed_rate"]),
    )
    nothing = Estimate(None, None, None, 0)
    return [
        (title, [(_written(name), [_cell(name, values.get(name, nothing)) for values in found]) for name in names])
        for title, names in kinds
        if names
    ]


def _cell(name: str, e: Estimate) -> _Cell:
    if e.mean is None:
        return _Cell("–", "", "none judged" if name not in MEASURES else "n = 0")
    interval = "" if e.lo is None or e.hi is None else f"{_number(name, e.lo, e.mean)} – {_number(name, e.hi, e.mean)}"
    if name in MEASURES or not 0 <= e.mean <= 1:
        return _Cell(_number(name, e.mean, e.mean), interval, f"n = {e.n:,}")
    lo, hi = (e.mean if e.lo is None else e.lo), (e.mean if e.hi is None else e.hi)
    places = [round(100 * min(1.0, max(0.0, value)), 2) for value in (lo, hi, e.mean)]
    return _Cell(_number(name, e.mean, e.mean), interval, f"n = {e.n:,}", *places)


def _written(name: str) -> str:
    """A metric's name for people: units in brackets."""
    for ending, unit in (("_s", " (s)"), ("_usd", " ($)")):
        if name.endswith(ending):
            name = name.removesuffix(ending) + unit
    return name.replace("_", " ")


def _number(name: str, value: float, mean: float) -> str:
    """A value with as many decimals as its mean bears."""
    if name == "cost_usd":
        return f"{value:.4f}"
    if name in MEASURES and abs(mean) >= 10:
        return f"{value:,.{0 if abs(mean) >= 100 else 1}f}"
    return f"{value:.3f}"


def _pairs(stores: Sequence[RunStore], names: Sequence[str]) -> list[_Pair]:
    """Paired differences of the headline score: every run against the first. Runs of other tasks are left out."""
    pairs = []
    for store, name in zip(stores[1:], names[1:], strict=True):
        try:
            found = difference(store, stores[0], "score")
        except ConfigError:
            continue  # no common episode, or one of them was never judged
        if found.mean is None:
            continue
        interval, decided = "", False
        if found.lo is not None and found.hi is not None:
            interval, decided = f"{_signed(found.lo)} to {_signed(found.hi)}", not found.lo <= 0 <= found.hi
        pairs.append(_Pair(name, names[0], _signed(found.mean), interval, found.n, decided))
    return pairs


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _failures(stores: Sequence[RunStore], names: Sequence[str]) -> list[tuple[str, EpisodeRow]]:
    found = [
        (name, row) for store, name in zip(stores, names, strict=True) for row in store.rows() if row.status in FAILED
    ]
    return found[:_FAILURES]


def _chosen(
    stores: Sequence[RunStore], steps: pd.DataFrame, show: Sequence[Key] | None
) -> list[tuple[int, EpisodeRow]]:
    """The episodes to show, as (index of the run, row)."""
    rows = [{row.key: row for row in store.rows() if row.trajectory} for store in stores]
    if show is not None:
        chosen = [(i, mine[key]) for key in show for i, mine in enumerate(rows) if key in mine]
        if show and not chosen:
            raise ConfigError(f"no run holds a trajectory of {', '.join(f'{task} trial {t}' for task, t in show)}")
        return chosen
    if steps.empty:
        return []
    pruned = steps.groupby(["task", "trial"], sort=False, as_index=False)["pruned"].sum()
    most = pruned.loc[pruned["pruned"].idxmax()]
    key = str(most["task"]), int(most["trial"])
    here = steps[(steps["task"] == key[0]) & (steps["trial"] == key[1])].groupby("run")["pruned"].sum()
    order = sorted(range(len(stores)), key=lambda i: -int(here.get(str(stores[i].path), 0)))
    chosen = [(i, rows[i][key]) for i in order if key in rows[i]][:_TRAJECTORIES]
    if len(stores) == 1:  # and the first of those that went worst
        others = [row for row in rows[0].values() if row.key != key and row.score.value is not None]
        chosen += [(0, row) for row in sorted(others, key=lambda row: row.score.value or 0.0)[:1]]
    return chosen


def _trajectories(
    stores: Sequence[RunStore],
    names: Sequence[str],
    chosen: Sequence[tuple[int, EpisodeRow]],
    truths: Mapping[str, Truth],
) -> list[TrajectoryView]:
    return [view(names[i], i % plots.SERIES, row, stores[i].trajectory(row), truths.get(row.task)) for i, row in chosen]
