"""The command line as a user meets it: every command in a process of its own, on real files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import OpenAIServer, call, say

ROOT = Path(__file__).resolve().parents[2]


def agentgym(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", "from agentgym.cli import main; main()", *arguments]
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == code, f"{arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def parsed(*arguments: str, cwd: Path) -> Any:
    return json.loads(agentgym(*arguments, "--json", cwd=cwd).stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Two agents' runs over a few tasks of `sample`."""
    folder = tmp_path_factory.mktemp("cli")
    agents = ["--agent", "single-search", "--agent", "greedy-prune"]
    agentgym("eval", "sample", *agents, "--limit", "4", "--out", "runs", "--processes", "2", cwd=folder)
    return folder


def test_help_teaches(tmp_path: Path) -> None:
    assert "agentgym eval sample" in agentgym("--help", cwd=tmp_path).stdout
    for command in ("envs", "eval", "replay", "rescore", "show", "report"):
        text = agentgym(command, "--help", cwd=tmp_path).stdout
        assert f"agentgym {command}" in text, f"{command}: its help has no example"
    for command in ("build", "info", "verify", "search"):
        assert f"agentgym index {command}" in agentgym("index", command, "--help", cwd=tmp_path).stdout


def test_envs_lists_what_eval_takes(tmp_path: Path) -> None:
    listing = parsed("envs", cwd=tmp_path)
    env = listing["environments"][0]
    assert {"32k", "24k-eval", "tiny", "walkthrough"} <= set(env["profiles"])
    assert {"null", "oracle", "greedy-prune", "malformed"} <= set(env["agents"])
    assert {"sample", "prune-search-0"} <= {suite["id"] for suite in listing["suites"]}
    assert "greedy-prune" in agentgym("envs", cwd=tmp_path).stdout


def test_eval_json_of_one_agent(runs: Path) -> None:
    found = parsed("eval", "sample/dev", "--agent", "oracle", "--limit", "3", "--out", "oracle", cwd=runs)
    assert found["metrics"]["success"] == {"mean": 1.0, "lo": 1.0, "hi": 1.0, "n": 3}
    assert {"final_answer_found", "trajectory_recall", "f1"} <= set(found["metrics"])
    assert found["episodes"] == {"planned": 3, "completed": 3}
    assert found["protocol"] == "custom"  # a limit is not the suite's protocol


def test_trials_are_fused(runs: Path) -> None:
    found = parsed("eval", "sample", "--agent", "random", "--limit", "2", "--trials", "4", "--out", "fused", cwd=runs)
    assert found["episodes"] == {"planned": 8, "completed": 8}
    assert found["fused"]["final_answer_found"]["n"] == 2
    assert parsed("eval", "sample", "--agent", "null", "--limit", "1", "--out", "one", cwd=runs)["fused"] is None
    assert "success" in agentgym("eval", "sample", "--agent", "null", "--limit", "1", "--out", "one", cwd=runs).stdout


