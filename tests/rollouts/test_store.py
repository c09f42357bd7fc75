from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError, DataError, InfraError, Tampered
from agentgym.core.records import Message, Part, Status, Step, Trajectory, Turn, Usage
from agentgym.rollouts import trajectory_file
from agentgym.rollouts.manifest import machine, versions
from agentgym.rollouts.store import EpisodeRow, Planned, RunManifest, RunStore
from tests.rollouts.synthetic import chunk_text, fill, manifest, row, run, trajectory

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden" / "run-1"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def only_trajectory(folder: Path) -> Path:
    (file,) = (folder / "trajectories").iterdir()
    return file


def reading(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


# -- what goes in comes out


def test_rows_and_trajectories_come_back_as_they_were(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest()) as store:
        stored = store.add(row("t2", 0, 2), trajectory("t2", 2, ext={"wall": 1.5}))
        assert store.done() == {("t2", 0)}
    found = RunStore.open(tmp_path)
    assert found.rows() == [stored]
    assert found.trajectory(stored) == trajectory("t2", 2, ext={"wall": 1.5})
    assert found.trajectory(stored.trajectory) == trajectory("t2", 2)  # by hash alone: what is hashed
    assert found.manifest == manifest()
    assert found.verify() == []


def test_rows_stand_in_the_order_of_the_plan(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest(3, trials=2)) as store:
        for episode in reversed(store.manifest.episodes):
            store.add(row(*episode))
    keys = [r.key for r in RunStore.open(tmp_path).rows()]
    assert keys == [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1), ("t2", 0), ("t2", 1)]


def test_an_episode_that_broke_before_its_first_turn_is_kept_without_a_trajectory(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest()) as store:
        stored = store.add(msgspec.structs.replace(row(), status=Status.INFRA_ERROR, error="endpoint down"))
    assert stored.trajectory == ""
    found = RunStore.open(tmp_path)
    assert found.rows()[0].error == "endpoint down"
    assert found.verify() == []
    with pytest.raises(DataError, match="task 't0', trial 0 left no trajectory"):
        found.trajectory(stored)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"reward": 9.0}, "reward of task 't0', trial 0 is 9.0, its terms add up to"),
        ({"trajectory": ""}, "is completed, but names no trajectory"),
        ({"context_tokens_peak": 1}, "context_tokens_peak of task 't0', trial 0 is 1, its trajectory says"),
    ],
)
def test_a_row_that_its_trajectory_contradicts_is_told(tmp_path: Path, fields: dict[str, object], says: str) -> None:
    run(tmp_path, tasks=1)
    path = tmp_path / "episodes.jsonl"
    header, line = path.read_bytes().splitlines()
    forged = msgspec.json.encode(msgspec.json.decode(line) | fields)
    path.write_bytes(header + b"\n" + forged + b"\n")
    assert any(says in problem for problem in RunStore.open(tmp_path).verify())


@pytest.mark.parametrize("content", [None, b""])
def test_rows_that_vanished_are_told(tmp_path: Path, content: bytes | None) -> None:
    run(tmp_path)
    (tmp_path / "episodes.jsonl").unlink()
    if content is not None:
        (tmp_path / "episodes.jsonl").write_bytes(content)
    assert any("rows may have been lost" in problem for problem in RunStore.open(tmp_path).verify())


@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl", "texts.jsonl.zst"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    run(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    try:
        problems = RunStore.open(tmp_path).verify()
    except DataError as error:
        problems = [str(error)]
    assert any(f"{name} cannot be read" in problem for problem in problems)


def test_chunk_texts_are_stored_once_and_nowhere_else(tmp_path: Path) -> None:
    run(tmp_path, tasks=1, trials=5)
    texts = b"".join(reading(f) for f in [(tmp_path / "texts.jsonl.zst").read_bytes()])
    assert texts.count(b"t0_3: <b>") == 1
    assert b"lighthouse of Vell" not in reading(next((tmp_path / "trajectories").iterdir()).read_bytes())


def test_the_same_episodes_give_the_same_bytes(tmp_path: Path) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b")
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert {k: v for k, v in a.items() if k != "writer.lock"} == {k: v for k, v in b.items() if k != "writer.lock"}


