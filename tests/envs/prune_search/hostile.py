"""Turns that no agent should send: broken calls of every kind, wrong types in every field, floods, odd characters."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from agentgym.core.records import ToolCall, Turn

_NAMES = [
    "search_corpus",
    "grep_corpus",
    "read_document",
    "prune_chunks",
    "no_such_tool",
    "",
    "\ud800",
    "prune_chunks\0",
]
_TEXTS = [
    "",
    "a",
    "b0_0",
    "b0",
    "Ardle bridge",
    "\ud800",
    "\0",
    "é" * 300,
    "(a+)+$",
    "(?=x)",
    "[",
    "x" * 2_000,
    "\u2028\r\n",
]
_RAW = [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"text"',
    '{"query": ',
    "NaN",
    '{"query": NaN}',
    '{"a":' * 1_500,
    "9" * 5_000,
    "{}{}",
]
_KEYS = ["query", "pattern", "doc_id", "chunk_ids", "sources", "surprise", ""]


def hostile_turn(rng: np.random.Generator) -> Turn:
    """A random hostile turn; now and then a valid call, so that episodes get somewhere."""
    kind = int(rng.integers(10))
    if kind == 0:
        return Turn(tool_calls=tuple(_any_call(rng) for _ in range(int(rng.choice([2, 5, 40])))))
    if kind == 1:
        return Turn(malformed=_pick(rng, ["broken", "\ud800", "x" * 5_000]), raw=_pick(rng, _TEXTS))
    if kind == 2:
        return _wrong_types(rng)
    if kind == 3 and rng.random() < 0.2:
        return Turn(_pick(rng, _TEXTS))  # ends the episode
    return Turn(_pick(rng, _TEXTS[:6]), tool_calls=(_any_call(rng),))


def _any_call(rng: np.random.Generator) -> ToolCall:
    name = _pick(rng, _NAMES if rng.random() < 0.5 else _NAMES[:4])
    if rng.random() < 0.3:
        return ToolCall(_pick(rng, ["c0", "", "\ud800"]), name, _pick(rng, _RAW))
    keys = [_pick(rng, _KEYS) for _ in range(int(rng.integers(1, 3)))]
    return ToolCall("c0", name, json.dumps({key: _value(rng) for key in keys}))


def _value(rng: np.random.Generator) -> Any:
    texts = [_pick(rng, _TEXTS) for _ in range(int(rng.integers(0, 4)))]
    return _pick(rng, [_pick(rng, _TEXTS), texts, texts * 20, None, 7, -1.5, {"a": texts}, [None, texts], True])


def _wrong_types(rng: np.random.Generator) -> Turn:
    """Records are checked when decoded, not when built: a program can put anything into one."""
    call = _any_call(rng)
    wrong: list[Any] = [
        Turn(content=None),  # type: ignore[arg-type]
        Turn(content=b"\xff", reasoning=7),  # type: ignore[arg-type]
        Turn(tool_calls=[call]),  # type: ignore[arg-type]
        Turn(tool_calls=None),  # type: ignore[arg-type]
        Turn(tool_calls=(call, None, "text")),  # type: ignore[arg-type]
        Turn(tool_calls=(ToolCall(None, None, None),)),  # type: ignore[arg-type]
        Turn(tool_calls=(ToolCall("c0", "search_corpus", {"query": "a"}),)),  # type: ignore[arg-type]
        Turn(tool_calls=(ToolCall("c0", "search_corpus", "{}", tokens=-(10**9)),)),
        Turn(tool_calls=(ToolCall("c0", "search_corpus", "{}", tokens=float("nan")),)),  # type: ignore[arg-type]
        Turn(content=object(), raw=object()),  # type: ignore[arg-type]
        Turn(usage="much", tool_calls=(call,)),  # type: ignore[arg-type]
        Turn(malformed=7, tool_calls=(call,)),  # type: ignore[arg-type]
    ]
    return wrong[int(rng.integers(len(wrong)))]


def _pick(rng: np.random.Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))]
