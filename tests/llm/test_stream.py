"""Streams put together again: whatever the pieces, the reply is that of the unstreamed answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.llm.stream import Assembler, events
from agentgym.llm.wire import MalformedReply, reply_from_openai
from tests.support.openai_server import calls, say, stream_events


def split(data: bytes, sizes: list[int]) -> list[str]:
    async def chunks() -> AsyncIterator[bytes]:
        start = 0
        for size in sizes:
            yield data[start : start + size]
            start += size
        yield data[start:]

    async def collect() -> list[str]:
        return [event async for event in events(chunks())]

    return asyncio.run(collect())


def assemble(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    assembler = Assembler()
    for chunk in chunks:
        assert assembler.feed(json.dumps(chunk))
    assert not assembler.feed("[DONE]")
    return assembler.body()


def delta(*tool_calls: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": list(tool_calls)}}]}


FINISH = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), max_size=4),
    st.lists(st.integers(1, 7), max_size=20),
    st.sampled_from(["\n", "\r\n"]),
)
def test_events_are_the_same_however_the_bytes_arrive(texts: list[str], sizes: list[int], end: str) -> None:
    data = "".join([f": comment{end}{end}event: x{end}data: {text}{end}{end}" for text in texts]).encode()
    assert split(data, sizes) == texts


def test_line_separators_of_unicode_do_not_split_events() -> None:
    text = json.dumps({"x": "a\u2028b\u0085c"}, ensure_ascii=False)
    assert split(f"data: {text}\n\n".encode(), [3]) == [text]


def test_an_event_may_span_lines_and_the_last_may_lack_its_end() -> None:
    assert split(b"data: a\ndata: b\n\ndata: [DONE]", []) == ["a\nb", "[DONE]"]


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
    st.integers(1, 9),
)
def test_a_stream_equals_the_unstreamed_reply(text: str, arguments: list[str], piece_chars: int) -> None:
    message = calls(*[(f"c{i}", "f", raw) for i, raw in enumerate(arguments)], text=text) if arguments else say(text)
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    whole = {
        "id": "x",
        "model": "m",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    streamed = assemble(stream_events(whole, piece_chars))
    assert reply_from_openai(streamed, "call") == reply_from_openai(whole, "call")


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_servers_that_do_not_number_parallel_calls(index: dict[str, int]) -> None:
    body = assemble(
        [
            delta({**index, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}),
            delta({**index, "function": {"arguments": ": 1}"}}),
            delta({**index, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
            FINISH,
        ]
    )
    assert body["choices"][0]["message"]["tool_calls"] == [
        {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_a_repeated_id_is_the_same_call() -> None:
    body = assemble(
        [
            delta({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
            delta({"index": 0, "id": "a", "function": {"arguments": "}"}}),
            FINISH,
        ]
    )
    assert body["choices"][0]["message"]["tool_calls"] == [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]


def test_a_finish_without_done_is_enough() -> None:
    assembler = Assembler()
    assembler.feed('{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}')
    assert assembler.body()["choices"][0]["message"]["content"] == "x"


@pytest.mark.parametrize("data", ["{", "[1]", "3", "[" * 100_000])
def test_an_event_that_is_no_object_is_malformed(data: str) -> None:
    with pytest.raises(MalformedReply):
        Assembler().feed(data)


def test_a_stream_that_breaks_off_is_malformed() -> None:
    assembler = Assembler()
    assembler.feed('{"choices": [{"delta": {"content": "half a sen"}}]}')
    with pytest.raises(MalformedReply, match="broke off"):
        assembler.body()


def test_an_empty_stream_is_malformed() -> None:
    assembler = Assembler()
    assembler.feed("[DONE]")
    with pytest.raises(MalformedReply, match="no reply"):
        assembler.body()


@given(st.lists(st.text()))
def test_no_event_breaks_it(datas: list[str]) -> None:
    assembler = Assembler()
    for data in datas:
        try:
            assembler.feed(data)
        except MalformedReply:
            continue
