from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from agentgym.core.errors import ConfigError
from agentgym.core.records import Score, Status, Truth
from agentgym.evaluation.frames import MISSING, labels, load_rewards, load_runs, load_steps, open_runs
from agentgym.evaluation.statistics import Estimate
from agentgym.evaluation.summary import difference, episode_terms, episode_values, metrics, summary
from agentgym.rollouts.store import Planned, RunStore
from tests.rollouts.synthetic import fill, manifest, row, run, trajectory

ROOT = Path(__file__).resolve().parents[2]
TRUTH = Truth("t0", "prune-search", {"relevant": ["t0_0", "t0_3", "t0_8", "t0_9"]})


@pytest.fixture
def broken(tmp_path: Path) -> RunStore:
    """Six planned episodes: two good (score 1 and 0), a failed one, one cut from outside, two that never ran."""
    with RunStore.create(tmp_path / "broken", manifest(6)) as store:
        store.add(row("t0", 0, 0, value=1.0, hops=1), trajectory("t0", 0))
        store.add(row("t1", 0, 1, value=0.0, hops=2), trajectory("t1", 1))
        failed = row("t2", 0, 2, value=1.0, hops=1)  # whatever a broken episode claims
        store.add(msgspec.structs.replace(failed, status=Status.AGENT_ERROR, stop=None, error="KeyError: 'x'"))
        cut = row("t3", 0, 3, value=0.0, hops=2)
        store.add(msgspec.structs.replace(cut, status=Status.TRUNCATED, stop=None), None)
    return RunStore.open(tmp_path / "broken")


# -- runs


def test_runs_have_a_row_for_every_planned_episode(broken: RunStore) -> None:
    frame = load_runs(broken)
    assert list(frame["task"]) == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert list(frame["status"]) == ["completed", "completed", "agent_error", "truncated", MISSING, MISSING]
    assert list(frame["seed"]) == [0, 1, 2, 3, 4, 5]
    first = frame.iloc[0]
    assert (first["agent"], first["suite"], first["split"]) == ("greedy-prune", "prune-search-0", "dev")
    assert (first["final_answer_found"], first["trajectory_recall"], first["f1"]) == (1.0, 0.75, 0.5)
    assert (first["hops"], first["domain"]) == (1, "web")
    assert (first["tokens_in"], first["context_tokens_peak"], first["cost_usd"]) == (4500, 13500, 0.002)
    assert frame.loc[4:, "score"].isna().all()


def test_several_runs_stand_below_each_other(tmp_path: Path) -> None:
    run(tmp_path / "a", 3)
    run(tmp_path / "b", 2, trials=2, agent="greedy")
    frame = load_runs([tmp_path / "a", str(tmp_path / "b")])
    assert frame.groupby("agent", sort=True).size().to_dict() == {"greedy": 4, "greedy-prune": 3}
    assert frame["run"].nunique() == 2


def test_a_metric_or_tag_never_overwrites_a_column(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(1)) as store:
        made = row()
        store.add(
            msgspec.structs.replace(made, score=Score(1.0, {"score": 0.5, "agent": 0.1}), tags={"seed": "x", "hops": 3})
        )
    first = load_runs(tmp_path).iloc[0]
    assert (first["score"], first["metric_score"]) == (1.0, 0.5)
    assert (first["agent"], first["metric_agent"]) == ("greedy-prune", 0.1)
    assert (first["seed"], first["tag_seed"], first["hops"]) == (0, "x", 3)


def test_an_empty_run_has_columns_and_rows_without_values(tmp_path: Path) -> None:
    RunStore.create(tmp_path, manifest(2)).close()
    assert list(load_runs(tmp_path)["status"]) == [MISSING, MISSING]
    assert load_steps(tmp_path).empty
    assert "recall" in load_steps(tmp_path).columns
    assert load_rewards(tmp_path).empty


def test_no_run_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run was given"):
        open_runs([])
    with pytest.raises(ConfigError, match="is no run folder"):
        load_runs(tmp_path / "nowhere")


# -- steps and rewards


def test_steps_have_a_row_a_turn(tmp_path: Path) -> None:
    store = run(tmp_path, 1)
    frame = load_steps(store)
    assert list(frame["turn"]) == [1, 2, 3, 4, 5]
    assert list(frame["calls"]) == [1, 1, 1, 2, 0]
    assert list(frame["errors"]) == [0, 0, 0, 2, 0]
    assert list(frame["used_tokens"]) == [9000, 13500, 7200, 7300, 7400]
    assert list(frame["read_tokens"]) == [180, 240, 245, 254, 254]
    assert list(frame["shown"]) == [3, 1, 0, 0, 0]
    assert list(frame["pruned"]) == [0, 0, 2, 0, 0]
    assert frame["recall"].isna().all()


def test_recall_counts_what_was_met_and_later_pruned(tmp_path: Path) -> None:
    store = run(tmp_path, 2)
    frame = load_steps(store, {"t0": TRUTH})
    assert list(frame[frame["task"] == "t0"]["recall"]) == [0.25, 0.5, 0.5, 0.5, 0.5]
    assert frame[frame["task"] == "t1"]["recall"].isna().all()  # no truth known
    documents = Truth("t0", "prune-search", {"relevant": ["t0"], "level": "document"})
    assert load_steps(store, {"t0": documents})["recall"].max() == 1.0
    assert load_steps(store, {"t0": Truth("t0", "other", {"tests": []})})["recall"].isna().all()


