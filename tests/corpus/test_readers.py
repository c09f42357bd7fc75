"""Readers: every layout people have, and an error that names file, place and way out for every way it can be wrong."""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError, CorpusError
from agentgym.corpus.document import Document
from agentgym.corpus.readers import read_corpus
from agentgym.corpus.tasks import TaskSet, write_taskset

ROWS = [{"_id": "a", "text": "first"}, {"_id": "b", "text": "", "title": "Second"}]


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("c.jsonl", lines(*ROWS)),
        ("c.jsonl.gz", gzip.compress(lines(*ROWS), mtime=0)),
        ("c.jsonl", gzip.compress(lines(*ROWS), mtime=0)),
        ("c.json", json.dumps(ROWS, indent=1).encode()),
        ("c.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
        ("c.json", lines(*ROWS)),
        ("c.jsonl", b"\xef\xbb\xbf" + lines(*ROWS)),
        ("c.jsonl", b"\n\n" + lines(*ROWS).replace(b"\n", b"\r\n\r\n").rstrip()),
        (
            "c.jsonl",
            lines({"id": "a", "contents": "first", "title": None}, {"doc_id": "b", "text": "", "title": "Second"}),
        ),
        ("corpus.jsonl", lines(*ROWS)),
        ("corpus.jsonl.gz", gzip.compress(lines(*ROWS), mtime=0)),
    ],
)
def test_layouts_of_rows(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    path = tmp_path if name.startswith("corpus.") else tmp_path / name  # the BEIR layout is a folder
    assert list(read_corpus(path, source="s")) == [
        Document(id="a", text="first", source="s"),
        Document(id="b", text="", title="Second", source="s"),
    ]


def test_other_keys_become_meta(tmp_path: Path) -> None:
    row = {
        "_id": 7,
        "text": "t",
        "form": "10-K",
        "year": 2025,
        "tags": ["x", "ü"],
        "none": None,
        "metadata": {"url": "u"},
    }
    (tmp_path / "c.jsonl").write_bytes(lines(row))
    [document] = read_corpus(tmp_path / "c.jsonl")
    assert document.id == "7"
    assert document.meta == {"form": "10-K", "year": "2025", "tags": '["x","ü"]', "url": "u"}


def test_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "note.txt").write_text("hidden")
    (tmp_path / "b" / "page.HTML").write_text("<title>T</title><p>One<p>Two")
    (tmp_path / "b" / "a.md").write_text("intro\n# Heading #\nbody")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfline\r\nline\rline\n")
    (tmp_path / "old.htm").write_bytes(b"<meta charset=iso-8859-1>caf\xe9")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    assert list(read_corpus(str(tmp_path))) == [
        Document(id="b.txt", text="line\nline\nline\n"),
        Document(id="b/a.md", text="intro\n# Heading #\nbody", title="Heading"),
        Document(id="b/page.HTML", text="One\n\nTwo", title="T"),
        Document(id="old.htm", text="café"),
    ]
    assert [d.id for d in read_corpus(tmp_path / "b.txt")] == ["b.txt"]


def test_the_corpus_of_a_task_set_reads_back(tmp_path: Path) -> None:
    documents = (Document(id="x", text="t", title="T", source="web", meta={"k": "v"}), Document(id="y", text="u"))
    write_taskset(TaskSet(name="n", documents=documents, tasks=()), tmp_path)
    assert tuple(read_corpus(tmp_path)) == documents


BAD: list[tuple[str, bytes, str]] = [
    ("c.jsonl", b"", r"c\.jsonl holds no documents"),
    ("c.jsonl.gz", b"", r"holds no documents"),
    ("c.json", b"[]", r"holds no documents"),
    ("c.jsonl", b"\n \n", r"holds no documents"),
    ("c.jsonl", lines(*ROWS, {"_id": "a", "text": "again"}), r"c\.jsonl:3: id 'a' was used before, at .*c\.jsonl:1"),
    ("c.jsonl", lines({"_id": 1, "text": "x"}, {"_id": "1", "text": "y"}), r":2: id '1' was used before"),
    ("c.jsonl", lines(*ROWS) + b'{"_id": "c", "text": "caf\xe9"}\n', r"line 3, byte 99 \(0xe9\) is not UTF-8.*latin-1"),
    ("c.txt", b"abc\xff", r"c\.txt: byte 3 \(0xff\) is not UTF-8.*encoding='latin-1'"),
    ("c.txt", "abc".encode("utf-16"), r"byte 0 .*encoding='utf-16'"),
    ("c.jsonl", lines(ROWS[0]) + b'{"_id": "b", "text"\n', r"c\.jsonl:2: not JSON: .* it begins '{\"_id\": \"b\""),
    ("c.jsonl", b"[" * 100_000, r":1: JSON that nests too deep"),
    ("c.jsonl", b'{"_id": "a", "text": "\\ud800"}', r":1: not JSON"),
    ("c.jsonl", lines(["a"]), r":1: expected an object .*found a list"),
    ("c.json", b'[{"_id": "a", "text": "x"}, 3]', r"c\.json: item 2: expected an object .*found int 3"),
    ("c.jsonl", lines({"text": "x"}), r":1: no id; it must stand under '_id' or 'id' or 'doc_id', found \['text'\]"),
    ("c.jsonl", lines({"_id": "a", "abstract": "x"}), r":1: no text; it must stand under 'text' or 'contents'"),
    ("c.jsonl", lines({"_id": "a", "text": None}), r":1: no text"),
    ("c.jsonl", lines({"_id": "a", "text": ["x"]}), r":1: 'text' must be a string, found a list"),
    ("c.jsonl", lines({"_id": "a", "text": "x", "title": 3}), r":1: 'title' must be a string, found int 3"),
    ("c.jsonl", lines({"_id": 1.5, "text": "x"}), r":1: '_id' must be a string or a whole number, found float"),
    (
        "c.jsonl",
        lines({"_id": True, "text": "x"}),
        r":1: '_id' must be a string or a whole number, found true or false",
    ),
    ("c.jsonl", lines({"_id": " ", "text": "x"}), r":1: '_id' is ' '; an id is one line"),
    ("c.jsonl", lines({"_id": "a\nb", "text": "x"}), r":1: '_id' is 'a\\nb'; an id is one line"),
    ("c.jsonl.gz", lines(*ROWS), r"named \.gz but is not gzip"),
    ("c.jsonl.gz", gzip.compress(lines(*ROWS * 50), mtime=0)[:-12], r"c\.jsonl\.gz is damaged or cut short"),
    ("c.jsonl.gz", b"\x1f\x8b" + b"garbage" * 9, r"c\.jsonl\.gz is damaged"),
    ("c.pdf", b"%PDF", r"c\.pdf is of no kind that can be read: \.jsonl"),
    ("corpus.jsonl", lines({"schema": "corpus/9"}), r":1: schema 'corpus/9' cannot be read"),
    ("corpus.jsonl", lines({"schema": "corpus/1"}, {"id": "a"}), r":2: .*required field `text`"),
]


