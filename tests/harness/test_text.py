"""Turns as text and back; whatever a program hands over as a turn becomes one that can be recorded."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.hashing import canonical
from agentgym.core.records import Message, Part, ToolCall, Turn, Usage
from agentgym.harness.text import parse_turn, render_message, render_specs, render_turn, sane
from tests.harness.toolkit import Tools

plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
anything: st.SearchStrategy[Any] = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=10)
    | st.binary(max_size=5)
    | st.just(object())
    | st.just(np.str_("é"))
    | st.lists(st.integers(), max_size=2)
)


def valid(turn: Turn) -> bool:
    """Whether the turn survives being written and read."""
    return bool(msgspec.msgpack.decode(msgspec.msgpack.encode(turn), type=Turn) == turn)


def test_calls_thoughts_and_content_are_told_apart() -> None:
    text = (
        '<think>hm</think>Look. <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>\n<tool_call>{"name": "g"}'
    )
    turn = parse_turn(text)
    assert turn.content == "Look."
    assert turn.reasoning == "hm"
    assert turn.tool_calls == (ToolCall("c0", "f", '{"a": 1}'), ToolCall("c1", "g", "{}"))
    assert turn.raw == text
    assert turn.malformed is None


def test_arguments_written_as_a_string_of_json_are_unwrapped() -> None:
    turn = parse_turn('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>')
    assert turn.tool_calls[0].arguments == '{"a": 1}'


@pytest.mark.parametrize(
    "written",
    ["{", "", "[]", '{"name": 5}', '{"arguments": {}}', "{" * 100_000, '{"name": "f", "arguments": "\\ud800"}'],
)
def test_what_cannot_be_read_is_kept_as_malformed(written: str) -> None:
    turn = parse_turn(f"<tool_call>{written}</tool_call>")
    assert turn.malformed is not None
    assert "tool call 0 cannot be read" in turn.malformed
    assert valid(turn)


@given(st.text(st.characters(), max_size=200))
def test_parsing_never_raises(text: str) -> None:
    assert valid(parse_turn(text))


@given(st.lists(st.sampled_from(["<tool_call>", "</tool_call>", "<think>", "</think>", "{", '"name": "f"', "}", "x"])))
def test_parsing_never_raises_on_broken_markup(pieces: list[str]) -> None:
    assert valid(parse_turn("".join(pieces)))


@given(
    st.text("abc ", max_size=10).map(str.strip),
    st.lists(st.tuples(plain, st.dictionaries(plain, plain, max_size=2)), max_size=3),
)
def test_a_rendered_turn_reads_back(content: str, made: list[tuple[str, dict[str, str]]]) -> None:
    made = [(name, arguments) for name, arguments in made if "tool_call>" not in name + json.dumps(arguments)]
    turn = Turn(
        content,
        tool_calls=tuple(ToolCall(f"c{i}", n, json.dumps(a, ensure_ascii=False)) for i, (n, a) in enumerate(made)),
    )
    back = parse_turn(render_turn(turn))
    assert back.content == content
    assert [(c.name, json.loads(c.arguments)) for c in back.tool_calls] == made


@pytest.mark.parametrize("arguments", ["no json", '{"a": ', "", "[" * 100_000])
def test_arguments_that_are_no_json_survive_rendering(arguments: str) -> None:
    turn = Turn(tool_calls=(ToolCall("c0", "f", arguments),))
    assert parse_turn(render_turn(turn)).tool_calls == turn.tool_calls


def test_messages_and_specs_render() -> None:
    message = Message("assistant", (Part("a"), Part("b")), (ToolCall("c0", "f", "{}"),))
    assert render_message(message) == 'a\nb\n<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert render_message(Message("user")) == ""
    assert all(spec.name in render_specs(Tools.specs()) for spec in Tools.specs())


def test_a_sane_turn_is_handed_through_as_it_is() -> None:
    turn = Turn("x", tool_calls=(ToolCall("c0", "f", "{}"),))
    assert sane(turn) is turn
    accented = Turn("é", "thought", (ToolCall("ü", "f", "{}"),), "raw", None, Usage(1, 2))
    assert sane(accented) == accented


def test_claimed_token_counts_are_dropped() -> None:
    assert sane(Turn(tool_calls=(ToolCall("c0", "f", "{}", -5),))).tool_calls[0].tokens == 0


def test_surrogates_are_replaced_wherever_they_stand() -> None:
    bad = "a\ud800"
    turn = sane(Turn(bad, bad, (ToolCall(bad, bad, bad),), bad, bad))
    assert turn == Turn("a?", "a?", (ToolCall("a?", "a?", "a?"),), "a?", "a?")
    assert sane(Turn(tool_calls=(ToolCall("\ud800", "f", "{}"),))).tool_calls[0].id == "?"


def test_a_string_of_a_subclass_is_taken_as_a_string() -> None:
    turn = sane(Turn(np.str_("yes"), tool_calls=(ToolCall("c0", np.str_("f"), np.str_("{}")),)))
    assert turn == Turn("yes", tool_calls=(ToolCall("c0", "f", "{}"),))
    assert type(turn.content) is type(turn.tool_calls[0].name) is str
    canonical(turn)


@given(
    st.builds(
        Turn,
        content=anything,
        reasoning=anything,
        tool_calls=anything
        | st.lists(
            st.builds(ToolCall, id=anything, name=anything, arguments=anything, tokens=anything), max_size=2
        ).map(tuple),
        raw=anything,
        malformed=anything,
        usage=anything | st.builds(Usage, tokens_in=anything),
    )
)
def test_whatever_the_fields_hold_a_valid_turn_comes_out(turn: Turn) -> None:
    assert valid(sane(turn))


def test_a_field_of_another_type_makes_a_malformed_turn_that_says_so() -> None:
    turn = sane(Turn(content=5))  # type: ignore[arg-type]
    assert turn.malformed is not None
    assert "Expected `str`, got `int` - at `$.content`" in turn.malformed


class _Odd:
    def __repr__(self) -> str:
        raise RuntimeError("an agent's own code ran")


def test_nothing_of_the_agents_runs_and_nothing_of_a_subclass_is_kept() -> None:
    class Extended(Turn, frozen=True):
        extra: str = "hidden"

    assert sane(Extended("x")).malformed is not None or type(sane(Extended("x"))) is Turn
    assert type(sane(Extended("x", extra="hidden"))) is Turn
    assert type(sane(Turn(_Odd()))) is Turn  # type: ignore[arg-type]


def test_long_call_ids_are_no_free_memory() -> None:
    calls = (ToolCall("a" * 5_000, "lookup", "{}"), ToolCall("c" * 64, "lookup", "{}"))
    assert [call.id for call in sane(Turn(tool_calls=calls)).tool_calls] == ["c0", "c" * 64]
