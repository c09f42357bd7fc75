"""The report's plots: matplotlib drawings as SVG text that lives inside a page.

An SVG here holds no fixed ink: axes and text take the page's text colour, series the page's variables `--s0`, `--s1` …,
so one drawing serves light and dark. The same run gives the same bytes: no dates, salted ids, matplotlib's own font for
measuring. Legends are left to the page, where names are escaped and wrap.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym.core.errors import MissingExtra
from agentgym.evaluation.statistics import Estimate, estimates
from agentgym.evaluation.summary import episode_terms, metrics, task_tags
from agentgym.rollouts.store import RunStore

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SERIES = 8
"""Number of series colours; later series begin again with another marker."""

_INK = "#010203"
_COLOURS = tuple(f"#0a0b{i:02x}" for i in range(SERIES))
_MARKERS = (("o", "●"), ("s", "■"), ("^", "▲"), ("D", "◆"), ("v", "▼"), ("P", "✚"), ("X", "✖"), ("*", "★"))
_SCORE_CAPTION = "Mean headline score with 95 % bootstrap intervals over task clusters; failed episodes count 0."
_GRID_POINTS = 41
_BAND_DRAWS = 2_000  # a band is looked at, not read off
_RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "path.simplify": False,
}


class Entry(NamedTuple):
    """A legend entry: name, index of the colour variable, marker character."""

    name: str
    colour: int
    marker: str


class Plot(NamedTuple):
    """A drawing for the page: `svg` is markup that may be inserted as it is, `caption` and `legend` are plain text."""

    title: str
    svg: str
    caption: str
    legend: tuple[Entry, ...]
    wide: bool = False


def require() -> None:
    """Raise MissingExtra when matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra("matplotlib", "report", instead="read the table with `agentgym show`") from error


def score_by_hops(stores: Sequence[RunStore], names: Sequence[str]) -> Plot | None:
    """Headline score against the number of hops of the task, with 95 % intervals; by run where tasks have no hops.

    None where nothing was judged.
    """
    hops = hop_counts(stores)
    if not hops:
        return _score_by_run(stores, names)
    found = [[_score(store, {"hops": hop}) for hop in hops] for store in stores]
    if all(e.mean is None for row in found for e in row):
        return None

    def draw(axes: Axes) -> None:
        for i, row in enumerate(found):
            shift = (i - (len(found) - 1) / 2) * min(0.12, 0.6 / len(found))
            points = [(x + shift, e) for x, e in enumerate(row) if e.mean is not None]
            axes.plot(
                [x for x, _ in points], [e.mean or 0.0 for _, e in points], color=_colour(i), linewidth=1.4, alpha=0.55
            )
            _interval_points(axes, points, i)
        counts = [max(row[j].n for row in found) for j in range(len(hops))]
        axes.set_xticks(range(len(hops)), [f"{hop}\nn = {n}" for hop, n in zip(hops, counts, strict=True)])
        axes.set_xlim(-0.5, len(hops) - 0.5)
        axes.set_xlabel("hops of the task (n = episodes of each agent)")
        _score_axis(axes)

    return Plot("Score by hop count", _svg("score-by-hops", draw), _SCORE_CAPTION, _legend(names))


def recall_over_tokens(steps: pd.DataFrame, stores: Sequence[RunStore], names: Sequence[str]) -> Plot | None:
    """Share of what is relevant met so far against tokens of tool results read; None where no step has a recall."""
    known = steps[steps["recall"].notna()]
    if known.empty:
        return None
    most = max(float(known["read_tokens"].max()), 1.0)
    grid = [most * i / (_GRID_POINTS - 1) for i in range(_GRID_POINTS)]
    curves: list[list[Estimate] | None] = []
    counts = []
    for store in stores:
        mine = known[known["run"] == str(store.path)]
        curves.append(_recall_curve(mine, store, grid) if len(mine) else None)
        counts.append(mine[["task", "trial"]].drop_duplicates().shape[0])

    def draw(axes: Axes) -> None:
        for i, curve in enumerate(curves):
            if curve is None:
                continue
            means = [e.mean or 0.0 for e in curve]
            lows, highs = zip(*map(_bounds, curve), strict=True)
            axes.fill_between(grid, lows, highs, color=_colour(i), alpha=0.14, linewidth=0, step="post")
            axes.step(grid, means, where="post", color=_colour(i), linewidth=1.8)
            marked = slice(1 + 2 * (i % 4), None, _GRID_POINTS // 5)  # apart, so that equal curves can be told
            axes.plot(grid[marked], means[marked], _marker(i)[0], color=_colour(i), markersize=5, clip_on=False)
        axes.set_xlabel("tokens of tool results read")
        axes.set_ylabel("recall of everything met")
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlim(0, most)
        axes.grid(color=_INK, alpha=0.12, linewidth=0.6)

    caption = (
        "Mean over episodes, 95 % bands. An episode that has ended keeps its last value: a curve that flattens early "
        "stopped early. " + ", ".join(f"{name}: n = {n}" for name, n in zip(names, counts, strict=True)) + "."
    )
    return Plot("Recall against tokens", _svg("recall-over-tokens", draw), caption, _legend(names))


def reward_terms(stores: Sequence[RunStore], names: Sequence[str]) -> Plot | None:
    """Mean of each reward term, stacked, with the total and its interval; None where no reward was recorded."""
    tables = [episode_terms(store) for store in stores]
    names_of_terms = dict.fromkeys(term for table in tables for term in table)
    terms = [term for term in names_of_terms if any(any(table.get(term, ())) for table in tables)]
    if not terms:
        return None
    means = [{term: sum(column) / len(column) for term, column in table.items() if column} for table in tables]
    totals = [metrics(store, names=("reward",)).get("reward") for store in stores]

    def draw(axes: Axes) -> None:
        for y, mean in enumerate(means):
            right = left = 0.0
            for i, term in enumerate(terms):
                value = mean.get(term, 0.0)
                axes.barh(y, value, left=right if value > 0 else left, color=_colour(i), height=0.5)
                right, left = right + max(value, 0.0), left + min(value, 0.0)
            total = totals[y]
            if total is not None and total.mean is not None:
                lo, hi = _bounds(total)
                axes.errorbar(
                    total.mean,
                    y,
                    xerr=[[max(0.0, total.mean - lo)], [max(0.0, hi - total.mean)]],
                    fmt="D",
                    color=_INK,
                    markersize=5,
                    capsize=4,
                    linewidth=1.2,
                )
        axes.axvline(0, color=_INK, linewidth=0.8)
        labels = [
            f"{_short(name)}\nn = {len(store.manifest.episodes)}" for name, store in zip(names, stores, strict=True)
        ]
        axes.set_yticks(range(len(stores)), labels)
        axes.invert_yaxis()
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("mean reward an episode")
        axes.grid(axis="x", color=_INK, alpha=0.12, linewidth=0.6)

    caption = (
        "Each bar is a term's mean over planned episodes; the diamond is their sum, the reward, with its 95 % interval."
    )
    entries = tuple(Entry(term, i % SERIES, "■") for i, term in enumerate(terms))
    svg = _svg("reward-terms", draw, width_in=11.0, height_in=0.9 + 0.6 * len(stores))
    return Plot("Reward by term", svg, caption, entries, wide=True)


def hop_counts(stores: Sequence[RunStore]) -> list[int | float]:
    """The numbers of hops that tasks of these runs have, ascending; empty where tasks have no tag `hops`."""
    tags = [found.get("hops") for store in stores for found in task_tags(store.rows()).values()]
    return sorted({hops for hops in tags if isinstance(hops, int | float)})


def _score(store: RunStore, where: Mapping[str, object] | None = None) -> Estimate:
    return metrics(store, where=where, names=("score",)).get("score", Estimate(None, None, None, 0))


def _score_axis(axes: Axes) -> None:
    axes.set_ylabel("score")
    axes.set_ylim(-0.03, 1.03)
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.6)


