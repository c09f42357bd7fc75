"""The runner: whatever agents do, every planned episode ends once, with a status, in the store."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest

from agentgym.core.errors import ConfigError, InfraError
from agentgym.core.records import Status, StopReason, Trajectory
from agentgym.rollouts.manifest import EpisodeRow, Planned
from agentgym.rollouts.play import EnvSpec, Player
from agentgym.rollouts.replay import replay
from agentgym.rollouts.runner import run_episodes
from agentgym.rollouts.store import RunStore
from agentgym.rollouts.worker import Answer, frame, read_frame
from tests.lookup_env import LookupEnv
from tests.rollouts.trouble import SPEC, Trouble, plan

ROOT = Path(__file__).resolve().parents[2]
both = pytest.mark.parametrize("processes", [1, 2])


def played(folder: Path, agent: Trouble | str, count: int = 6, **options: object) -> list[EpisodeRow]:
    """Rows after a run in a new or used folder; the store is whole and every trajectory replays."""
    with RunStore.create(folder, plan(count)) as store:
        run_episodes(store, SPEC, agent, **options)  # type: ignore[arg-type]
        return checked(store)


def checked(store: RunStore) -> list[EpisodeRow]:
    assert store.verify() == []
    rows = store.rows()
    env = LookupEnv()
    for row in rows:
        found = replay(env, store.trajectory(row), score=row.score if row.status is Status.COMPLETED else None)
        assert found.problems == ()
    assert len({row.key for row in rows}) == len(rows)
    return rows


@both
def test_every_episode_is_played_once(tmp_path: Path, processes: int) -> None:
    seen: list[EpisodeRow] = []
    rows = played(tmp_path, Trouble(), 16, processes=processes, concurrency=5, progress=seen.append)
    assert [row.task for row in rows] == [f"t{i}" for i in range(16)]
    assert {row.score.value for row in rows} == {1.0}
    assert {row.status for row in rows} == {Status.COMPLETED}
    assert sorted(row.task for row in seen) == sorted(row.task for row in rows)
    assert played(tmp_path, Trouble("raise", ("t0",)), 16, processes=processes) == rows  # nothing is played again


def test_one_process_and_two_give_the_same_trajectories(tmp_path: Path) -> None:
    for agent in (Trouble(), "random", "malformed", "null"):
        name = agent if isinstance(agent, str) else agent.name
        one = played(tmp_path / f"{name}1", agent, 8)
        two = played(tmp_path / f"{name}2", agent, 8, processes=2)
        assert [row.trajectory for row in one] == [row.trajectory for row in two]


@both
def test_an_agent_that_raises_does_not_take_its_siblings_down(tmp_path: Path, processes: int) -> None:
    rows = played(tmp_path, Trouble("raise", ("t1", "t4")), processes=processes)
    assert [row.status for row in rows] == [
        Status.AGENT_ERROR if row.task in ("t1", "t4") else Status.COMPLETED for row in rows
    ]
    assert rows[1].error == "KeyError: 'agent\\nbug'"
    assert rows[1].score.value == 0.0
    assert rows[1].stop is StopReason.CANCELLED


@both
@pytest.mark.parametrize("kind", ["hang", "spin"])
def test_the_time_limit_cuts_who_waits_and_who_never_does(tmp_path: Path, processes: int, kind: str) -> None:
    spec = EnvSpec("Lookup-v0", "tests.rollouts.test_runner:LongLookup")
    with RunStore.create(tmp_path, plan(4)) as store:
        run_episodes(store, spec, Trouble(kind, ("t2",)), processes=processes, time_limit_s=1.0)
        rows = store.rows()
    assert [row.status for row in rows] == [Status.COMPLETED] * 2 + [Status.TRUNCATED] + [Status.COMPLETED]
    assert rows[2].error == "cut after 1.0 s"
    assert rows[2].stop is StopReason.CANCELLED


class LongLookup(LookupEnv):
    """So many turns that only the clock ends an episode."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = msgspec.structs.replace(self.profile, max_turns=10_000_000)


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan")])
def test_a_time_limit_that_is_none_is_refused(tmp_path: Path, limit_s: float) -> None:
    with pytest.raises(ConfigError, match=r"time_limit_s=.* must be above 0"):
        played(tmp_path, "null", time_limit_s=limit_s)


def test_an_environment_that_cannot_be_built_is_named() -> None:
    with pytest.raises(ConfigError, match="its module 'no_such_module' cannot be imported"):
        EnvSpec.of("no_such_module:X-v0", {})
    with pytest.raises(ConfigError, match=r"Lookup-v0 does not take these arguments: .*'bogus'"):
        EnvSpec(SPEC.id, SPEC.entry_point, {"bogus": "1"}).build()