def test_identical_trials_share_one_file(tmp_path: Path) -> None:
    plan = (Planned("t0", 0, 7), Planned("t0", 1, 7))
    with RunStore.create(tmp_path, manifest(episodes=plan)) as store:
        rows = [store.add(row(*episode), trajectory("t0", 7)) for episode in plan]
    assert rows[0].trajectory == rows[1].trajectory
    assert len(list((tmp_path / "trajectories").iterdir())) == 1
    assert RunStore.open(tmp_path).verify() == []


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
parts = st.builds(
    Part,
    texts | st.just("sha256:" + "0" * 64) | st.integers(0, 3).map(lambda i: chunk_text(str(i))),
    st.none() | st.sampled_from(["d_1", "d_2"]),
    st.integers(0, 500),
)
messages = st.lists(
    st.builds(Message, st.sampled_from(["user", "tool"]), st.lists(parts, max_size=3).map(tuple)), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(Step, st.builds(Turn, texts), messages=messages.map(tuple)), max_size=3), messages)
def test_any_text_survives_the_file(steps: list[Step], opening: list[Message]) -> None:
    made = Trajectory("E-v0", "f", "t", "h", -1, tuple(opening), tuple(steps), None, Usage())
    link, data, known = trajectory_file.encode(made)
    assert trajectory_file.decode(data, "x", link, known.__getitem__) == made
    assert trajectory_file.encode(made)[:2] == (link, data)


# -- the golden file: version 1 stays readable for ever


def test_golden_run_reads_and_is_written_the_same_way() -> None:
    store = RunStore.open(GOLDEN)
    assert store.verify() == []
    assert store.manifest == manifest(2)
    for made in store.rows():
        expected = trajectory(made.task, made.seed)
        assert store.trajectory(made) == expected
        assert trajectory_file.encode(expected)[0] == made.trajectory
        assert msgspec.structs.replace(made, trajectory="", file="") == row(
            made.task, 0, made.seed, value=made.score.value, hops=1 + made.seed
        )


@pytest.mark.parametrize(("name", "kind"), [("run.json", "run"), ("episodes.jsonl", "episodes")])
def test_a_later_schema_is_refused_with_the_way_out(tmp_path: Path, name: str, kind: str) -> None:
    run(tmp_path)
    file = tmp_path / name
    text = file.read_text()
    assert f"{kind}/1" in text
    file.write_text(text.replace(f"{kind}/1", f"{kind}/9", 1))
    with pytest.raises(DataError, match=f"update agentgym to read {kind}/9"):
        RunStore.open(tmp_path)


def test_a_later_trajectory_schema_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory_file, "SCHEMA", "trajectory/9")
    link, data, known = trajectory_file.encode(trajectory())
    monkeypatch.undo()
    with pytest.raises(DataError, match="update agentgym to read trajectory/9"):
        trajectory_file.decode(data, "x", link, known.__getitem__)


def test_an_unknown_key_is_an_error_within_a_version(tmp_path: Path) -> None:
    run(tmp_path)
    file = tmp_path / "episodes.jsonl"
    file.write_text(file.read_text().replace('{"cluster"', '{"clouster"', 1))
    with pytest.raises(Tampered, match=r"episodes\.jsonl line 2 is damaged.*clouster"):
        RunStore.open(tmp_path)


# -- tampering


@pytest.mark.parametrize("line", range(1, 8))
def test_an_altered_line_is_named(tmp_path: Path, line: int) -> None:
    store = run(tmp_path, tasks=1)
    file = only_trajectory(tmp_path)
    lines = reading(file.read_bytes()).splitlines()
    body = bytearray(lines[line - 1])
    body[-3] ^= 1
    lines[line - 1] = bytes(body)
    file.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(lines) + b"\n"))
    with pytest.raises(Tampered, match=rf"trajectories/{file.name} line {line} \("):
        store.trajectory(store.rows()[0])


