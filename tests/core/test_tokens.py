"""Token counters: pinned counts, cuts that keep their promise, spans that fit the text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.core.errors import UnknownName
from agentgym.core.tokens import O200k, counter

NAMES = ["o200k", "words"]
valid_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=120) | st.lists(
    st.sampled_from(
        ["word", " ", "\n", "é", "e\u0301", "👩‍👩‍👧", "東京", "<|endoftext|>", "1234567", "\r\n", "_", "don't"]
    ),
    max_size=40,
).map("".join)


def o200k() -> O200k:
    engine = counter("o200k")
    assert isinstance(engine, O200k)
    return engine


@pytest.mark.parametrize(
    ("text", "tokens", "words"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("don't", 1, 3),
        (" " * 1000, 9, 0),
        ("<|endoftext|>", 7, 5),
        ("東京は日本の首都です。", 8, 2),
        ("👩‍👩‍👧", 8, 5),
    ],
)
def test_counts_are_pinned(text: str, tokens: int, words: int) -> None:
    """Budgets of ranked runs stand on these numbers."""
    assert (counter("o200k").count(text), counter("words").count(text)) == (tokens, words)


def test_the_vocabulary_is_the_published_one() -> None:
    assert o200k().encode("hello world") == [24912, 2375]
    assert len(o200k().encode("<|endoftext|>")) == 7  # plain text, no marker


@pytest.mark.parametrize("name", NAMES)
@given(text=valid_text, tokens=st.integers(-1, 40))
@settings(deadline=None)
@example(text="👩‍👩‍👧" * 5, tokens=4)
def test_a_cut_is_the_longest_beginning_that_fits(name: str, text: str, tokens: int) -> None:
    kept = counter(name).cut(text, tokens)
    assert text.startswith(kept)
    assert counter(name).count(kept) <= max(0, tokens)
    if counter(name).count(text) <= tokens:
        assert kept == text


@pytest.mark.parametrize("name", NAMES)
@given(text=valid_text)
@settings(deadline=None)
def test_spans_are_one_a_token_and_ascend(name: str, text: str) -> None:
    ends = counter(name).spans(text)
    assert len(ends) == counter(name).count(text)
    assert ends == sorted(ends)
    assert all(0 <= end <= len(text) for end in ends)
    if name == "o200k":
        assert ends[-1:] == [len(text)] * bool(text)


@given(valid_text)
@settings(deadline=None)
def test_o200k_spans_end_where_the_tokens_do(text: str) -> None:
    engine = o200k()
    ids = engine.encode(text)
    assert engine.decode(ids) == text
    for i, end in enumerate(engine.spans(text)):
        begun = engine.decode(ids[: i + 1]).rstrip("\ufffd")
        assert len(begun) >= end or text[end - 1] == "\ufffd"
        assert text[:end].startswith(begun[:end])


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(max_size=60))
@settings(deadline=None)
@example(text="\ud83d\ude00\ud800")
def test_lone_surrogates_are_counted_not_refused(name: str, text: str) -> None:
    counter(name).count(text)
    counter(name).cut(text, 3)
    counter(name).spans(text)


@pytest.mark.parametrize("unit", [" ", "\n", "a", "-", "東"])
def test_no_length_exhausts_the_engine(unit: str) -> None:
    text = unit * 1_000_000
    engine = counter("o200k")
    assert engine.count(text) == 10 * engine.count(text[:100_000])
    assert engine.spans(text)[-1] == len(text)


def test_counters_are_shared_and_unknown_names_refused() -> None:
    assert counter("o200k") is counter("o200k")
    with pytest.raises(UnknownName, match=r"unknown token counter 'o200'; did you mean o200k\?"):
        counter("o200")
