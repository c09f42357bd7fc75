"""Between our records and the chat-completions JSON, both ways, without a network.

Two rules. What a model wrote is never dropped: broken arguments, unknown tools and empty replies arrive as a `Turn`,
for the harness to answer and count. And what is sent is always well formed: history can hold what a model once got
wrong, and servers refuse a whole conversation for it (vLLM and llama.cpp parse the arguments of *past* calls), which
would turn one bad call into a dead episode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentgym.core.errors import ConfigError
from agentgym.core.records import Message, Part, Record, Role, ToolCall, ToolSpec, Turn, Usage

_UNSAFE_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS = 64  # OpenAI's limit for function names
_FINISHED = ("stop", "tool_calls", "function_call", None)


class MalformedReply(Exception):
    """A body that is not a chat completion; the client tries again. Never leaves the room."""


class Reply(Record, frozen=True):
    """What came back: the turn, why the model stopped, the model that the server names, and whether the cache gave it.

    `turn.usage` is None where the server reports none (unknown, not zero).
    """

    turn: Turn
    finish_reason: str | None = None
    model: str | None = None
    from_cache: bool = False


def clean(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which UTF-8 cannot carry, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A JSON value with every text in it cleaned, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean_json(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


# -- to the wire ------------------------------------------------------------------------------------------------------


def messages_to_openai(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
    """A conversation as servers take it.

    Parts are joined by newlines. An assistant message without text and calls says nothing and is left out (some servers
    refuse it); a tool result that answers no call becomes a user message. Arguments that are no JSON object are sent as
    `{"malformed": "<raw text>"}`; names of calls to tools not in `tools` are reduced to letters, digits, `_` and `-`.
    The record keeps what the model wrote.
    """
    known = {tool.name for tool in tools}
    return [_message(message, known) for message in messages if message.role != "assistant" or not _is_empty(message)]


def _is_empty(message: Message) -> bool:
    return not message.tool_calls and not message.text


def _message(message: Message, known: set[str]) -> dict[str, Any]:
    text = message.text
    if message.role == "tool":
        if message.call_id is None:
            return {"role": "user", "content": text}
        return {"role": "tool", "tool_call_id": message.call_id, "content": text}
    if message.role != "assistant" or not message.tool_calls:
        return {"role": message.role, "content": text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name if call.name in known else _safe_name(call.name),
                "arguments": _safe_arguments(call.arguments),
            },
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _safe_name(name: str) -> str:
    return _UNSAFE_NAME.sub("_", name)[:_NAME_CHARS] or "unnamed"


def _safe_arguments(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    try:
        if isinstance(json.loads(arguments, parse_constant=_refuse_constant), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed": arguments}, ensure_ascii=False)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def tool_to_openai(tool: ToolSpec) -> dict[str, Any]:
    """A tool in the `tools` field of a request."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


# -- from the wire ----------------------------------------------------------------------------------------------------


def tool_from_openai(tool: Mapping[str, Any]) -> ToolSpec:
    """A tool specification from the `tools` field of a request.

    Raises:
        ConfigError: it is not a function tool with a name.
    """
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ConfigError(f"{_short(tool)} is no function tool: it needs a 'function' object with a 'name'")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(function["name"], function.get("description") or "", dict(parameters))


def message_from_openai(message: Mapping[str, Any]) -> Message:
    """One message from the chat-completions shape; its text becomes one part, without chunk id and token count.

    Raises:
        ConfigError: the role is unknown.
    """
    role = message.get("role")
    if role == "developer":  # OpenAI's newer word for it
        role = "system"
    if role not in ("system", "user", "assistant", "tool"):
        raise ConfigError(f"message with role {role!r}: it must be system, developer, user, assistant or tool")
    text = _text(message.get("content"))
    calls = _calls(message.get("tool_calls"), "call") if role == "assistant" else ()
    call_id = message.get("tool_call_id") if role == "tool" else None
    return Message(cast(Role, role), (Part(text),) if text else (), calls, call_id)


def reply_from_openai(body: Any, call_prefix: str) -> Reply:
    """A chat completion's JSON as a `Reply`.

    Calls without an id, or with one that repeats in the turn, get `<call_prefix>_<place>`: results could not be matched
    otherwise. Arguments stay the raw string. A reply that was cut off or filtered before it said anything that can be
    acted on carries `malformed`, so that a half-sentence is not taken for a final answer (our choice).

    Raises:
        MalformedReply: the body is no chat completion.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        keys = sorted(map(str, body)) if isinstance(body, dict) else type(body).__name__
        raise MalformedReply(f"the body is no chat completion: no choices[0].message; it holds {keys}")
    calls = _calls(message.get("tool_calls"), call_prefix)
    finish = choice.get("finish_reason")
    finish = finish if isinstance(finish, str) else None
    malformed = None
    if not calls and finish not in _FINISHED:
        way = " (max_tokens, or the end of the context)" if finish == "length" else ""
        malformed = f"the reply was not finished: finish_reason={clean(finish or '')}{way}"
    turn = Turn(
        content=_text(message.get("content")) or _text(message.get("refusal")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        tool_calls=calls,
        malformed=malformed,
        usage=usage_from_openai(body.get("usage")),
    )
    model = body.get("model")
    return Reply(turn, finish, clean(model) if isinstance(model, str) else None)


def usage_from_openai(usage: Any) -> Usage | None:
    """Tokens as the server counted them; None where it did not. `tokens_in` includes the `tokens_cached` among them.

    `calls` and `turns` stay 0: the harness counts those.
    """
    if not isinstance(usage, dict):
        return None
    tokens_in, tokens_out = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if tokens_in is None or tokens_out is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if cached is None:
        cached = _count(usage.get("prompt_cache_hit_tokens")) or 0  # DeepSeek's name for it
    return Usage(tokens_in, tokens_out, min(cached, tokens_in))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: Any) -> str:
    """Content as text: a string, or a list of typed parts joined by newlines."""
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join([clean(text) for text in texts if isinstance(text, str)])
    return ""


def _calls(calls: Any, prefix: str) -> tuple[ToolCall, ...]:
    found: list[ToolCall] = []
    seen: set[str] = set()
    for place, call in enumerate(calls if isinstance(calls, list) else []):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            function = {"arguments": call}  # nothing we know, but the model meant a call: the harness will say so
        id_ = call.get("id") if isinstance(call, dict) else None
        id_ = clean(id_) if isinstance(id_, str) else ""
        if not id_ or id_ in seen:
            id_ = f"{prefix}_{place}"
        seen.add(id_)
        name, arguments = function.get("name"), function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        found.append(ToolCall(id_, clean(name) if isinstance(name, str) else "", clean(arguments)))
    return tuple(found)


def _short(value: Any, chars: int = 200) -> str:
    text = clean(value if isinstance(value, str) else repr(value))
    return text if len(text) <= chars else text[:chars] + "…"