@both
@pytest.mark.parametrize("kind", ["cancels", "exits"])
def test_an_agent_that_gives_up_the_process_or_the_loop_ends_its_own_episode_alone(
    tmp_path: Path, kind: str, processes: int
) -> None:
    rows = played(tmp_path, Trouble(kind, ("t1",)), processes=processes)
    assert [row.status for row in rows if row.task == "t1"] == [Status.AGENT_ERROR]
    assert {row.status for row in rows if row.task != "t1"} == {Status.COMPLETED}


def test_an_agent_s_own_timeout_is_its_own_fault(tmp_path: Path) -> None:
    rows = played(tmp_path, Trouble("timeout", ("t0",)), 2)
    assert rows[0].status is Status.AGENT_ERROR
    assert rows[0].error == "TimeoutError: the endpoint was slow"


@both
def test_what_broke_by_the_surroundings_is_played_again(tmp_path: Path, processes: int) -> None:
    (tmp_path / "marks").mkdir()
    rows = played(tmp_path / "run", Trouble("infra", ("t3",), str(tmp_path / "marks")), processes=processes)
    assert {row.status for row in rows} == {Status.COMPLETED}
    assert rows[3].tags["attempts"] == 3
    assert "attempts" not in rows[2].tags
    rows = played(tmp_path / "never", Trouble("always infra", ("t0",)), 2, processes=processes, infra_retries=1)
    assert rows[0].status is Status.INFRA_ERROR
    assert rows[0].error == "InfraError: endpoint down"


@both
def test_a_mistake_of_the_user_s_is_raised_at_once(tmp_path: Path, processes: int) -> None:
    with pytest.raises(ConfigError, match="no such model"):
        played(tmp_path, Trouble("config", ("t2",)), processes=processes)
    with pytest.raises(ConfigError, match="unknown agent 'nobody'"):
        played(tmp_path, "nobody", processes=processes)
    assert len(played(tmp_path, Trouble())) == 6
    with pytest.raises(ConfigError, match="must be at least 1"):
        played(tmp_path, "null", processes=0)


def test_an_agent_that_cannot_be_sent_is_refused_and_plays_here(tmp_path: Path) -> None:
    agent = Trouble(tasks=(lambda: "t0",))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"agent 'trouble' cannot be sent to a process .*; use processes=1"):
        played(tmp_path, agent, processes=2)
    assert len(played(tmp_path, agent)) == 6


def test_what_is_defined_in_a_script_is_refused_for_processes(tmp_path: Path) -> None:
    script = """
        from agentgym.agents.simple import NullAgent
        from agentgym.core.errors import ConfigError
        from agentgym.rollouts.play import EnvSpec
        from agentgym.rollouts.runner import run_episodes
        from agentgym.rollouts.store import RunStore
        from tests.rollouts.trouble import SPEC, plan
        class Mine(NullAgent): pass
        with RunStore.create(FOLDER, plan(4)) as store:
            for spec, agent in ((SPEC, Mine()), (EnvSpec("Mine-v0", "__main__:Mine"), "null")):
                try:
                    run_episodes(store, spec, agent, processes=2)
                except ConfigError as error:
                    print(error)
            run_episodes(store, SPEC, Mine())
            print(len(store.rows()))
    """
    done = run_script(script, tmp_path)
    assert done.stdout.splitlines() == [
        "agent 'null' is defined in the script itself: move it to a module, or use processes=1",
        "Mine-v0 is defined in the script itself: move it to a module, or use processes=1",
        "4",
    ]