def test_every_altered_byte_of_a_trajectory_file_is_found_and_named(tmp_path: Path) -> None:
    store = run(tmp_path, tasks=1)
    file, (made,) = only_trajectory(tmp_path), store.rows()
    data = file.read_bytes()
    known = trajectory_file.encode(trajectory())[2]
    named = 0
    for position in range(len(data)):
        for mask in (0x01, 0x10, 0x80, 0xFF):
            altered = data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
            try:
                trajectory_file.decode(altered, file.name, made.trajectory, known.__getitem__)
            except Tampered as error:
                named += bool(re.match(rf"{file.name} line \d+ \(", str(error)))
            else:  # a bit of zstd's framing that carries nothing: the hash of the bytes finds it
                file.write_bytes(altered)
                with pytest.raises(Tampered, match=rf"trajectories/{file.name}: its lines are whole, but its bytes"):
                    store.trajectory(made)
    assert named > 0.98 * 4 * len(data)


def test_cut_longer_swapped_and_missing_files_are_named(tmp_path: Path) -> None:
    store = run(tmp_path, tasks=2)
    one, two = (tmp_path / "trajectories" / f"{r.trajectory}.jsonl.zst" for r in store.rows())
    data = one.read_bytes()
    for altered in (b"", data[:-1], data[: len(data) // 2], data + b"x", two.read_bytes()):
        one.write_bytes(altered)
        (problem,) = store.verify()
        assert one.name in problem
    lines = reading(data).splitlines(keepends=True)
    one.write_bytes(zstandard.ZstdCompressor().compress(b"".join(lines[:-1])))
    assert "the hash chain ends at" in store.verify()[0]
    one.unlink()
    assert store.verify() == [f"trajectories/{one.name} is missing from {tmp_path}"]


def test_a_recomputed_chain_does_not_end_at_the_name(tmp_path: Path) -> None:
    store = run(tmp_path, tasks=1)
    file, (made,) = only_trajectory(tmp_path), store.rows()
    forged = msgspec.structs.replace(trajectory(), steps=trajectory().steps[:-1])
    file.write_bytes(trajectory_file.encode(forged)[1])
    with pytest.raises(Tampered, match="not at its name"):
        store.trajectory(made)


def test_an_altered_corpus_text_is_named_with_the_trajectory_that_shows_it(tmp_path: Path) -> None:
    run(tmp_path, tasks=1)
    file = tmp_path / "texts.jsonl.zst"
    text = reading(file.read_bytes()).replace(b"t0_3: <b>", b"t0_3: <i>")
    file.write_bytes(zstandard.ZstdCompressor().compress(text))
    store = RunStore.open(tmp_path)
    assert any(re.match(r"texts\.jsonl\.zst line 5: the text does not have its hash", p) for p in store.verify())
    with pytest.raises(Tampered, match=r"texts\.jsonl\.zst line 5.*trajectories/"):
        store.trajectory(store.rows()[0])
    file.unlink()
    store = RunStore.open(tmp_path)
    with pytest.raises(Tampered, match=r"texts\.jsonl\.zst lacks text"):
        store.trajectory(store.rows()[0])


def test_every_altered_byte_of_the_texts_is_found(tmp_path: Path) -> None:
    run(tmp_path, tasks=2)
    file = tmp_path / "texts.jsonl.zst"
    data = file.read_bytes()
    clean = {r.task: RunStore.open(tmp_path).trajectory(r) for r in RunStore.open(tmp_path).rows()}
    for position in range(0, len(data), 3):
        file.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        store = RunStore.open(tmp_path)
        if not store.verify():  # a bit of zstd's framing that carries nothing: all texts must be the true ones
            assert {r.task: store.trajectory(r) for r in store.rows()} == clean


def test_a_row_that_disagrees_with_its_trajectory_is_named(tmp_path: Path) -> None:
    run(tmp_path, tasks=1)
    file = tmp_path / "episodes.jsonl"
    file.write_text(file.read_text().replace('"steps":5', '"steps":4'))
    assert RunStore.open(tmp_path).verify() == [
        "episodes.jsonl: steps of task 't0', trial 0 is 4, its trajectory says 5"
    ]


def test_a_repeated_row_is_never_counted_twice(tmp_path: Path) -> None:
    run(tmp_path, tasks=1)
    file = tmp_path / "episodes.jsonl"
    file.write_text(file.read_text() + file.read_text().splitlines()[1] + "\n")
    with pytest.raises(Tampered, match="line 3: task 't0', trial 0 stands there a second time"):
        RunStore.open(tmp_path)


def test_a_row_outside_the_plan_is_refused_when_read(tmp_path: Path) -> None:
    run(tmp_path, tasks=1)
    file = tmp_path / "episodes.jsonl"
    file.write_text(file.read_text().replace('"task":"t0"', '"task":"t9"'))
    with pytest.raises(Tampered, match=r"line 2: task 't9', trial 0 is not in the plan"):
        RunStore.open(tmp_path)


# -- continuing a run


def test_a_continued_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "a", manifest()) as store:
        fill(store, 2)
    later = manifest(date="2027-01-01", command="again", versions={}, machine={})
    with RunStore.create(tmp_path / "a", later) as store:
        assert store.done() == {("t0", 0), ("t1", 0)}
        assert store.manifest == manifest()
        for episode in store.manifest.episodes:
            if (episode.task, episode.trial) not in store.done():
                number = int(episode.task[1:])
                made = row(episode.task, 0, episode.seed, value=float(number % 2), hops=1 + number % 3)
                store.add(made, trajectory(episode.task, episode.seed))
    run(tmp_path / "b")
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert a.keys() == b.keys()
    assert all(a[name] == b[name] for name in a if name != "writer.lock")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("agent", "oracle", "agent is 'greedy-prune' there and 'oracle' here"),
        ("model", "m-1", "model is None there and 'm-1' here"),
        ("fingerprint", "0" * 64, "fingerprint is 'ffff"),
        ("env_kwargs", {"retrieval": "lexical"}, "env_kwargs is {} there"),
        ("episodes", (Planned("t0", 0, 0),), "episodes is 'a plan of 4' there and 'a plan of 1' here"),
        ("episodes", tuple(Planned(f"t{i}", 0, i + (i == 2)) for i in range(4)), r"episodes is ('t2', 0, 2) there"),
    ],
)
def test_another_run_is_refused_by_the_field_that_differs(tmp_path: Path, field: str, value: object, said: str) -> None:
    run(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match=re.escape(said)):
        RunStore.create(tmp_path, manifest(**{field: value}))
    assert contents(tmp_path) == before
    RunStore.create(tmp_path, manifest()).close()  # the refused attempt left no lock


