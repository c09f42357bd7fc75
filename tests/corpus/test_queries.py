"""Queries and judgements: BEIR, TREC and plain JSON lists become tasks and truths."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from agentgym.core.errors import ConfigError, CorpusError
from agentgym.core.records import Task
from agentgym.corpus.queries import read_qrels, read_tasks
from agentgym.corpus.tasks import read_taskset, write_taskset


def write(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


BEIR = jsonl({"_id": "1", "text": "who?", "metadata": {}}, {"_id": "2", "text": "why?"}, {"_id": "3", "text": "how?"})
TSV = "query-id\tcorpus-id\tscore\n1\td one\t1\n1\td2\t2\n2\td2\t0\n2\td3\t-1\n3\td3\t1\n9\td1\t1\n"


def test_a_list_of_queries_with_gold(tmp_path: Path) -> None:
    rows = [
        {"query": "who?", "gold": ["b", "a", "b", 7]},
        {"query": "why?", "gold": ["c"], "answer": "x", "answer_ids": ["c"]},
    ]
    tasks = read_tasks(write(tmp_path / "demo.queries.json", json.dumps(rows)))
    assert tasks.name == "demo.queries"
    assert tasks.documents == ()
    assert tasks.tasks == (
        Task(id="q1", family="prune-search", prompt="who?", cluster="q1"),
        Task(id="q2", family="prune-search", prompt="why?", cluster="q2"),
    )
    assert [truth.id for truth in tasks.truths] == ["q1", "q2"]
    assert tasks.truths[0].payload == {
        "level": "document",
        "relevant": ["b", "a", "7"],
        "answer": None,
        "answer_ids": [],
        "facts": [["b"], ["a"], ["7"]],
    }
    assert tasks.truths[1].payload["answer"] == "x"
    assert tasks.truths[1].payload["answer_ids"] == ["c"]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_beir_queries_with_qrels(tmp_path: Path, packed: str) -> None:
    queries = write(tmp_path / f"queries.jsonl{packed}", BEIR)
    tasks = read_tasks(str(queries), qrels=str(write(tmp_path / f"test.tsv{packed}", TSV)))
    assert [task.id for task in tasks.tasks] == ["1", "3"]  # query 2 has no relevant document
    assert [truth.payload["relevant"] for truth in tasks.truths] == [["d one", "d2"], ["d3"]]
    assert read_tasks(queries).name == "queries"


@pytest.mark.parametrize("separator", [" ", "\t", "   "])
def test_trec_qrels(tmp_path: Path, separator: str) -> None:
    rows = [("1", "0", "d1", "1"), ("1", "0", "d2", "0"), ("2", "Q0", "d3", "2.0")]
    path = write(tmp_path / "qrels.txt", "\n".join(separator.join(row) for row in rows))
    assert read_qrels(path) == {"1": ("d1",), "2": ("d3",)}


def test_qrels_without_a_header(tmp_path: Path) -> None:
    assert read_qrels(write(tmp_path / "q.tsv", "1\td1\t1\n\n1\td1\t1\n")) == {"1": ("d1",)}


def test_without_judgements_there_are_no_truths(tmp_path: Path) -> None:
    tasks = read_tasks(write(tmp_path / "queries.jsonl", BEIR))
    assert [task.id for task in tasks.tasks] == ["1", "2", "3"]
    assert tasks.truths == ()


def test_generated_ids_count_all_rows(tmp_path: Path) -> None:
    rows = [{"query": "a", "gold": []}, {"query": "b", "gold": ["d"]}]
    tasks = read_tasks(write(tmp_path / "q.json", json.dumps(rows)))
    assert [task.id for task in tasks.tasks] == ["q2"]


def test_a_task_set_is_written_and_read_back(tmp_path: Path) -> None:
    tasks = read_tasks(write(tmp_path / "q.json", json.dumps([{"query": "a", "gold": ["d"]}])))
    write_taskset(tasks, tmp_path / "set")
    back = read_taskset(tmp_path / "set", truths=True)
    assert (back.tasks, back.truths) == (tasks.tasks, tasks.truths)


BAD_QUERIES = [
    ("[]", r"q\.json holds no queries"),
    (json.dumps([{"gold": ["a"]}]), r"q\.json: item 1: no query; it must stand under 'query'"),
    (json.dumps([{"query": 3}]), r"item 1: 'query' must be a string"),
    (json.dumps([{"query": "  "}]), r"item 1: 'query' is empty"),
    (json.dumps([{"query": "a", "gold": "d1"}]), r"item 1: 'gold' must be a list of document ids, found 'd1'"),
    (json.dumps([{"query": "a", "gold": [None]}]), r"item 1: 'gold' must be a string or a whole number, found null"),
    (json.dumps([{"query": "a", "gold": ["d"], "answer": 3}]), r"item 1: 'answer' must be a string"),
    (jsonl({"_id": "x", "query": "a"}, {"_id": "x", "query": "b"}), r":2: query id 'x' was used before, at .*:1"),
    (jsonl({"_id": "q2", "query": "a"}, {"query": "b"}), r":2: query id 'q2' was used before"),
    ("not json", r":1: not JSON"),
]


@pytest.mark.parametrize(("text", "message"), BAD_QUERIES)
def test_bad_queries_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_tasks(write(tmp_path / "q.json", text))


BAD_QRELS = [
    ("", r"holds no judgements"),
    ("query-id\tcorpus-id\tscore\n", r"holds no judgements"),
    ("1\td1\n", r"qrels\.tsv:1: 2 columns"),
    ("1 d one 1 x\n", r"qrels\.tsv:1: 5 columns"),
    ("1\td1\t1\n2\td2\tyes\n", r"qrels\.tsv:2: score 'yes' is not a number"),
    ("1\td1\tnan\n", r"qrels\.tsv:1: score 'nan' is not a number"),
    ("1\td1\t1\n1\td1\t0\n", r"qrels\.tsv:2: 'd1' is judged both relevant and not for query '1'"),
]


@pytest.mark.parametrize(("text", "message"), BAD_QRELS)
def test_bad_qrels_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_qrels(write(tmp_path / "qrels.tsv", text))


def test_what_does_not_fit_together(tmp_path: Path) -> None:
    queries = write(tmp_path / "queries.jsonl", BEIR)
    qrels = write(tmp_path / "qrels.tsv", "q-1\td1\t1\n")
    with pytest.raises(CorpusError, match=r"no relevant document for any query .*like 'q-1', the queries' like '1'"):
        read_tasks(queries, qrels)
    gold = write(tmp_path / "gold.json", json.dumps([{"query": "a", "gold": ["d"]}]))
    with pytest.raises(ConfigError, match=r"has 'gold' and qrels="):
        read_tasks(gold, qrels)
    with pytest.raises(CorpusError, match=r"none\.jsonl is no file of queries"):
        read_tasks(tmp_path / "none.jsonl")
    with pytest.raises(CorpusError, match=r"none\.tsv is no file of judgements"):
        read_tasks(queries, tmp_path / "none.tsv")


def test_real_queries(real_data: Path) -> None:
    for name, count in (("hotpotqa100", 100), ("cranfield225", 225)):
        tasks = read_tasks(real_data / f"{name}.queries.json")
        assert (len(tasks.tasks), len(tasks.truths)) == (count, count)
        assert all(truth.payload["relevant"] for truth in tasks.truths)