def test_a_worker_killed_in_the_middle_loses_only_what_was_in_flight(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    agent = Trouble("die", ("t7",), str(tmp_path / "marks"))
    with pytest.raises(InfraError, match=r"a worker process ended with status -9 and \d episodes in flight.*run again"):
        played(tmp_path / "run", agent, 16, processes=2, concurrency=4)
    with RunStore.create(tmp_path / "run", plan(16)) as store:
        before = checked(store)
    assert 0 < len(before) < 16
    rows = played(tmp_path / "run", agent, 16, processes=2, concurrency=4)
    assert [row.task for row in rows] == [f"t{i}" for i in range(16)]
    assert set(map(str, before)) <= set(map(str, rows))


def test_a_run_killed_in_the_middle_goes_on_and_leaves_no_workers(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    script = """
        from agentgym.rollouts.runner import run_episodes
        from agentgym.rollouts.store import RunStore
        from tests.rollouts.trouble import SPEC, Trouble, plan
        with RunStore.create(FOLDER + "/run", plan(16)) as store:
            run_episodes(store, SPEC, Trouble(marks=FOLDER + "/marks", pause_s=0.2), processes=2, concurrency=2)
    """
    process = subprocess.Popen([sys.executable, "-c", prepared(script, tmp_path)], cwd=ROOT, env=environment())
    rows = tmp_path / "run" / "episodes.jsonl"
    until(lambda: rows.exists() and len(rows.read_bytes().splitlines()) > 3)
    process.kill()
    process.wait()
    workers = [int(path.name.removeprefix("pid-")) for path in (tmp_path / "marks").glob("pid-*")]
    assert len(workers) == 2
    until(lambda: not any(alive(pid) for pid in workers))
    with RunStore.open(tmp_path / "run") as store:
        before = checked(store)
    after = played(tmp_path / "run", Trouble(), 16)
    assert 3 <= len(before) < 16
    assert set(map(str, before)) <= set(map(str, after))
    assert [row.task for row in after] == [f"t{i}" for i in range(16)]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path, processes: int) -> None:
    script = f"""
        import os, resource, sys
        from agentgym.core.errors import InfraError
        from agentgym.rollouts.runner import run_episodes
        from agentgym.rollouts.store import RunStore
        from tests.rollouts.trouble import SPEC, Trouble, plan
        with RunStore.create(FOLDER, plan(16)) as store:
            sys.dont_write_bytecode = True  # Python 3.11 would leave cut .pyc files behind
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # in the workers, too
            resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))
            try:
                run_episodes(store, SPEC, Trouble(), processes={processes})
            except InfraError as error:
                print(error)
    """
    done = run_script(script, tmp_path)
    assert "episodes.jsonl cannot be written (File too large): make room" in done.stdout
    with RunStore.open(tmp_path) as store:
        before = checked(store)
    assert 0 < len(before) < 16
    rows = played(tmp_path, Trouble(), 16)
    assert len(rows) == 16
    assert set(map(str, before)) <= set(map(str, rows))


def test_what_agents_print_does_no_harm_and_answers_may_be_large(tmp_path: Path) -> None:
    assert len(played(tmp_path / "print", Trouble("print", ("t0", "t1")), processes=2)) == 6
    rows = played(tmp_path / "huge", Trouble("huge", ("t0", "t1")), 4, processes=2)
    assert rows[0].status is Status.COMPLETED
    with RunStore.open(tmp_path / "huge") as store:
        assert len(store.trajectory(rows[0]).answer) == 30_000_000


def test_the_parent_may_run_inside_a_loop(tmp_path: Path) -> None:
    async def notebook() -> list[EpisodeRow]:
        return played(tmp_path, Trouble(), processes=2)

    assert len(asyncio.run(notebook())) == 6


def test_price_and_peak_are_of_the_trajectory(tmp_path: Path) -> None:
    def price(trajectory: Trajectory) -> float:
        return 0.5 * len(trajectory.steps)

    rows = played(tmp_path, Trouble(), 2, price=price)
    assert [row.cost_usd for row in rows] == [1.0, 1.0]
    assert [row.steps for row in rows] == [2, 2]


def test_frames_come_back_whole_or_not_at_all() -> None:
    async def read(data: bytes) -> list[bytes | None]:
        reader = asyncio.StreamReader(limit=2**10)
        reader.feed_data(data)
        reader.feed_eof()
        found = [await read_frame(reader)]
        while found[-1] is not None:
            found.append(await read_frame(reader))
        return found

    big = frame(Answer(failure="x" * 10**6))
    assert asyncio.run(read(big + big)) == [big[8:], big[8:], None]
    for cut in (0, 5, 8, 100, len(big) - 1):
        assert asyncio.run(read(big[:cut])) == [None]


def test_episodes_of_one_player_are_independent_of_each_other(tmp_path: Path) -> None:
    async def together() -> list[str]:
        player = Player(LookupEnv(), Trouble())
        done = await asyncio.gather(*(player.play(Planned("t3", 0, 3)) for _ in range(20)))
        return [trajectory.steps[-1].leaf for _, trajectory in done]

    assert len(set(asyncio.run(together()))) == 1


def prepared(script: str, folder: Path) -> str:
    return textwrap.dedent(script).replace("FOLDER", repr(str(folder)))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run_script(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", prepared(script, folder)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]


def until(condition: object, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)
