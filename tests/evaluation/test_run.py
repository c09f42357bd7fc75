"""`evaluate` and `Run`: what stands in a run folder is never spoiled by a later mistake, and forgeries are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agentgym as ag
from agentgym.core.errors import ConfigError, InfraError
from agentgym.corpus.document import Document


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("index")
    documents = [Document(f"d{i}", f"The lamp of pier {i} was lit by keeper {i}.") for i in range(5)]
    ag.Index.build(documents, folder, retrieval="lexical")
    return str(folder)


def tasks(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    path.write_text(json.dumps([{"id": name, "query": f"who lit the lamp of {name}", "gold": ["d1"]}]))
    return ag.read_tasks(path)


def test_another_task_set_does_not_overwrite_the_one_of_a_run(tmp_path: Path, index: str) -> None:
    own, suite = tmp_path / "own", tmp_path / "suite"
    ag.evaluate(tasks(tmp_path, "a"), "greedy", index=index, profile="8k", out=own)
    ag.evaluate("sample", "null", limit=1, out=suite)
    for folder in (own, suite):
        with pytest.raises(ConfigError, match="holds another run, of other tasks"):
            ag.evaluate(tasks(tmp_path, "b"), "greedy", index=index, profile="8k", out=folder)
        assert all(result.problems == () for result in ag.Run(folder).replay())
    assert not (suite / "tasks").exists()
    assert len(ag.evaluate(tasks(tmp_path, "a"), "greedy", index=index, profile="8k", out=own).rows) == 1


def test_a_rescored_run_on_own_tasks_is_a_whole_run(tmp_path: Path, index: str) -> None:
    run = ag.evaluate(tasks(tmp_path, "a"), "greedy", index=index, profile="8k", out=tmp_path / "run")
    new = run.rescore(tmp_path / "new")
    assert [row.score for row in new.rows] == [row.score for row in run.rows]
    assert all(result.problems == () for result in new.replay())
    assert new.problems() == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"profile": "8k"}, "profile is '8k'"),
        ({"taskset": "00"}, "taskset is '00'"),
        ({"fingerprint": "00"}, "fingerprint is '00'"),
        ({"trials": 7}, "trials is 7"),
        ({"protocol": "standard"}, "is not the protocol of suite 'sample'"),
    ],
)
def test_a_forged_manifest_is_told(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    run = ag.evaluate("sample", "null", limit=1, out=tmp_path)
    assert run.problems() == []
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    assert any(says in problem for problem in ag.Run(tmp_path).problems())


def test_a_negative_seed_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seed_base=-1 must be at least 0"):
        ag.evaluate("sample", "null", limit=1, seed_base=-1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Broken:
    """Breaks as it is told to, until it is mended."""

    name = "broken"

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def begin(self, brief: ag.Brief) -> ag.Policy:
        return self

    async def act(self, view: ag.View) -> ag.Turn:
        if self.error is not None:
            raise self.error
        return ag.Turn("")


def statuses(error: Exception | None, out: Path, *, retry_failed: bool = False) -> list[str]:
    run = ag.evaluate("sample", Broken(error), limit=3, out=out, infra_retries=0, retry_failed=retry_failed)
    rows = run.rows
    assert len({row.key for row in rows}) == len(rows) == 3  # nothing counted twice, nothing lost
    assert run.problems() == []
    return sorted({row.status.value for row in rows})


def test_what_the_machine_broke_is_played_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert statuses(InfraError("endpoint down"), tmp_path / "r") == ["infra_error"]
    assert "3 of 3 episodes failed and count 0" in caplog.text
    assert "endpoint down" in caplog.text
    assert statuses(None, tmp_path / "r") == ["completed"]
    assert len((tmp_path / "r" / "episodes.jsonl").read_bytes().splitlines()) == 1 + 3


def test_what_the_agent_broke_is_played_again_when_asked(tmp_path: Path) -> None:
    assert statuses(TypeError("a typo"), tmp_path / "r") == ["agent_error"]
    assert statuses(None, tmp_path / "r") == ["agent_error"]
    assert statuses(None, tmp_path / "r", retry_failed=True) == ["completed"]
    assert statuses(TypeError("again"), tmp_path / "r", retry_failed=True) == ["completed"]  # what is done stays done
