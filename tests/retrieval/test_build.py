"""Builds that are killed, repeated, damaged, or refused by the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.core.errors import ConfigError, IndexDamaged, InfraError
from agentgym.corpus.document import Document
from agentgym.retrieval import index as index_module
from agentgym.retrieval.index import Index

ROOT = Path(__file__).parents[2]
SLOW = "tests.retrieval.vectors:slow_words"
SCRIPT = """
import sys
from agentgym.corpus.document import Document
from agentgym.retrieval.index import Index
Index.build([Document(f"d{{i}}", f"text {{i}} of many") for i in range({count})], sys.argv[1], embedder={embedder!r})
"""


def corpus(count: int) -> list[Document]:
    return [Document(f"d{i}", f"text {i} of many") for i in range(count)]


def reopened(folder: Path) -> Index:
    """The index as another process would find it."""
    index_module._OPENED.clear()
    return Index.open(folder)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    Index.build(
        corpus(300), tmp_path / "i", embedder="tests.retrieval.vectors:words", progress=lambda *step: told.append(step)
    )
    assert ("texts", 300, 300) in told
    assert ("words", 300, 300) in told
    assert told[-2:] == [("vectors", 256, 300), ("vectors", 300, 300)]


def test_a_killed_build_resumes_without_doing_shards_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, folder, count = tmp_path / "log", tmp_path / "i", 2000
    monkeypatch.setenv("EMBED_LOG", str(log))
    script = SCRIPT.format(count=count, embedder=SLOW)
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)], cwd=ROOT)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(folder.glob("shard.*.npz"))) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(ConfigError, match="interrupted: build it again"):
        reopened(folder)
    finished = len(list(folder.glob("shard.*.npz")))
    assert 3 <= finished < 8
    told: list[tuple[str, int, int]] = []
    index = Index.build(corpus(count), folder, embedder=SLOW, progress=lambda *step: told.append(step))
    assert len(index) == count
    assert {stage for stage, _, _ in told} == {"vectors"}  # texts and words were done
    calls = log.read_text().split()
    assert len(calls) <= 8 + 1  # only the shard in work when the process died may be embedded twice
    whole = Index.build(corpus(count), tmp_path / "whole", embedder=SLOW)
    assert whole.hash == index.hash
    for name in index.manifest.files:
        assert (index.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    index.verify()
    assert not list(folder.glob("shard*"))


def test_remains_of_another_unfinished_build_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    folder.mkdir()
    (folder / "building.json").write_text('{"hash":"another","done":["texts"]}')
    (folder / "text.bin").write_text("stale")
    assert Index.build(corpus(3), folder, retrieval="lexical").text(0) == "text 0 of many"


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"other files \(notes.txt\)"):
        Index.build(corpus(3), tmp_path, retrieval="lexical")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_builders_of_one_folder_wait_for_each_other(tmp_path: Path) -> None:
    script = SCRIPT.format(count=500, embedder="tests.retrieval.vectors:words")
    builders = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "i")], cwd=ROOT) for _ in range(3)]
    assert [builder.wait() for builder in builders] == [0, 0, 0]
    reopened(tmp_path / "i").verify()


def damaged_copies(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != ".lock")


def test_every_cut_file_is_refused_at_open_by_name(tmp_path: Path) -> None:
    folder = Index.build(corpus(300), tmp_path / "i", embedder="tests.retrieval.vectors:words").folder
    for path in damaged_copies(folder):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(IndexDamaged, match=path.name):
            reopened(folder)
        path.unlink()
        with pytest.raises((IndexDamaged, ConfigError), match=r"is missing|holds no index"):
            reopened(folder)
        path.write_bytes(whole)
    reopened(folder).verify()


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    folder = Index.build(corpus(300), tmp_path / "i", retrieval="lexical").folder
    for path in damaged_copies(folder):
        whole = path.read_bytes()
        for offset in (0, len(whole) // 2, len(whole) - 1):
            flipped = bytearray(whole)
            flipped[offset] ^= 1
            path.write_bytes(bytes(flipped))
            with pytest.raises(IndexDamaged, match=path.name):
                reopened(folder)  # small files are hashed at open
        path.write_bytes(whole)


def test_a_flipped_bit_in_a_large_file_is_found_by_verify(tmp_path: Path) -> None:
    big = [Document(f"d{i}", f"text {i} " + "x" * 3000) for i in range(400)]
    index = Index.build(big, tmp_path / "i", retrieval="lexical")
    path = index.folder / "text.bin"
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"y")
    reopened(index.folder)
    with pytest.raises(IndexDamaged, match=r"text\.bin is altered"):
        index.verify()


def test_an_edited_manifest_is_refused(tmp_path: Path) -> None:
    folder = Index.build(corpus(5), tmp_path / "i", retrieval="lexical").folder
    path = folder / "manifest.json"
    whole = path.read_text()
    path.write_text(whole.replace('"documents":5', '"documents":6'))
    with pytest.raises(IndexDamaged, match="seal"):
        reopened(folder)
    path.write_text(whole.replace('"index/1"', '"index/9"'))
    with pytest.raises(IndexDamaged, match="index/1"):
        reopened(folder)
    path.write_text("no json")
    with pytest.raises(IndexDamaged, match=r"manifest.json"):
        reopened(folder)


@pytest.mark.parametrize("limit_bytes", [2_000, 40_000, 120_000])
def test_a_disk_that_refuses_is_an_infra_error_and_the_build_resumes(limit_bytes: int, tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: each stage meets it in turn."""
    script = (
        "import resource, sys\n"
        "sys.dont_write_bytecode = True  # Python 3.11 would leave cut .pyc files behind\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, resource.RLIM_INFINITY))\n"
        "from agentgym.core.errors import InfraError\n"
        "from agentgym.corpus.document import Document\n"
        "from agentgym.retrieval.index import Index\n"
        "corpus = [Document(f'd{i}', f'text {i} of many') for i in range(1500)]\n"
        "try:\n"
        f"    Index.build(corpus, {str(tmp_path / 'i')!r}, embedder='tests.retrieval.vectors:words')\n"
        "except InfraError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
    )
    assert "cannot be written" in run.stdout
    assert "finished parts are kept" in run.stdout
    index = Index.build(corpus(1500), tmp_path / "i", embedder="tests.retrieval.vectors:words")
    index.verify()
    assert len(index) == 1500


def test_a_folder_that_cannot_be_made_is_an_infra_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError, match="cannot be written"):
        Index.build(corpus(2), tmp_path / "file" / "i", retrieval="lexical")