@pytest.mark.parametrize(("name", "data", "message"), BAD)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=message) as caught:
        list(read_corpus(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.jsonl does not exist"):
        read_corpus(tmp_path / "none.jsonl")  # at once, not when first iterated
    with pytest.raises(CorpusError, match=r"holds no \.txt, \.md"):
        read_corpus(tmp_path)
    (tmp_path / "data.csv").write_text("a,b")
    with pytest.raises(CorpusError, match=r"only \.csv"):
        list(read_corpus(tmp_path))


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone.txt")
    with pytest.raises(CorpusError, match=r"a\.txt cannot be read: No such file"):
        list(read_corpus(tmp_path))


def test_encoding_is_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(*ROWS, {"_id": "ü", "text": "café"}).decode().encode("latin-1"))
    assert [d.text for d in read_corpus(tmp_path / "c.jsonl", encoding="latin-1")] == ["first", "", "café"]
    (tmp_path / "w.txt").write_bytes("wide é".encode("utf-16"))
    assert [d.text for d in read_corpus(tmp_path / "w.txt", encoding="utf-16")] == ["wide é"]
    (tmp_path / "w.jsonl").write_bytes(lines(*ROWS).decode().encode("utf-16"))
    assert [d.id for d in read_corpus(tmp_path / "w.jsonl", encoding="utf-16")] == ["a", "b"]
    (tmp_path / "p.html").write_bytes("<p>ж".encode("koi8-r"))
    assert [d.text for d in read_corpus(tmp_path / "p.html", encoding="koi8-r")] == ["ж"]
    for wrong in ("utf-99", "base64"):
        with pytest.raises(ConfigError, match=f"encoding='{wrong}' is unknown"):
            read_corpus(tmp_path / "w.txt", encoding=wrong)
    with pytest.raises(CorpusError, match=r"c\.jsonl: after line 0: not ascii"):
        list(read_corpus(tmp_path / "c.jsonl", encoding="ascii"))


def test_reading_streams(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        for i in range(2000):
            file.write(json.dumps({"_id": i, "text": "x" * 10_000}) + "\n")
    tracemalloc.start()
    total = sum(len(document.text) for document in read_corpus(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 20_000_000
    assert peak < 4_000_000


@pytest.mark.parametrize("make", [lambda t: lines({"_id": "a", "text": t}), lambda t: t.encode()], ids=["jsonl", "txt"])
def test_a_document_of_50_megabytes(tmp_path: Path, make: Callable[[str], bytes]) -> None:
    text = "Ein Satz mit Ümlaut. " * 2_400_000
    path = tmp_path / ("c.jsonl" if make("")[:1] == b"{" else "c.txt")
    path.write_bytes(make(text))
    [document] = read_corpus(path)
    assert document.text == text


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=8), st.text(max_size=50)),
        min_size=1,
        max_size=8,
        unique_by=lambda r: r[0],
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_come_back_as_written(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    rows = [row for row in rows if row[0].strip() and row[0].splitlines() == [row[0]]] or [("id", "text")]
    path = tmp_path / "h.jsonl"
    path.write_bytes(lines(*({"_id": id, "text": text} for id, text in rows)))
    assert [(d.id, d.text) for d in read_corpus(path)] == rows


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    for name in ("h.jsonl", "h.json.gz", "h.txt", "h.html"):
        (tmp_path / name).write_bytes(data)
        with contextlib.suppress(CorpusError):
            list(read_corpus(tmp_path / name))


def test_real_corpora(real_data: Path) -> None:
    hotpot = list(read_corpus(real_data / "hotpotqa100.corpus.jsonl.gz"))
    assert len(hotpot) == 994
    cranfield = list(read_corpus(real_data / "cranfield225.corpus.jsonl.gz"))
    assert (len(cranfield), sum(not document.text for document in cranfield)) == (1400, 2)
    filings = list(read_corpus(real_data / "sec10k_items.sample.jsonl.gz"))
    assert len(filings) == 232
    assert filings[0].meta["company"] == "SANDISK CORP"
    with pytest.raises(CorpusError, match=r"patents\.sample\.jsonl\.gz:1: no text"):
        list(read_corpus(real_data / "patents.sample.jsonl.gz"))
