"""Turns as text and back: the plain-text protocol for models without native tool calls.

Calls are written as `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (the form that Hermes and Qwen templates use),
thinking as `<think>…</think>`. What cannot be read as a call is not dropped: it becomes `Turn.malformed`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agentgym.core.records import Message, ToolCall, ToolSpec, Turn

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_THINK = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.S)


class _WrittenCall(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_ID_CHARS = 64  # ids cost no tokens: longer ones would be memory for free, and are replaced

_DECODER = msgspec.json.Decoder(_WrittenCall)


def parse_turn(text: str) -> Turn:
    """Read a model's text as a turn; ids of calls are `c0`, `c1`, … Never raises."""
    text = clean(text)
    reasoning = "\n".join(match.strip() for match in _THINK.findall(text))
    rest = _THINK.sub("", text)
    calls: list[ToolCall] = []
    malformed: str | None = None
    for i, written in enumerate(_CALL.findall(rest)):
        try:
            call = _DECODER.decode(written.strip())
            arguments = bytes(call.arguments).decode()
            if arguments.startswith('"'):  # some models write the arguments as a JSON string of JSON
                arguments = msgspec.json.decode(arguments)
            calls.append(ToolCall(f"c{i}", call.name, arguments))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            malformed = malformed or f"tool call {i} cannot be read: {error}"
    return Turn(_CALL.sub("", rest).strip(), reasoning, tuple(calls), text, malformed)


def render_turn(turn: Turn) -> str:
    """The text that `parse_turn` reads back as this turn's content and calls."""
    pieces = [turn.content] if turn.content else []
    pieces += [render_call(call) for call in turn.tool_calls]
    return "\n".join(pieces)


def render_call(call: ToolCall) -> str:
    """One call in the text protocol; arguments that are no JSON are carried as a JSON string."""
    try:
        arguments = msgspec.Raw(call.arguments.encode())
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = msgspec.Raw(msgspec.json.encode(call.arguments))
    body = b'{"name": %s, "arguments": %s}' % (msgspec.json.encode(call.name), bytes(arguments))
    return f"<tool_call>{body.decode()}</tool_call>"


def render_message(message: Message) -> str:
    """A message's text in the plain-text protocol, without role markers."""
    pieces = [message.text] if message.parts else []
    pieces += [render_call(call) for call in message.tool_calls]
    return "\n".join(pieces)


def render_specs(specs: tuple[ToolSpec, ...]) -> str:
    """What a text-only model is told of the tools."""
    lines = [msgspec.json.encode(spec).decode() for spec in specs]
    form = '<tool_call>{"name": "<tool>", "arguments": {<arguments>}}</tool_call>'
    return "Tools, one JSON schema a line:\n" + "\n".join(lines) + f"\nTo call one write {form}; several are possible."


def clean(text: str) -> str:
    """The text with lone surrogates, which no encoding can hold, replaced by `?`."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def sane(turn: Turn) -> Turn:
    """The turn if its fields have their declared types and can be encoded; else the nearest turn that does.

    Records are checked when decoded, not when built, so a program can hand over anything; the harness answers with an
    error result instead of failing later. Token counts that the sender claims for its calls are dropped.
    """
    content, calls = turn.content, turn.tool_calls
    if type(turn) is not Turn or not (type(content) is str and content.isascii() and type(calls) is tuple):
        return _repaired(turn)
    for call in calls:
        if type(call) is not ToolCall:
            return _repaired(turn)
        ident, name, arguments = call.id, call.name, call.arguments
        if not (type(ident) is type(name) is type(arguments) is str and call.tokens == 0 and len(ident) <= _ID_CHARS):
            return _repaired(turn)
        if not (ident.isascii() and name.isascii() and arguments.isascii()):
            return _repaired(turn)
    if turn.malformed is None and turn.raw is None and turn.usage is None and turn.reasoning == "":
        return turn
    return _repaired(turn)


def _repaired(turn: Turn) -> Turn:
    try:
        data = _cleaned(msgspec.to_builtins(turn, enc_hook=_plain))
        for place, call in enumerate(data.get("tool_calls", ())):
            if isinstance(call, dict):
                call.pop("tokens", None)
                if isinstance(call.get("id"), str) and len(call["id"]) > _ID_CHARS:
                    call["id"] = f"c{place}"
        return msgspec.convert(data, Turn)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return Turn(malformed=clean(f"the action is no valid Turn: {error}"))


def _plain(value: Any) -> Any:
    """A string of a subclass (NumPy has one) as a string; anything else that JSON lacks by its type's name."""
    return str.__str__(value) if isinstance(value, str) else f"<{type(value).__name__}>"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