def test_rewards_sum_to_the_reward(tmp_path: Path) -> None:
    store = run(tmp_path, 2)
    frame = load_rewards(store)
    assert list(frame.columns) == ["run", "agent", "task", "trial", "term", "value"]
    sums = frame.groupby("task")["value"].sum()
    assert sums.to_dict() == {"t0": pytest.approx(0.9), "t1": pytest.approx(0.9)}


# -- the summary


def test_failed_and_missing_episodes_count_0_in_scores_and_not_in_measures(broken: RunStore) -> None:
    found = metrics(broken)
    assert (found["score"].mean, found["score"].n) == (pytest.approx(1 / 6, abs=1e-6), 6)
    assert (found["final_answer_found"].mean, found["final_answer_found"].n) == (pytest.approx(1 / 6, abs=1e-6), 6)
    assert (found["f1"].mean, found["f1"].n) == (0.25, 6)  # three scored episodes have 0.5
    assert (found["wall_s"].mean, found["wall_s"].n) == (0.25, 3)
    assert (found["failed_rate"].mean, found["failed_rate"].n) == (0.5, 6)
    assert episode_values(broken, "score") == {("t0", 0): 1.0, **{(f"t{i}", 0): 0.0 for i in range(1, 6)}}
    assert episode_terms(broken)["f_beta"] == [0.7, 0.7, 0.0, 0.7, 0.0, 0.0]


def test_scores_stand_first() -> None:
    names = list(metrics(RunStore.open(ROOT / "tests/rollouts/golden/run-1")))
    assert names[:3] == ["final_answer_found", "score", "f1"]
    assert names[-1] == "failed_rate"
    assert names.index("reward") < names.index("wall_s")


def test_a_run_without_judgements_has_no_score_rather_than_0(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(3)) as store:
        for episode in store.manifest.episodes[:2]:
            made = msgspec.structs.replace(row(*episode), score=Score(None, {"final_answer_found": None, "turns": 4.0}))
            store.add(made)
    found = metrics(RunStore.open(tmp_path))
    assert found["score"] == Estimate(None, None, None, 0)
    assert found["final_answer_found"] == Estimate(None, None, None, 0)
    assert (found["turns"].mean, found["turns"].n) == (4.0, 2)


def test_a_run_in_which_all_failed_scores_0(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(3)) as store:
        for episode in store.manifest.episodes:
            store.add(msgspec.structs.replace(row(*episode), status=Status.INFRA_ERROR, score=Score(0.0)))
    found = metrics(RunStore.open(tmp_path))
    assert found["score"] == Estimate(0.0, 0.0, 0.0, 3)
    assert found["failed_rate"].mean == 1.0


def test_metrics_of_a_part_keep_the_failed_trials_of_its_tasks(tmp_path: Path) -> None:
    plan = tuple(Planned(f"t{i}", trial, trial) for i in range(4) for trial in range(2))
    with RunStore.create(tmp_path, manifest(episodes=plan)) as store:
        for episode in plan:
            made = row(*episode, value=1.0, hops=1 + int(episode.task[1:]) % 2)
            if episode.trial == 1 and episode.task == "t1":
                made = msgspec.structs.replace(made, status=Status.INFRA_ERROR, tags={})
            store.add(made)
    found = metrics(RunStore.open(tmp_path), where={"hops": 2}, names=("score",))
    assert list(found) == ["score"]
    assert (found["score"].mean, found["score"].n) == (0.75, 4)


def test_summary_is_tidy(tmp_path: Path) -> None:
    run(tmp_path / "a", 4)
    run(tmp_path / "b", 4, agent="greedy")
    frame = summary([tmp_path / "a", tmp_path / "b"])
    assert list(frame.columns) == ["run", "label", "metric", "mean", "lo", "hi", "n", "planned"]
    assert list(dict.fromkeys(frame["label"])) == ["greedy-prune", "greedy"]
    table = frame.pivot_table(index="label", columns="metric", values="mean")
    assert isinstance(table, pd.DataFrame)
    assert table.loc["greedy", "score"] == 0.5


def test_two_runs_are_compared_pair_by_pair(tmp_path: Path) -> None:
    one = run(tmp_path / "a", 8)
    other = run(tmp_path / "b", 8)
    assert difference(one, other, "score") == Estimate(0.0, 0.0, 0.0, 8)
    with pytest.raises(ConfigError, match="has no metric 'beauty'; it has final_answer_found, score"):
        episode_values(one, "beauty")


def test_labels_are_short_and_distinct(tmp_path: Path) -> None:
    def stores(*made: dict[str, object]) -> list[RunStore]:
        folders = []
        for i, fields in enumerate(made):
            folders.append(tmp_path / f"{len(list(tmp_path.iterdir()))}" / f"run{i}")
            RunStore.create(folders[-1], manifest(1, **fields)).close()
        return open_runs(folders)

    assert labels(stores({"agent": "a"}, {"agent": "b"})) == ["a", "b"]
    assert labels(stores({"model": "m"}, {"model": "n"})) == ["greedy-prune (m)", "greedy-prune (n)"]
    assert labels(stores({"profile": "8k"}, {"profile": "2k"})) == ["greedy-prune · 8k", "greedy-prune · 2k"]
    assert labels(stores({}, {})) == ["greedy-prune · run0", "greedy-prune · run1"]


def test_frames_need_neither_environment_nor_torch(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(2)) as store:
        fill(store)
    code = (
        "import sys\nfrom agentgym.evaluation.frames import load_runs, load_steps\n"
        f"load_runs({str(tmp_path)!r}); load_steps({str(tmp_path)!r})\n"
        "loaded = {'torch', 'matplotlib', 'agentgym.envs.prune_search.env', 'agentgym.retrieval.index'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
