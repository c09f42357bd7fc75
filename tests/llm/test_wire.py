"""Conversion between records and the chat-completions JSON, and the reading of replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.records import Message, Part, ToolCall, ToolSpec, Turn, Usage
from agentgym.llm.wire import (
    MalformedReply,
    clean,
    message_from_openai,
    messages_to_openai,
    reply_from_openai,
    tool_from_openai,
    tool_to_openai,
    usage_from_openai,
)

SEARCH = ToolSpec("search_corpus", "Find chunks.", {"type": "object", "properties": {"query": {"type": "string"}}})
any_text = st.text(st.characters())  # lone surrogates too
plain_text = st.text(st.characters(exclude_categories=["Cs"]))


def completion(message: Any, finish: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], "model": "m", **fields}


def turn_of(message: Any, finish: Any = "stop") -> Turn:
    return reply_from_openai(completion(message, finish), "call_7").turn


def test_a_conversation_in_the_shape_that_servers_take() -> None:
    conversation = [
        Message("system", (Part("Search."),)),
        Message("user", (Part("Who?"), Part("When?"))),
        Message("assistant", (Part("Hm."),), (ToolCall("a", "search_corpus", '{"query": "x"}'),)),
        Message("tool", (Part("chunk 1", "d_1", 2), Part("[usage]")), (), "a"),
        Message("assistant", (Part("d_1"),)),
    ]
    assert messages_to_openai(conversation, [SEARCH]) == [
        {"role": "system", "content": "Search."},
        {"role": "user", "content": "Who?\nWhen?"},
        {
            "role": "assistant",
            "content": "Hm.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "search_corpus", "arguments": '{"query": "x"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "chunk 1\n[usage]"},
        {"role": "assistant", "content": "d_1"},
    ]


def test_calls_without_text_have_null_content() -> None:
    (message,) = messages_to_openai([Message("assistant", (), (ToolCall("a", "f", "{}"),))])
    assert message["content"] is None


def test_an_assistant_message_that_says_nothing_is_left_out() -> None:
    sent = messages_to_openai([Message("user", (Part("q"),)), Message("assistant"), Message("user", (Part("error"),))])
    assert [message["role"] for message in sent] == ["user", "user"]


def test_a_tool_result_without_a_call_is_a_user_message() -> None:
    assert messages_to_openai([Message("tool", (Part("x"),))]) == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize("raw", ['{"query": "x', "[1]", "null", '"text"', '{"a": NaN}', "[" * 100_000])
def test_arguments_that_servers_would_refuse_in_history_are_wrapped(raw: str) -> None:
    (message,) = messages_to_openai([Message("assistant", (), (ToolCall("a", "f", raw),))])
    sent = message["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"malformed": raw}


@pytest.mark.parametrize(
    ("raw", "sent"), [("", "{}"), ("  ", "{}"), ('{"a":1}', '{"a":1}'), (' {"a": 1}\n', ' {"a": 1}\n')]
)
def test_arguments_that_servers_take_are_sent_as_they_are(raw: str, sent: str) -> None:
    (message,) = messages_to_openai([Message("assistant", (), (ToolCall("a", "f", raw),))])
    assert message["tool_calls"][0]["function"]["arguments"] == sent


def test_names_of_unknown_tools_are_made_sendable() -> None:
    calls = (ToolCall("a", "", "{}"), ToolCall("b", "read document!", "{}"), ToolCall("c", "x.y", "{}"))
    tools = [ToolSpec("x.y", "", {"type": "object"})]
    (message,) = messages_to_openai([Message("assistant", (), (*calls, ToolCall("d", "n" * 99, "{}")))], tools)
    names = [call["function"]["name"] for call in message["tool_calls"]]
    assert names == ["unnamed", "read_document_", "x.y", "n" * 64]


@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda role, text: Message(role, (Part(text),)),
                st.sampled_from(["system", "user"]),
                st.text(min_size=1),
            ),
            st.builds(lambda text, id_: Message("tool", (Part(text),), (), id_), st.text(min_size=1), st.text()),
            st.builds(
                lambda text, ids: Message(
                    "assistant",
                    (Part(text),),
                    tuple(ToolCall(id_, "search_corpus", json.dumps({"query": text})) for id_ in ids),
                ),
                st.text(min_size=1),
                st.lists(st.text(min_size=1), unique=True, max_size=3),
            ),
        )
    )
)
def test_well_formed_messages_survive_the_round_trip(messages: list[Message]) -> None:
    assert [message_from_openai(message) for message in messages_to_openai(messages, [SEARCH])] == messages


def test_a_tool_survives_the_round_trip() -> None:
    assert tool_from_openai(tool_to_openai(SEARCH)) == SEARCH
    assert tool_from_openai({"function": {"name": "f"}}) == ToolSpec("f", "", {"type": "object", "properties": {}})


def test_bad_input_to_the_converters_is_named() -> None:
    with pytest.raises(ConfigError, match="'critic'"):
        message_from_openai({"role": "critic", "content": "x"})
    with pytest.raises(ConfigError, match="no function tool"):
        tool_from_openai({"type": "web_search"})


def test_developer_messages_and_typed_parts_are_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert message_from_openai({"role": "developer", "content": parts}) == Message("system", (Part("a\nb"),))


def test_a_text_reply() -> None:
    reply = reply_from_openai(completion({"content": "hello", "reasoning_content": "hm"}), "call_1")
    assert (reply.turn, reply.finish_reason, reply.model) == (Turn("hello", "hm"), "stop", "m")


@pytest.mark.parametrize(
    ("field", "raw"), [("{not json", "{not json"), (None, ""), ({"query": "x"}, '{"query": "x"}'), (7, "7"), ("", "")]
)
def test_arguments_stay_raw(field: Any, raw: str) -> None:
    turn = turn_of({"content": None, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": field}}]})
    assert turn.tool_calls == (ToolCall("a", "f", raw),)


def test_calls_without_or_with_repeated_ids_get_one() -> None:
    ids: list[Any] = [None, "a", "a", "", 3]
    turn = turn_of({"tool_calls": [{"id": id_, "function": {"name": "f", "arguments": "{}"}} for id_ in ids]})
    assert [call.id for call in turn.tool_calls] == ["call_7_0", "a", "call_7_2", "call_7_3", "call_7_4"]


@pytest.mark.parametrize("junk", ["text", None, 3, {}, {"function": "f"}, {"function": {"name": 3}}])
def test_junk_among_the_calls_is_kept_as_a_call(junk: Any) -> None:
    turn = turn_of({"tool_calls": [junk, {"id": "a", "function": {"name": "f", "arguments": "{}"}}]})
    assert len(turn.tool_calls) == 2
    assert turn.tool_calls[0].name == ""
    assert turn.tool_calls[1] == ToolCall("a", "f", "{}")


def test_a_refusal_is_what_the_model_said() -> None:
    assert turn_of({"content": None, "refusal": "I will not."}).content == "I will not."


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_unfinished_reply_is_no_final_answer(finish: str) -> None:
    turn = turn_of({"content": "The answer is"}, finish)
    assert turn.content == "The answer is"
    assert turn.malformed is not None
    assert finish in turn.malformed


def test_an_unfinished_reply_with_calls_is_left_to_the_argument_check() -> None:
    calls = [{"id": "a", "function": {"name": "f", "arguments": '{"q": "cut o'}}]
    assert turn_of({"tool_calls": calls}, "length").malformed is None


def test_an_empty_reply_is_passed_on() -> None:
    assert turn_of({"content": None}) == Turn()
    assert turn_of({}) == Turn()


@pytest.mark.parametrize(
    "body", [None, [], "x", {}, {"choices": []}, {"choices": [None]}, {"choices": [{}]}, {"choices": 3}]
)
def test_what_is_no_completion_is_malformed(body: Any) -> None:
    with pytest.raises(MalformedReply):
        reply_from_openai(body, "call")


def test_usage_with_cached_tokens() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    assert usage_from_openai(usage) == Usage(10, 3, 8)
    assert usage_from_openai({"prompt_tokens": 10, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}) == Usage(
        10, 3, 4
    )
    assert usage_from_openai({**usage, "prompt_tokens_details": None}) == Usage(10, 3, 0)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        3,
        {},
        {"prompt_tokens": 1},
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": "1", "completion_tokens": True},
    ],
)
def test_usage_that_is_not_reported_is_unknown(usage: Any) -> None:
    assert usage_from_openai(usage) is None


def test_cached_tokens_never_exceed_the_input() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}
    assert usage_from_openai(usage) == Usage(5, 1, 5)


@given(any_text)
def test_cleaned_text_is_utf8_and_plain_text_is_untouched(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned == text


def test_surrogates() -> None:
    assert clean("a\ud800b") == "a�b"
    assert clean("\ud83d\ude00") == "\U0001f600"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_text, inner, max_size=3),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("content", "tool_calls", "reasoning", "refusal"), json_values))
)
def test_any_message_becomes_a_turn(message: dict[str, Any]) -> None:
    turn = turn_of(message)
    sent = messages_to_openai([Message("assistant", (Part(turn.content),), turn.tool_calls)])
    json.dumps(sent).encode()
    if isinstance(message.get("tool_calls"), list):
        assert len(turn.tool_calls) == len(message["tool_calls"])
