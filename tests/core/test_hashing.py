"""Hashes: equal content, equal hash; different content, different hash; the same on every machine for ever."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.hashing import (
    bare,
    canonical,
    canonical_strict,
    chain,
    digest,
    file_digest,
    sha256,
    taskset_digest,
    text_digest,
)
from agentgym.core.records import Message, Part, Record, Task

plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_canonical_json_is_json_and_stable(value: object) -> None:
    data = canonical(value)
    assert json.loads(data) == value
    assert canonical(json.loads(data)) == data
    assert canonical_strict(value) == data
    assert digest(value) == sha256(data)


@given(st.dictionaries(plain_text, json_values, max_size=6), st.randoms(use_true_random=False))
def test_key_order_does_not_matter(value: dict[str, object], random: object) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


def test_fields_at_their_default_leave_no_trace() -> None:
    assert canonical(Part(text="a")) == b'{"text":"a"}'
    assert canonical(Message(role="user", parts=(Part(text="a", tokens=3),))) == (
        b'{"parts":[{"text":"a","tokens":3}],"role":"user"}'
    )


def test_hashes_are_pinned() -> None:
    """A change here breaks every stored trajectory: it needs a new schema version."""
    task = Task(id="t", family="f", prompt="pröm\u2028pt", payload={"b": [1, 2.5, None], "a": True})
    assert canonical(task) == (
        b'{"family":"f","id":"t","payload":{"a":true,"b":[1,2.5,null]},"prompt":"pr\xc3\xb6m\xe2\x80\xa8pt"}'
    )
    assert task.digest() == hashlib.sha256(canonical(task)).hexdigest()
    assert chain("", b"line") == hashlib.sha256(b"line").hexdigest()
    assert chain("ab", b"line") == hashlib.sha256(b"abline").hexdigest()
    assert taskset_digest({"b": "2", "a": "1"}) == sha256(b"a 1\nb 2") == taskset_digest({"a": "1", "b": "2"})


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), r"nan at \$ cannot"),
        ({"a": [1.0, float("inf")]}, r"inf at \$\.a\[1\] cannot"),
        ([{"b": (float("-inf"),)}], r"-inf at \$\[0\]\.b\[0\] cannot"),
        (Task(id="t", family="f", prompt="", payload={"x": float("nan")}), r"nan at \$\.payload\.x cannot"),
    ],
)
def test_numbers_that_json_lacks_are_refused_by_place(value: object, place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        canonical_strict(value)


@given(st.text(max_size=30), st.text(max_size=30))
def test_text_digest_tells_any_two_texts_apart(first: str, second: str) -> None:
    assert (text_digest(first) == text_digest(second)) == (first == second)


def test_text_digest_takes_lone_surrogates() -> None:
    assert text_digest("\ud800") != text_digest("\ufffd")
    assert text_digest("é") == sha256("é".encode())


def test_file_digest(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1_000_000)
    assert file_digest(tmp_path / "f") == sha256(b"x" * 1_000_000)


def test_pythons_hash_seed_does_not_matter() -> None:
    program = (
        "from agentgym.core.hashing import digest; from agentgym.core.seeding import derive;"
        "print(digest({k: len(k) for k in {'alpha', 'beta', 'gamma', 'delta'}}), derive(3, 'a', 1))"
    )
    root = str(Path(__file__).resolve().parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_settings_hash_by_value_wherever_they_come_from() -> None:
    class Limits(Record, frozen=True):
        turns: int = 4096
        counter: str = "o200k"
        beta: float = 4.0
        cap: int | None = None

    read = msgspec.json.decode(b'{"turns": 4096, "counter": "o200k", "beta": 4.0}', type=Limits)
    assert read == Limits()
    assert bare(read) == bare(Limits()) == {}  # msgspec itself would write what is equal to a default and not the same
    assert bare(Limits(turns=7, cap=1)) == {"turns": 7, "cap": 1}
