"""Chunking: nothing lost, nothing too long, the same every time, at sentence ends where there are any."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document, chunk_text
from agentgym.corpus.document import Document

PROSE = "The quick brown fox jumps over the lazy dog near the river bank. "


def check(text: str, name: str, max_tokens: int, slack: int) -> list[tuple[int, int, int]]:
    chunks = chunk_text(text, counter(name), max_tokens, slack)
    assert "".join(text[start:end] for start, end, _ in chunks) == text
    assert all(before[1] == after[0] for before, after in pairwise(chunks))
    for start, end, tokens in chunks:
        assert start < end
        assert tokens == counter(name).count(text[start:end]) <= max_tokens + slack
    return chunks


dirty_text = st.text(max_size=600) | st.lists(
    st.sampled_from(
        ["word", " ", "\n", "\n\n", ". ", "。", "\t", "é", "e\u0301", "👩‍👩‍👧", "x" * 40, "\r\n", "\x00", "1234567"]
    ),
    max_size=300,
).map("".join)


@given(dirty_text, st.sampled_from(["o200k", "words"]), st.integers(8, 40), st.integers(0, 12))
@settings(max_examples=200, deadline=None)
@example("\ud800 lone surrogate " * 20, "o200k", 8, 0)
@example("👩‍👩‍👧" * 50, "o200k", 8, 0)
def test_no_character_is_lost_and_no_chunk_is_too_long(text: str, name: str, max_tokens: int, slack: int) -> None:
    check(text, name, max_tokens, slack)


@pytest.mark.parametrize("name", ["o200k", "words"])
@pytest.mark.parametrize("unit", ["a", " ", "\n", "東京", "-", "👩‍👩‍👧", "\n    ", ". ", "ab1"])
def test_hostile_repetition(unit: str, name: str) -> None:
    check(unit * (60_000 // len(unit)), name, 512, 100)


def test_an_empty_document_has_no_chunks_and_white_space_is_kept() -> None:
    assert chunk_document(Document(id="empty", text=""), counter("o200k")) == []
    assert len(chunk_document(Document(id="blank", text=" \n "), counter("o200k"))) == 1


def test_chunks_carry_ids_offsets_title_and_source() -> None:
    document = Document(id="a_1", text=PROSE * 200, title="Fox", source="tales")
    chunks = chunk_document(document, counter("o200k"))
    assert [chunk.id for chunk in chunks] == [f"a_1_{i}" for i in range(len(chunks))]
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text == document.text[chunk.start : chunk.end]
        assert (chunk.doc, chunk.title, chunk.source) == ("a_1", "Fox", "tales")


def test_what_fits_with_the_slack_is_one_chunk() -> None:
    text = PROSE * 42  # 588 tokens
    assert 512 < counter("o200k").count(text) <= 612
    assert len(chunk_text(text, counter("o200k"))) == 1
    assert len(chunk_text(text, counter("o200k"), slack=0)) == 2


def test_a_chunk_ends_with_a_paragraph_before_a_sentence_before_a_line() -> None:
    paragraphs = chunk_text((PROSE * 5 + "\n\n") * 40, counter("o200k"))
    text = (PROSE * 5 + "\n\n") * 40
    assert all(text[:end].endswith("\n\n") for _, end, _ in paragraphs)
    sentences = PROSE * 200
    assert all(sentences[:end].endswith("bank. ") for _, end, _ in chunk_text(sentences, counter("o200k")))
    lines = "alpha beta gamma delta\n" * 400
    cut = chunk_text(lines, counter("o200k"))
    assert all(lines[:end].endswith("delta\n") for _, end, _ in cut)
    assert all(tokens <= 512 for *_, tokens in cut[:-1])  # the slack is for sentences and paragraphs


def test_words_are_whole_where_there_is_white_space() -> None:
    text = "alpha beta gamma " * 2000
    assert all(text[end - 1] == " " for _, end, _ in chunk_text(text, counter("o200k")))


def test_the_tiny_profile() -> None:
    chunks = check(PROSE * 30, "words", 32, 0)
    assert all(tokens <= 32 for *_, tokens in chunks)
    assert {tokens for *_, tokens in chunks[:-1]} == {28}  # two whole sentences


def test_a_word_without_end_is_cut() -> None:
    assert max(end - start for start, end, _ in chunk_text("a" * 100_000, counter("words"), 32, 0)) <= 16 * 32


def test_work_grows_linearly() -> None:
    class Recorder:
        name = "recorder"
        seen = 0

        def count(self, text: str) -> int:
            self.seen += len(text)
            return counter("o200k").count(text)

        def spans(self, text: str) -> list[int]:
            self.seen += len(text)
            return counter("o200k").spans(text)

        def cut(self, text: str, tokens: int) -> str:
            raise AssertionError("not needed")

    for unit in ("a", PROSE, " ", "東京"):
        recorder = Recorder()
        text = unit * (200_000 // len(unit))
        chunk_text(text, recorder)
        assert recorder.seen < 5 * len(text), unit


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError, match="max_tokens=7"):
        chunk_text("text", counter("words"), 7)
    with pytest.raises(ConfigError, match="slack=-1"):
        chunk_text("text", counter("words"), 32, -1)


@pytest.mark.parametrize("name", ["sec10k_items.sample.jsonl.gz", "cranfield225.corpus.jsonl.gz"])
def test_real_documents(real_data: Path, name: str) -> None:
    with gzip.open(real_data / name, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(60), strict=False)]
    chunks = [check(text, "o200k", 512, 100) for text in texts]
    cuts = [text[:end] for text, found in zip(texts, chunks, strict=True) for _, end, _ in found[:-1]]
    at_sentence = sum(before.rstrip().endswith((".", "?", "!", '"', "”", ")")) for before in cuts)
    assert at_sentence >= 0.9 * len(cuts)
