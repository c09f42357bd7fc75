"""Task sets and indexes that are found, reused, and refused with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.agents.base import Brief
from agentgym.core.errors import ConfigError, CorpusError, DataError, IndexDamaged, Tampered, UnknownName
from agentgym.core.records import Truth, Turn
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet, write_taskset
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.retrieval.index import Index
from tests.envs.prune_search.world import (
    MAX_TOKENS,
    SLACK,
    answer,
    grep,
    plain_taskset,
    play,
    search,
    small_taskset,
    turn,
)


def written(folder: Path, taskset: TaskSet) -> str:
    write_taskset(taskset, folder)
    return str(folder)


def built(folder: Path, documents: tuple[Document, ...], **settings: object) -> str:
    chosen = {"retrieval": "lexical", "chunk_tokens": MAX_TOKENS, "slack": SLACK, **settings}
    return str(Index.build(documents, folder, **chosen).folder)  # type: ignore[arg-type]


# -- what is found and reused -----------------------------------------------------------------------------------------


def test_the_index_is_built_once_in_the_cache(small: str, cache: Path) -> None:
    first, second = PruneSearchEnv(small), PruneSearchEnv(small, profile="8k")
    assert first.index is second.index
    assert first.index.folder.is_relative_to(cache.resolve() / "indexes")
    assert first.index.settings.retrieval == "lexical"
    assert (first.index.settings.chunk_tokens, first.index.settings.slack) == (MAX_TOKENS, SLACK)


def test_a_set_that_pins_no_cut_is_cut_as_the_profile_says(plain: str) -> None:
    assert PruneSearchEnv(plain, profile="8k").index.settings.chunk_tokens == 512
    tiny = PruneSearchEnv(plain, profile="tiny").index.settings
    assert (tiny.counter, tiny.chunk_tokens, tiny.slack) == ("words", 24, 8)


def test_ones_own_index_is_used(small: str, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", small_taskset().documents)
    env = PruneSearchEnv(small, index=index)
    assert str(env.index.folder) == index
    assert env.fingerprint() == PruneSearchEnv(small).fingerprint()  # the same corpus, cut and searched the same way


def test_a_folder_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    folder = written(tmp_path, small_taskset())
    assert len(PruneSearchEnv(folder).tasks) == 6
    small = small_taskset()
    fewer = TaskSet("small", small.documents, small.tasks[:2], small.truths[:2], small.manifest)
    written(tmp_path, fewer)
    assert len(PruneSearchEnv(folder).tasks) == 2


# -- judgements -------------------------------------------------------------------------------------------------------


def test_without_judgements_the_score_is_none(tmp_path: Path) -> None:
    small = small_taskset()
    env = PruneSearchEnv(written(tmp_path, TaskSet("bare", small.documents, small.tasks)))
    _, reward, info = play(env, "s0", [turn(search("Ardle")), answer("b0_0")])
    assert info["score"] is None
    assert (reward, info["metrics"], info["reward_terms"]) == (0.0, {}, {})


def test_tasks_may_be_judged_in_part(tmp_path: Path) -> None:
    small = small_taskset()
    taskset = TaskSet("part", small.documents, small.tasks, small.truths[2:4], small.manifest)
    env = PruneSearchEnv(written(tmp_path, taskset))
    assert play(env, "s0", [Turn()])[2]["score"] is None
    assert play(env, "s2", [Turn()])[2]["score"] == 0.0
    with pytest.raises(ConfigError, match="task 's0' has no truth"):
        env.agent("oracle").begin(Brief(env.tasks[0], env.specs, 0, None, 1))


@pytest.mark.parametrize(
    ("truths", "error", "message"),
    [
        ((Truth("other", "prune-search", {"relevant": []}),), DataError, "truth 'other' is of no task"),
        ((Truth("s0", "prune-search", {"relevant": []}),) * 2, CorpusError, "truth id 's0' occurs twice"),
        ((Truth("s0", "prune-search", {"relevant": "b0_0"}),), DataError, "truth 's0' is none of a search task"),
        ((Truth("s0", "prune-search", {"relevant": [], "level": "page"}),), DataError, "truth 's0'.*'page'"),
    ],
)
def test_truths_that_do_not_fit(
    tmp_path: Path, truths: tuple[Truth, ...], error: type[Exception], message: str
) -> None:
    small = small_taskset()
    with pytest.raises(error, match=message):
        PruneSearchEnv(written(tmp_path, TaskSet("bad", small.documents, small.tasks, truths, small.manifest)))


# -- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["corpus", "tasks", "truth"])
def test_an_altered_file_is_named(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path, small_taskset())
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"bridge", b"brigde") + (b"\n" if name == "truth" else b""))
    with pytest.raises(Tampered, match=f"{name}.jsonl does not agree with the hash"):
        PruneSearchEnv(folder)


@pytest.mark.parametrize("name", ["corpus", "tasks", "truth"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path, small_taskset())
    (tmp_path / f"{name}.jsonl").unlink()
    with pytest.raises(DataError, match=rf"holds no {name}.jsonl"):
        PruneSearchEnv(folder)


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no manifest.json: no task set, or a build that did not finish"):
        PruneSearchEnv(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"schema": ')
    with pytest.raises(DataError, match="is not readable"):
        PruneSearchEnv(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"schema": "taskset/9"}')
    with pytest.raises(DataError, match="update agentgym to read taskset/9"):
        PruneSearchEnv(str(tmp_path))


def test_a_manifest_that_says_no_cut(tmp_path: Path) -> None:
    small = small_taskset()
    folder = written(tmp_path, TaskSet("odd", small.documents, small.tasks, (), {"chunking": {"max_tokens": "many"}}))
    with pytest.raises(DataError, match=r"task set 'odd': chunking .*max_tokens"):
        PruneSearchEnv(folder)


def test_an_empty_task_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the task set is empty"):
        PruneSearchEnv(written(tmp_path, TaskSet("none", small_taskset().documents, ())))


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match="unknown suite or folder 'no/such/place'"):
        PruneSearchEnv("no/such/place")


# -- indexes that do not fit ------------------------------------------------------------------------------------------


def test_an_index_of_another_counter(plain: str, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", plain_taskset().documents, counter="words")
    with pytest.raises(ConfigError, match="counted by 'words', profile '8k' counts by 'o200k'"):
        PruneSearchEnv(plain, index=index, profile="8k")
    assert PruneSearchEnv(plain, index=index, profile="tiny").index.settings.counter == "words"


def test_an_index_cut_another_way_than_the_truth(small: str, plain: str, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", small_taskset().documents, chunk_tokens=32)
    with pytest.raises(ConfigError, match=r"names chunks of 64 tokens \(\+16, o200k\).*cut by 32"):
        PruneSearchEnv(small, index=index)
    PruneSearchEnv(plain, index=index)  # judged by document: any cut will do


def test_an_index_over_another_corpus(small: str, plain: str, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", (Document("else", "Something else altogether."),))
    with pytest.raises(ConfigError, match=r"names chunk 'b0_0', which the index at .* does not hold"):
        PruneSearchEnv(small, index=index)
    with pytest.raises(ConfigError, match="holds none of the judged documents, such as 'b0'; its ids are like 'else'"):
        PruneSearchEnv(plain, index=index)


def test_some_judged_documents_may_be_missing(plain: str, tmp_path: Path) -> None:
    documents = tuple(document for document in plain_taskset().documents if document.id != "b0")
    env = PruneSearchEnv(plain, index=built(tmp_path / "idx", documents))
    _, _, info = play(env, "s0", [turn(grep("Ganmouth lies")), answer("t0_0")])
    assert info["metrics"]["recall"] <= 0.75


def test_index_and_retrieval_together(small: str, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", small_taskset().documents)
    with pytest.raises(ConfigError, match=r"give index=.* or retrieval='hybrid', not both"):
        PruneSearchEnv(small, index=index, retrieval="hybrid")
    with pytest.raises(UnknownName, match="unknown retrieval 'lexikal'; did you mean lexical"):
        PruneSearchEnv(small, retrieval="lexikal")


def test_a_set_without_a_corpus_needs_an_index(tmp_path: Path) -> None:
    plain = plain_taskset()
    folder = written(tmp_path / "tasks", TaskSet("own", (), plain.tasks, plain.truths))
    with pytest.raises(ConfigError, match="has no corpus of its own: give index="):
        PruneSearchEnv(folder)
    env = PruneSearchEnv(folder, index=built(tmp_path / "idx", plain.documents))
    assert play(env, "s0", [turn(grep("Ganmouth lies")), answer("t0_1")])[2]["score"] == 1.0


def test_a_damaged_index_is_named(small: str, tmp_path: Path) -> None:
    index = Path(built(tmp_path / "idx", small_taskset().documents))
    (index / "manifest.json").write_bytes((index / "manifest.json").read_bytes()[:-40])
    with pytest.raises(IndexDamaged, match="idx"):
        PruneSearchEnv(small, index=str(index))
