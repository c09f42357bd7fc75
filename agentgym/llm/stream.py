"""A streamed reply put together again: server-sent events in, the body of an unstreamed reply out.

Lines are split on bytes, at `\n` alone: `str.splitlines` also cuts at U+2028 and other characters that JSON strings may
hold as they are.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agentgym.llm.wire import MalformedReply


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each server-sent event, in order; comments and other fields are skipped."""
    buffer = b""
    data: list[str] = []
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data = []
    if buffer.startswith(b"data:"):
        data.append(buffer[5:].decode("utf-8", "replace").strip())
    if data:
        yield "\n".join(data)


class Assembler:
    """Adds up the deltas of a stream. `error` is the server's error object, where it sent one instead of going on."""

    def __init__(self) -> None:
        self.error: Any = None
        self._done = False
        self._finish: str | None = None
        self._model: Any = None
        self._usage: Any = None
        self._texts: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._place: dict[int, int] = {}  # delta index → place in _calls

    def feed(self, data: str) -> bool:
        """Take one event's data; False when the stream has said that it is over.

        Raises:
            MalformedReply: the event is not JSON.
        """
        if data.strip() == "[DONE]":
            self._done = True
            return False
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise MalformedReply("a stream event is no JSON") from error
        if not isinstance(chunk, dict):
            raise MalformedReply("a stream event is no JSON object")
        if chunk.get("error"):
            self.error = chunk["error"]
            return False
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._finish = choices[0].get("finish_reason") or self._finish
            delta = choices[0].get("delta")
            if isinstance(delta, dict):
                self._add(delta)
        return True

    def _add(self, delta: dict[str, Any]) -> None:
        for field in ("content", "reasoning_content", "reasoning", "refusal"):
            if isinstance(delta.get(field), str):
                self._texts.setdefault(field, []).append(delta[field])
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._add_call(call)

    def _add_call(self, delta: dict[str, Any]) -> None:
        """Deltas of one call share an index. Some servers leave it out or repeat 0 for parallel calls: a new id is then
        a new call."""
        index, id_ = delta.get("index"), delta.get("id")
        place = self._place.get(index) if isinstance(index, int) else len(self._calls) - 1
        fresh = place is None or place < 0 or bool(id_ and self._calls[place]["id"] not in (None, id_))
        if fresh:
            place = len(self._calls)
            self._calls.append({"id": None, "name": [], "arguments": []})
            if isinstance(index, int):
                self._place[index] = place
        call = self._calls[place or 0]
        call["id"] = call["id"] or id_
        function = delta.get("function")
        if isinstance(function, dict):
            for field in ("name", "arguments"):
                value = function.get(field)
                if value is not None:
                    call[field].append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def body(self) -> dict[str, Any]:
        """The reply as an unstreamed one would have been.

        Raises:
            MalformedReply: the stream broke off before the model had finished.
        """
        if self._finish is None and not self._done:
            raise MalformedReply("the stream broke off before the reply was finished")
        if not self._texts and not self._calls and self._finish is None:
            raise MalformedReply("the stream held no reply")
        message: dict[str, Any] = {field: "".join(pieces) for field, pieces in self._texts.items()}
        message["tool_calls"] = [
            {"id": call["id"], "function": {"name": "".join(call["name"]), "arguments": "".join(call["arguments"])}}
            for call in self._calls
        ]
        choice = {"message": message, "finish_reason": self._finish}
        return {"choices": [choice], "usage": self._usage, "model": self._model}