def _score_by_run(stores: Sequence[RunStore], names: Sequence[str]) -> Plot | None:
    found = [_score(store) for store in stores]
    if all(e.mean is None for e in found):
        return None

    def draw(axes: Axes) -> None:
        for i, e in enumerate(found):
            if e.mean is not None:
                _interval_points(axes, [(float(i), e)], i)
        ticks = [f"{_short(name)}\nn = {e.n}" for name, e in zip(names, found, strict=True)]
        axes.set_xticks(range(len(names)), ticks)
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.set_xlabel("agent (n = episodes)")
        _score_axis(axes)

    return Plot("Score by agent", _svg("score-by-run", draw), _SCORE_CAPTION, _legend(names))


def _interval_points(axes: Axes, points: Sequence[tuple[float, Estimate]], series: int) -> None:
    for x, e in points:
        assert e.mean is not None
        lo, hi = _bounds(e)
        axes.errorbar(
            x,
            e.mean,
            yerr=[[max(0.0, e.mean - lo)], [max(0.0, hi - e.mean)]],
            fmt=_marker(series)[0],
            color=_colour(series),
            markersize=6,
            capsize=3,
            linewidth=1.6,
        )


def _recall_curve(steps: pd.DataFrame, store: RunStore, grid: Sequence[float]) -> list[Estimate]:
    """Estimate of recall at each point of the grid: the last value at or before it, 0 before the first turn."""
    import numpy as np

    clusters = {row.task: row.cluster for row in store.rows()}
    tasks, curves = [], []
    for (task, _), group in steps.groupby(["task", "trial"], sort=True):
        after = np.searchsorted(group["read_tokens"].to_numpy(dtype=float), grid, side="right")
        recalls = np.concatenate([[0.0], group["recall"].to_numpy(dtype=float)])
        tasks.append(str(task))
        curves.append(recalls[after])
    table = np.stack(curves, axis=1)
    columns: Mapping[str, Sequence[float]] = {str(i): row.tolist() for i, row in enumerate(table)}
    found = estimates(columns, tasks, [clusters.get(task, "") for task in tasks], draws=_BAND_DRAWS)
    return list(found.values())


def _svg(name: str, draw: Callable[[Axes], None], *, width_in: float = 5.6, height_in: float = 3.3) -> str:
    """Run a drawing on fresh axes; returns an `<svg>` element in the page's colours."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {**_RC, "svg.hashsalt": name}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        text = io.StringIO()
        nothing: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    for i, colour in enumerate(_COLOURS):
        svg = svg.replace(colour, f"var(--s{i})")
    return svg


def entry(name: str, series: int) -> Entry:
    """The legend entry of a run."""
    return Entry(name, series % SERIES, _marker(series)[1])


def _legend(names: Sequence[str]) -> tuple[Entry, ...]:
    return tuple(entry(name, i) for i, name in enumerate(names))


def _colour(series: int) -> str:
    return _COLOURS[series % SERIES]


def _marker(series: int) -> tuple[str, str]:
    """matplotlib's name of a series' marker, and the character for the legend."""
    return _MARKERS[series % len(_MARKERS)]


def _bounds(e: Estimate) -> tuple[float, float]:
    assert e.mean is not None
    return (e.mean if e.lo is None else e.lo), (e.mean if e.hi is None else e.hi)


def _short(name: str) -> str:
    """Names on axes: printable, and no wider than the plot can hold (the page shows them whole)."""
    name = "".join(char if char.isprintable() else " " for char in name)
    return name if len(name) <= 22 else f"{name[:21]}…"
