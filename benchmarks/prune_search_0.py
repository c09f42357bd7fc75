"""Does the suite `prune-search-0` discriminate? Every scripted agent over its test split at `24k-eval`.

Resumable: runs are kept under `.evidence/`. Writes results/prune-search-0.json, .svg (score by hops) and the full report.

    python benchmarks/prune_search_0.py [--split test] [--limit N]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from _common import RESULTS, write_result

import agentgym as ag
from agentgym.evaluation.summary import difference, metrics

AGENTS = (
    *("null", "random", "malformed", "single-search", "everything"),
    *("greedy", "greedy-prune", "informed", "oracle"),
)
PAIRS = (("greedy-prune", "greedy"), ("greedy-prune", "single-search"), ("greedy", "single-search"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, default=Path(".evidence/runs"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = {agent: run(agent, options) for agent in AGENTS}
    first = runs["oracle"]
    figures: dict[str, Any] = {
        "suite": first.manifest.suite,
        "split": first.manifest.split,
        "profile": first.manifest.profile,
        "taskset": first.manifest.taskset,
        "fingerprint": first.manifest.fingerprint,
        "episodes_each": len(first.manifest.episodes),
        "agents": {name: msgspec.to_builtins(item.metrics()) for name, item in runs.items()},
        "by_hops": {
            name: {
                str(hops): msgspec.to_builtins(metrics(item.store, where={"hops": hops}, names=["success"])["success"])
                for hops in sorted({row.tags["hops"] for row in item.rows})
            }
            for name, item in runs.items()
        },
        "paired_success": {
            f"{a} - {b}": msgspec.to_builtins(difference(runs[a].store, runs[b].store, "success")) for a, b in PAIRS
        },
    }
    name = f"prune-search-0-{options.split}" if options.limit is None else "prune-search-0-slice"
    write_result(name, figures, options.results)
    plot(figures, options.results / f"{name}.svg")


def run(agent: str, options: argparse.Namespace) -> ag.Run:
    """One agent's run, continued where it stopped."""

    def progress(row: object, done: int, planned: int) -> None:
        if sys.stderr.isatty() or done % 40 == 0 or done == planned:
            sys.stderr.write(f"\r{agent}: {done}/{planned}  ")

    suffix = "" if options.limit is None else f"-{options.limit}"
    return ag.evaluate(
        f"prune-search-0/{options.split}",
        agent,
        limit=options.limit,
        out=options.out / f"prune-search-0-{options.split}{suffix}" / agent,
        processes=os.cpu_count() or 1,
        progress=progress,
    )


def plot(figures: dict[str, Any], path: Path) -> None:
    """Success by hops with intervals."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "agentgym"
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for agent, hops in figures["by_hops"].items():
        if agent in {"null", "random", "malformed"}:
            continue
        x = [int(key) for key in hops]
        y = [item["mean"] for item in hops.values()]
        error = [
            [item["mean"] - item["lo"] for item in hops.values()],
            [item["hi"] - item["mean"] for item in hops.values()],
        ]
        axes.errorbar(x, y, yerr=error, marker="o", capsize=3, label=agent)
    axes.set(xlabel="hops", ylabel="final answer found", ylim=(-0.03, 1.05), xticks=x)
    axes.set_title(f"{figures['suite']}/{figures['split']} at {figures['profile']}, {figures['episodes_each']} tasks")
    axes.legend(fontsize=8, ncols=2)
    fig.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
