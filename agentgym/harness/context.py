"""The context window: what the agent sees, what it costs, and how parts of it are taken out.

The window grows by messages. A pruned chunk leaves a one-line tombstone where it stood; the graph branches at the first
changed message and keeps the full record. Costs are the cached counts of parts, so a step costs nothing for old text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agentgym.core.graph import Node, View, message_tokens
from agentgym.core.records import Message, Part, ToolCall
from agentgym.core.tokens import Counter


class ContextWindow:
    """An episode's live conversation.

    `opening` is what it began with, `leaf` its last message's node, `used` its size in tokens, `seen` the chunk ids ever
    shown (in order), `live` those in view with their size. `view` shows it as of the last `extend`; its `kept` counts the
    leading messages unchanged since the view before. `counter=None` counts nothing: for environments without a budget.
    """

    __slots__ = ("_kept", "_length", "counter", "leaf", "live", "opening", "seen", "used", "view")

    def __init__(self, opening: Sequence[Message], counter: Counter | None) -> None:
        self.counter = counter
        self.leaf: Node | None = None
        self.used = 0
        self.seen: dict[str, None] = {}
        self.live: dict[str, int] = {}
        self._kept = self._length = 0
        if counter is not None:
            opening = [_counted(message, counter) for message in opening]
        self.opening = tuple(opening)
        for message in self.opening:
            self.show(message.parts)
        self.extend(self.opening, 0 if counter is None else sum(map(message_tokens, self.opening)))

    def count(self, text: str) -> int:
        """Tokens of a text, 0 without a counter."""
        return self.counter.count(text) if self.counter is not None and text else 0

    def part(self, text: str) -> Part:
        """A part with its count."""
        return Part(text, None, self.counter.count(text) if self.counter is not None else 0)

    def show(self, parts: Iterable[Part]) -> None:
        """Note the chunks that these parts bring into view."""
        for part in parts:
            if part.chunk is not None:
                self.seen[part.chunk] = None
                self.live[part.chunk] = self.live.get(part.chunk, 0) + part.tokens

    def extend(self, messages: Sequence[Message], tokens: int) -> View:
        """Add messages, `tokens` long together; returns the view that they make."""
        leaf = self.leaf
        for message in messages:
            leaf = Node(leaf, message)
        self.leaf = leaf
        self.view = view = View(leaf, self._kept)
        self._kept = self._length = self._length + len(messages)
        self.used += tokens
        return view

    def prune(self, chunks: Sequence[str]) -> tuple[str, ...]:
        """Replace live chunks by tombstones; returns those that were live, in the order asked."""
        gone = tuple(dict.fromkeys([chunk for chunk in chunks if chunk in self.live]))
        if not gone or self.leaf is None:
            return ()
        doomed = set(gone)
        path = list(self.leaf.path())
        path.reverse()
        first = next(place for place, node in enumerate(path) if _shows(node.message, doomed))
        leaf = path[first].parent
        for node in path[first:]:
            message = node.message
            if _shows(message, doomed):
                parts = tuple([self.part(f"[{p.chunk} pruned]") if p.chunk in doomed else p for p in message.parts])
                message = msgspec.structs.replace(message, parts=parts)
            leaf = Node(leaf, message)
            if self.counter is not None and message is not node.message:
                self.used += message_tokens(message) - message_tokens(node.message)
        for chunk in gone:
            del self.live[chunk]
        self.leaf = leaf
        self._kept = min(self._kept, first)
        return gone


def _shows(message: Message, chunks: set[str]) -> bool:
    return any(part.chunk in chunks for part in message.parts)


def _counted(message: Message, counter: Counter) -> Message:
    """The message with every count made here, whatever its sender claimed."""
    parts = tuple([Part(part.text, part.chunk, counter.count(part.text)) for part in message.parts])
    calls = tuple([counted_call(call, counter) for call in message.tool_calls])
    return msgspec.structs.replace(message, parts=parts, tool_calls=calls)


def counted_call(call: ToolCall, counter: Counter) -> ToolCall:
    """The call with its count made here."""
    return ToolCall(call.id, call.name, call.arguments, counter.count(call.name) + counter.count(call.arguments))