def test_an_episode_is_added_once_and_only_if_planned(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest()) as store:
        store.add(row(), trajectory())
        with pytest.raises(ConfigError, match="already recorded"):
            store.add(row(), trajectory())
        with pytest.raises(ConfigError, match="not in the plan"):
            store.add(row("t77"))
        with pytest.raises(ConfigError, match="row and trajectory differ"):
            store.add(row("t1", 0, 1), trajectory())
        with pytest.raises(ConfigError, match=r"nan at \$\.reward"):
            store.add(msgspec.structs.replace(row("t1", 0, 1), reward=float("nan")))
        assert store.done() == {("t0", 0)}
    with pytest.raises(ConfigError, match="reading only, or closed"):
        store.add(row("t1", 0, 1))
    with pytest.raises(ConfigError, match="reading only"):
        RunStore.open(tmp_path).add(row("t1", 0, 1))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run folder: it has no run\.json"):
        RunStore.open(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(Tampered, match=r"run\.json cannot be read"):
        RunStore.open(tmp_path)
    run(tmp_path / "a")
    (tmp_path / "a" / "run.json").unlink()
    with pytest.raises(Tampered, match=r"holds episodes but no run\.json"):
        RunStore.create(tmp_path / "a", manifest())


# -- kills


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with one episode, and the same run with a second one."""
    base = tmp_path_factory.mktemp("kill")
    for name, count in (("before", 1), ("after", 2)):
        with RunStore.create(base / name, manifest(2)) as store:
            fill(store, count)
    return base / "before", base / "after"


def states(before: Path, after: Path, file: str, stride: int) -> Iterator[tuple[int, bytes]]:
    old = (before / file).read_bytes() if (before / file).exists() else b""
    new = (after / file).read_bytes()
    assert new.startswith(old)
    yield from ((cut, new[:cut]) for cut in sorted({*range(len(old), len(new), stride), len(new) - 1}))


def test_a_kill_at_any_byte_loses_at_most_the_episode_in_flight(
    before_and_after: tuple[Path, Path], tmp_path: Path
) -> None:
    before, after = before_and_after
    (new,) = {p.name for p in (after / "trajectories").iterdir()} - {
        p.name for p in (before / "trajectories").iterdir()
    }
    wanted = {k: v for k, v in contents(after).items() if k != "writer.lock"}
    # In the order of writing: texts, the trajectory under its temporary name, its rename, the line.
    stages = [("texts.jsonl.zst", "texts.jsonl.zst", 17), (f"trajectories/{new}", f"trajectories/{new}.tmp", 37)]
    stages.append(("episodes.jsonl", "episodes.jsonl", 11))
    for stage, (source, target, stride) in enumerate(stages):
        for cut, data in states(before, after, source, stride):
            folder = tmp_path / f"{stage}-{cut}"
            shutil.copytree(before, folder)
            for finished, _, _ in stages[:stage]:
                shutil.copy(after / finished, folder / finished)
            (folder / target).write_bytes(data)
            assert RunStore.open(folder).done() == {("t0", 0)}
            assert RunStore.open(folder).verify() == []
            with RunStore.create(folder, manifest(2)) as store:
                assert store.done() == {("t0", 0)}
                store.add(row("t1", 0, 1, value=1.0, hops=2), trajectory("t1", 1))
            assert {k: v for k, v in contents(folder).items() if k != "writer.lock"} == wanted
            shutil.rmtree(folder)


def test_a_kill_while_the_folder_is_made_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    for name, data in (
        ("writer.lock", b""),
        ("run.json.tmp", b'{"sch'),
        ("run.json", None),
        ("episodes.jsonl", b'{"sch'),
    ):
        if data is None:
            RunStore.create(tmp_path / "made", manifest()).close()
            data = (tmp_path / "made" / "run.json").read_bytes()
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / name).write_bytes(data)
        copy = tmp_path / f"after-{name}"
        shutil.copytree(tmp_path / "a", copy)
        with RunStore.create(copy, manifest()) as store:
            fill(store)
        assert len(RunStore.open(copy).rows()) == 4


WRITER = """
import sys
from tests.rollouts.synthetic import fill, manifest, row, trajectory
from agentgym.rollouts.store import RunStore
with RunStore.create(sys.argv[1], manifest(3000)) as store:
    print("ready", flush=True)
    for episode in store.manifest.episodes:
        if (episode.task, 0) not in store.done():
            store.add(row(episode.task, 0, episode.seed), trajectory(episode.task, episode.seed))
"""


def writer(folder: Path, code: str = WRITER, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_a_killed_process_leaves_a_whole_run_and_no_lock(tmp_path: Path) -> None:
    finished = 0
    for pause_s in (0.02, 0.11, 0.23):
        process = writer(tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(ConfigError, match=rf"being written by process {process.pid} on "):
            RunStore.create(tmp_path, manifest(3000))
        time.sleep(pause_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = RunStore.open(tmp_path)
        assert len(store.rows()) > finished
        finished = len(store.rows())
        assert store.verify() == []
    RunStore.create(tmp_path, manifest(3000)).close()


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, manifest()) as store:
        fill(store, 1)
        with pytest.raises(ConfigError, match=f"being written by process {os.getpid()}"):
            RunStore.create(tmp_path, manifest())
        reader = RunStore.open(tmp_path)
        assert reader.verify() == []
        fill_rest = store.manifest.episodes[1]
        store.add(row(*fill_rest), trajectory(fill_rest.task, fill_rest.seed))
        assert len(reader.rows()) == 1  # what was finished when it was opened
        assert len(RunStore.open(tmp_path).rows()) == 2
    RunStore.create(tmp_path, manifest()).close()


def test_a_forked_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom tests.rollouts.synthetic import manifest\n"
        "from agentgym.rollouts.store import RunStore\nstore = RunStore.create(sys.argv[1], manifest())\n"
        "pid = os.fork()\nif pid == 0:\n    sys.stdin.read()\n    os._exit(0)\n"
        "print('ready', flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    process = writer(tmp_path, code, stdin=subprocess.PIPE)  # the orphan lives until its standard input ends
    assert process.wait(20) == -signal.SIGKILL
    RunStore.create(tmp_path, manifest()).close()
    process.communicate()


# -- a disk that refuses


def test_a_full_disk_loses_nothing_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, 0

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = real(fd, bytes(data)[:room])
        room -= count
        return count

    with RunStore.create(tmp_path, manifest()) as store:
        fill(store, 1)
        made = row("t1", 0, 1, value=1.0, hops=2)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            for free in range(0, 1500, 37):  # three writes: texts (once), trajectory, line
                room = free
                with pytest.raises(InfraError, match=r"No space left on device.*all finished episodes are kept"):
                    store.add(made, trajectory("t1", 1))
                assert RunStore.open(tmp_path).done() == {("t0", 0)}
                assert RunStore.open(tmp_path).verify() == []
        store.add(made, trajectory("t1", 1))
        assert ("t1", 0) in store.done()
        for episode in store.manifest.episodes[2:]:
            store.add(row(*episode), trajectory(episode.task, episode.seed))
    assert len(RunStore.open(tmp_path).rows()) == 4
    assert RunStore.open(tmp_path).verify() == []
    assert not list((tmp_path / "trajectories").glob("*.tmp"))


def test_an_interrupt_in_the_middle_of_a_write_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.write, 0

    def write(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls % 2:
            return real(fd, bytes(data)[:10])
        raise KeyboardInterrupt

    with RunStore.create(tmp_path, manifest()) as store:
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", write)
                with pytest.raises(KeyboardInterrupt):
                    store.add(row())
        fill(store)
    assert len(RunStore.open(tmp_path).rows()) == 4
    assert RunStore.open(tmp_path).verify() == []


def test_a_real_size_limit_stops_the_run_with_a_clear_error(tmp_path: Path) -> None:
    def limit() -> None:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # Python 3.11 would leave cut .pyc files behind
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    process = writer(tmp_path, preexec_fn=limit)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "InfraError" in said
    assert "cannot be written (File too large)" in said
    stopped = RunStore.open(tmp_path)
    assert 0 < len(stopped.rows()) < 3000
    assert stopped.verify() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root; the size limit above does not")
def test_a_real_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this container may not mount: {mounted.stderr.strip()}")
    try:
        with RunStore.create(disk / "run", manifest(3000)) as store:
            with pytest.raises(InfraError, match="No space left on device"):
                fill(store)
            finished = len(store.done())
            assert finished > 10
            assert RunStore.open(disk / "run").verify() == []
            subprocess.run(["mount", "-o", "remount,size=2m", disk], check=True)
            for episode in store.manifest.episodes[finished : finished + 20]:
                store.add(row(*episode), trajectory(episode.task, episode.seed))
        assert len(RunStore.open(disk / "run").rows()) == finished + 20
        assert RunStore.open(disk / "run").verify() == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError, match="cannot be written"):
        RunStore.create(tmp_path / "file" / "run", manifest())


# -- what a manifest says of the machine


def test_versions_and_machine_name_what_can_change_a_result() -> None:
    assert {"python", "numpy", "gymnasium"} <= versions().keys()
    assert machine().keys() == {"cpu", "cores", "os"}
    assert all(machine().values())


def test_reading_rows_needs_no_environment() -> None:
    code = (
        "import sys\nfrom agentgym.rollouts.store import RunStore\n"
        f"store = RunStore.open({str(GOLDEN)!r}); store.rows(); store.trajectory(store.rows()[0])\n"
        "heavy = {'torch', 'pandas', 'agentgym.envs', 'agentgym.retrieval'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_records_are_strict() -> None:
    assert isinstance(manifest(), RunManifest)
    assert isinstance(row(), EpisodeRow)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"task": "t", "trial": 0, "seed": 0, "status": "lost"}, EpisodeRow)