def test_a_model_at_an_endpoint(runs: Path) -> None:
    def policy(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        if messages[-1]["role"] == "tool":
            return say("I found nothing.")
        return call("search_corpus", query=messages[-1]["content"])

    with OpenAIServer(policy) as server:
        model = ["--agent", "chat", "--model", "test-model", "--base-url", server.base_url]
        found = parsed("eval", "sample", *model, "--limit", "3", "--out", "chat", cwd=runs)
    assert found["model"] == "test-model"
    assert found["episodes"] == {"planned": 3, "completed": 3}
    assert found["metrics"]["turns"]["mean"] == 2.0
    assert found["metrics"]["trajectory_recall"]["mean"] > 0
    assert parsed("replay", "chat", cwd=runs)["problems"] == []


def test_an_own_corpus_is_cut_as_the_profile_says(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(json.dumps({"_id": "a", "text": "The lamp of the pier was lit. " * 100}))
    (tmp_path / "q.json").write_text('[{"id": "x", "query": "who lit the lamp", "gold": ["a"]}]')
    own = ["--queries", "q.json", "--profile", "tiny", "--agent", "single-search"]
    parsed("eval", "prune-search", *own, "--corpus", "c.jsonl", "--retrieval", "lexical", "--out", "run", cwd=tmp_path)
    (trajectory,) = [parsed("show", "run", "--task", "x", cwd=tmp_path)]
    shown = [chunk for step in trajectory["steps"] for chunk in step.get("shown", ())]
    assert len(shown) == 2  # chunks of 32 words at most: several fit into a tiny window
    refused = agentgym("eval", "prune-search", *own, "--corpus", "c.jsonl", "--index", "i", cwd=tmp_path, code=2)
    assert "--index is searched as it is" in refused.stderr


def test_texts_can_do_nothing_to_the_terminal_and_are_shown_as_they_are(tmp_path: Path) -> None:
    evil = "\x1b[2J\x9b31m[/red]:smile:\u202e"
    corpus = [{"_id": f"{evil}{i}", "text": f"lamp {evil}", "title": evil} for i in range(2)]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "q.json").write_text(json.dumps([{"id": evil, "query": f"lamp {evil}", "gold": [f"{evil}0"]}]))
    agentgym("index", "build", "c.jsonl", "--out", "idx", "--retrieval", "lexical", cwd=tmp_path)
    own = ["--index", "idx", "--queries", "q.json", "--profile", "8k", "--agent", "greedy", "--out", "run"]
    agentgym("eval", "prune-search", *own, cwd=tmp_path)
    for arguments in (
        ("index", "search", "idx", "lamp"),
        ("show", "run"),
        ("show", "run", "--json"),
        ("show", "run", "--task", evil),
    ):
        shown = agentgym(*arguments, cwd=tmp_path).stdout
        assert not set("\x1b\x9b\u202e") & set(shown), arguments
        assert "[/red]:smile:" in shown, arguments
    assert parsed("show", "run", cwd=tmp_path)[0]["task"] == evil
    refused = agentgym("show", "run", "--task", f"{evil}?", cwd=tmp_path, code=2).stderr
    assert not set("\x1b\x9b\u202e") & set(refused)


def test_replay_names_every_damaged_run_and_says_what_is_missing(runs: Path, tmp_path: Path) -> None:
    for name in ("single-search", "greedy-prune"):
        shutil.copytree(runs / "runs" / name, tmp_path / "runs" / name)
        rows = tmp_path / "runs" / name / "episodes.jsonl"
        rows.write_text(rows.read_text().replace('"reward":', '"reward":9', 1))
    found = json.loads(agentgym("replay", "runs", "--json", cwd=tmp_path, code=1).stdout)
    assert {Path(problem["run"]).name for problem in found["problems"]} == {"single-search", "greedy-prune"}
    rows = tmp_path / "runs" / "greedy-prune" / "episodes.jsonl"
    rows.write_text("".join((runs / "runs/greedy-prune/episodes.jsonl").read_text().splitlines(keepends=True)[:3]))
    assert "2 of 4 planned episodes replayed" in agentgym("replay", "runs/greedy-prune", cwd=tmp_path).stdout


def test_split_option_is_the_same_as_the_name(runs: Path) -> None:
    found = parsed("eval", "sample", "--split", "dev", "--agent", "oracle", "--limit", "3", "--out", "oracle", cwd=runs)
    assert found["suite"] == "sample"
    assert found["split"] == "dev"
    assert "unknown split" in agentgym("eval", "sample/nope", "--agent", "null", cwd=runs, code=2).stderr


def test_a_finished_run_is_not_played_again(runs: Path) -> None:
    before = (runs / "runs" / "greedy-prune" / "episodes.jsonl").read_bytes()
    agents = ["--agent", "single-search", "--agent", "greedy-prune"]
    found = parsed("eval", "sample", *agents, "--limit", "4", "--out", "runs", cwd=runs)
    assert (runs / "runs" / "greedy-prune" / "episodes.jsonl").read_bytes() == before
    assert [item["agent"] for item in found["runs"]] == ["single-search", "greedy-prune"]
    pair = next(item for item in found["paired"] if item["metric"] == "trajectory_recall")
    assert pair["first"] == "single-search"
    assert pair["lo"] <= pair["mean"] <= pair["hi"]


def test_another_run_in_the_same_folder_is_refused(runs: Path) -> None:
    out = ["--out", "runs/greedy-prune"]
    error = agentgym("eval", "sample", "--agent", "greedy", "--limit", "4", *out, cwd=runs, code=2).stderr
    assert "agent is 'greedy-prune' there and 'greedy' here" in error.replace("\n", " ")


def test_replay_finds_no_difference_then_the_altered_byte(runs: Path, tmp_path: Path) -> None:
    assert parsed("replay", "runs", cwd=runs) == {"episodes": 8, "planned": 8, "problems": []}
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(runs / "runs" / "single-search"), str(copy)], check=True)
    file = sorted((copy / "trajectories").iterdir())[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    done = agentgym("replay", str(copy), cwd=tmp_path, code=1)
    assert file.name in done.stdout


def test_rescore_gives_the_same_scores(runs: Path) -> None:
    found = parsed("rescore", "runs/greedy-prune", "--out", "rescored", cwd=runs)
    assert found["changed"] == []
    assert parsed("replay", "rescored", cwd=runs)["problems"] == []


def test_show_lists_and_strikes(runs: Path) -> None:
    rows = parsed("show", "runs/greedy-prune", cwd=runs)
    assert len(rows) == 4
    text = agentgym("show", "runs/greedy-prune", "--task", rows[0]["task"], cwd=runs).stdout
    assert "pruned in turn" in text
    assert "search_corpus" in text
    assert "no finished episode" in agentgym("show", "runs/greedy-prune", "--task", "x", cwd=runs, code=2).stderr


def test_report_is_one_file(runs: Path) -> None:
    agentgym("report", "runs", "--html", "report.html", cwd=runs)
    page = (runs / "report.html").read_text("utf-8")
    assert "greedy-prune" in page
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_own_corpus(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bridge.md").write_text("# Bridge\nThe old bridge was designed by Ada Hill.")
    (tmp_path / "docs" / "hill.html").write_text("<title>Ada Hill</title><p>Ada Hill was born in Port Lull.")
    (tmp_path / "q.json").write_text(
        json.dumps([{"query": "Where was the designer of the bridge born?", "gold": ["hill.html"]}])
    )
    own = ["--corpus", "docs", "--queries", "q.json", "--retrieval", "lexical"]
    found = parsed(
        "eval", "prune-search", *own, "--agent", "greedy-prune", "--profile", "8k", "--out", "r", cwd=tmp_path
    )
    assert found["metrics"]["recall"]["mean"] == 1.0
    assert found["metrics"]["final_answer_found"]["mean"] is None
    assert parsed("replay", "r", cwd=tmp_path)["problems"] == []


def test_index_commands(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"_id": "a", "text": "red herring"}\n{"_id": "b", "text": "blue whale"}\n')
    built = parsed("index", "build", "docs.jsonl", "--out", "idx", "--retrieval", "lexical", cwd=tmp_path)
    assert built["chunks"] == 2
    assert parsed("index", "info", "idx", cwd=tmp_path)["hash"] == built["hash"]
    assert parsed("index", "search", "idx", "whale", "-k", "1", cwd=tmp_path)[0]["id"] == "b_0"
    agentgym("index", "verify", "idx", cwd=tmp_path)
    text = next(path for path in (tmp_path / "idx").iterdir() if path.name.startswith("text") and path.suffix == ".bin")
    text.write_bytes(text.read_bytes().replace(b"whale", b"shark"))
    assert text.name in agentgym("index", "verify", "idx", cwd=tmp_path, code=2).stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "sampel", "--agent", "null"], "did you mean sample"),
        (["eval", "sample", "--agent", "gredy"], "did you mean greedy"),
        (["eval", "sample", "--agent", "null", "--profile", "9k"], "unknown profile '9k'"),
        (["eval", "prune-search", "--corpus", "nowhere", "--queries", "q", "--agent", "null"], "q"),
        (["replay", "nowhere"], "no run folder"),
        (["show", "nowhere"], "no run folder"),
        (["index", "info", "nowhere"], "nowhere"),
        (["eval", "sample", "--agent", "chat"], "OPENAI"),
    ],
)
def test_errors_are_one_line_that_names_the_value(arguments: list[str], said: str, tmp_path: Path, cache: Path) -> None:
    done = agentgym(*arguments, cwd=tmp_path, code=2)
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
