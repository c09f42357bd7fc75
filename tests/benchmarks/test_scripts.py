"""A slice of each long benchmark runs, and says what its figures need to be believed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym.corpus.tasksets import suites

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def run(script: str, *arguments: str, cwd: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, timeout=280)


def committed(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert {"command", "date", "machine", "versions"} <= figures.keys()
    return figures


def test_a_slice_of_the_suite_discriminates(tmp_path: Path, cache: Path) -> None:
    run("prune_search_0.py", "--split", "dev", "--limit", "16", "--out", "runs", "--results", ".", cwd=tmp_path)
    agents = json.loads((tmp_path / "prune-search-0-slice.json").read_text("utf-8"))["agents"]
    success = {name: metrics["success"]["mean"] for name, metrics in agents.items()}
    assert success["oracle"] == 1.0
    assert success["informed"] >= 0.9
    assert success["null"] == success["malformed"] == 0.0
    assert success["random"] <= 0.1
    assert agents["greedy-prune"]["trajectory_recall"]["mean"] > agents["greedy"]["trajectory_recall"]["mean"] + 0.1
    assert agents["everything"]["f1"]["mean"] < agents["greedy"]["f1"]["mean"]


def test_replays_of_a_few_episodes(tmp_path: Path, cache: Path) -> None:
    run("replays.py", "--episodes", "192", "--limit", "6", "--out", "runs", "--results", ".", cwd=tmp_path)
    found = json.loads((tmp_path / "replays.json").read_text("utf-8"))
    assert found["pinned"]["episodes"] >= 190
    assert found["pinned"]["differences"] == 0


def test_the_committed_figures_meet_what_is_claimed() -> None:
    figures = committed("prune-search-0-test")
    assert figures["episodes_each"] >= 200
    success = {name: metrics["success"]["mean"] for name, metrics in figures["agents"].items()}
    assert success["oracle"] == 1.0
    assert success["informed"] >= 0.95
    assert success["null"] == 0.0
    assert success["single-search"] <= 0.45
    assert figures["paired_success"]["greedy-prune - greedy"]["mean"] >= 0.10
    assert figures["agents"]["everything"]["f1"]["mean"] < figures["agents"]["greedy"]["f1"]["mean"]


def test_the_readme_shows_the_committed_figures() -> None:
    agents = committed("prune-search-0-test")["agents"]
    rows = re.findall(r"^\| ([a-z-]+) \| (\d\.\d{3}) \[", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(rows) == 8
    for name, shown in rows:
        assert shown == f"{agents[name]['final_answer_found']['mean']:.3f}"


def test_the_committed_replays_agree() -> None:
    figures = committed("replays")
    for release in ("pinned", "next"):
        assert figures[release]["episodes"] >= 1_000
        assert figures[release]["differences"] == 0
    assert figures["pinned"]["gymnasium"] < figures["next"]["gymnasium"]


def test_the_committed_figures_are_of_todays_environment() -> None:
    """A change of tools, prompts, limits or scorer changes the fingerprint: the figures must then be made anew."""
    from agentgym.envs.prune_search.env import PruneSearchEnv

    suite = suites()["prune-search-0"]
    env = PruneSearchEnv("prune-search-0/test", profile=suite.profile)
    figures = committed("prune-search-0-test")
    assert figures["taskset"] == env.taskset_hash()
    assert figures["fingerprint"] == env.fingerprint()


def test_real_corpora(real_data: Path) -> None:
    figures = committed("real_corpora")
    assert figures["recall_at_10"]["hotpotqa"]["hybrid"] >= 0.90
    assert figures["recall_at_10"]["cranfield"]["hybrid"] >= 0.48
    assert figures["hotpotqa_agents"]["greedy-prune"]["trajectory_recall"]["mean"] >= 0.94
    assert figures["hotpotqa_paired_trajectory_recall"]["lo"] > 0


@pytest.mark.parametrize("name", ["prune-search-0-test", "replays", "real_corpora", "speed_episode", "speed_retrieval"])
def test_figures_say_how_they_were_made(name: str) -> None:
    committed(name)
