"""Regular expressions over the joined buffer against the same pattern chunk by chunk."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ToolError
from agentgym.retrieval.grep import grep


def join(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [text.encode() + b"\n" for text in texts]
    return np.frombuffer(b"".join(data), dtype=np.uint8), np.cumsum([0, *(len(item) for item in data)])


def rows(pattern: str, texts: list[str], allowed: np.ndarray | None = None, limit: int = 1000) -> list[int]:
    return grep(pattern, *join(texts), allowed, limit)


TEXTS = ["Alpha beta", "gamma\nALPHA", "", "delta Ünïcode", "x\x00y", "alp", "ha beta"]


def test_finds_in_either_case_and_in_order() -> None:
    assert rows("alpha", TEXTS) == [0, 1]
    assert rows("(?-i)alpha", TEXTS) == []
    assert rows("ünï", TEXTS) == [3]
    assert rows("alpha", TEXTS, limit=1) == [0]


def test_lines_and_anchors() -> None:
    assert rows("^alpha", TEXTS) == [0, 1]
    assert rows("beta$", TEXTS) == [0, 6]
    assert rows(r"\Aalpha", TEXTS) == [0]
    assert rows(r"alpha\z", TEXTS) == [1]
    assert rows("(?-m:^alpha)", TEXTS) == [0]


def test_a_match_never_runs_over_a_chunk_border() -> None:
    assert rows(r"alp\sha", TEXTS) == []
    assert rows(r"alp(.|\n)*beta", TEXTS) == [0]
    assert rows(r"a\s", ["a", "b", "a c"]) == [2]
    assert rows(r"x[^q]*y", ["x1", "x2 y", "y", "x", "xy"]) == [1, 4]


def test_nul_and_newline() -> None:
    assert rows("x\x00y", TEXTS) == [4]
    assert rows(r"\x00", TEXTS) == [4]
    assert rows(r"\n", TEXTS) == [1]


def test_patterns_that_match_nothing_at_all_match_everywhere() -> None:
    assert rows("z*", TEXTS) == list(range(len(TEXTS)))
    assert rows("$", TEXTS, limit=3) == [0, 1, 2]


def test_mask() -> None:
    allowed = np.array([row != 0 for row in range(len(TEXTS))])
    assert rows("alpha", TEXTS, allowed) == [1]
    assert rows("alpha", TEXTS, np.zeros(len(TEXTS), dtype=bool)) == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=look)", r"invalid perl operator: \(\?="),
        ("(?<!behind)x", "invalid perl operator"),
        (r"(a)\1", r"invalid escape sequence: \\1"),
        ("[", "missing ]"),
        ("a**", "bad repetition operator"),
        ("x{2000}", "invalid repetition size"),
        ("", "empty"),
        ("a" * 5000, "5,000 characters"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_refusals_say_why(pattern: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason) as caught:
        rows(pattern, TEXTS)
    assert caught.value.kind == "bad_pattern"
    assert len(str(caught.value)) < 250


def test_a_costly_pattern_is_refused_on_a_large_corpus_only() -> None:
    pattern = r"(\pL{50}.{20}){2}"
    assert rows(pattern, ["short"]) == []
    with pytest.raises(ToolError, match="too costly"):
        grep(pattern, np.zeros(50_000_000, dtype=np.uint8), np.array([0, 50_000_000]))


def test_catastrophic_and_spanning_patterns_stay_linear() -> None:
    texts = ["a" * 200 + "!"] * 20_000  # 4 MB
    assert rows("(a+)+$", texts, limit=5) == []
    # Each hit of these runs to the buffer's end: chunk by chunk from the first one on.
    assert rows(r"(?s)a.*zzz", [*texts, "zzz"]) == []
    assert rows(r"(?s)!.*", texts, limit=20_000) == list(range(20_000))


ATOMS = st.sampled_from(["a", "b", "\\n", ".", "[^a]", "^", "$", "\\b", "\\s", "a*", "b+", "(a|b\\n)", "a?", "(?s:.*)"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(ATOMS, min_size=1, max_size=4),
    st.lists(st.text("ab \n", max_size=6), min_size=1, max_size=8),
    st.integers(1, 9),
)
def test_equals_a_loop_over_chunks(atoms: list[str], texts: list[str], limit: int) -> None:
    pattern = "".join(atoms)
    # RE2's `$` in multi-line mode is before a newline or at the end, like Python's.
    expected = [row for row, text in enumerate(texts) if re.search(pattern, text, re.IGNORECASE | re.MULTILINE)]
    assert rows(pattern, texts, limit=limit) == expected[:limit]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_tool_error(pattern: str) -> None:
    try:
        found = rows(pattern, TEXTS)
    except ToolError:
        return
    assert set(found) <= set(range(len(TEXTS)))
