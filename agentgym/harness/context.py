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

    `used` is its size in tokens, `seen` the chunk ids ever shown (in order), `live` those in view with their size.
    `counter=None` counts nothing: for environments without a budget.
    """

    def __init__(self, opening: Iterable[Message], counter: Counter | None) -> None:
        self.counter = counter
        self.used = 0
        self.seen: dict[str, None] = {}
        self.live: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._where: dict[str, list[int]] = {}
        self._kept = 0
        for message in opening:
            self.append(self.counted(message))

    def count(self, text: str) -> int:
        """Tokens of a text, 0 without a counter."""
        return self.counter.count(text) if self.counter is not None and text else 0

    def part(self, text: str) -> Part:
        """A part with its count."""
        return Part(text, None, self.count(text))

    def call(self, call: ToolCall) -> ToolCall:
        """A call with its count; whatever count the sender claimed is replaced."""
        if self.counter is None:
            return call
        return ToolCall(call.id, call.name, call.arguments, self.count(call.name) + self.count(call.arguments))

    def counted(self, message: Message) -> Message:
        """The message with every count made here."""
        parts = tuple(Part(p.text, p.chunk, self.count(p.text)) for p in message.parts)
        return msgspec.structs.replace(message, parts=parts, tool_calls=tuple(self.call(c) for c in message.tool_calls))

    @property
    def leaf(self) -> Node | None:
        """The last message's node."""
        return self._nodes[-1] if self._nodes else None

    def append(self, message: Message) -> None:
        """Add a message whose counts are set."""
        nodes = self._nodes
        for part in message.parts:
            if part.chunk is not None:
                self.seen[part.chunk] = None
                self.live[part.chunk] = self.live.get(part.chunk, 0) + part.tokens
                self._where.setdefault(part.chunk, []).append(len(nodes))
        if self.counter is not None:
            self.used += message_tokens(message)
        nodes.append(Node(nodes[-1] if nodes else None, message))

    def prune(self, chunks: Sequence[str]) -> tuple[str, ...]:
        """Replace live chunks by tombstones; returns those that were live, in the order asked."""
        gone = tuple(dict.fromkeys(chunk for chunk in chunks if chunk in self.live))
        if not gone:
            return ()
        doomed = set(gone)
        touched = {place for chunk in gone for place in self._where.pop(chunk)}
        first = min(touched)
        for chunk in gone:
            del self.live[chunk]
        rest = [node.message for node in self._nodes[first:]]
        del self._nodes[first:]
        for place, message in enumerate(rest, first):
            if place in touched:
                parts = tuple(self.part(f"[{p.chunk} pruned]") if p.chunk in doomed else p for p in message.parts)
                changed = msgspec.structs.replace(message, parts=parts)
                self.used += message_tokens(changed) - message_tokens(message)
                message = changed
            self._nodes.append(Node(self._nodes[-1] if self._nodes else None, message))
        self._kept = min(self._kept, first)
        return gone

    def view(self) -> View:
        """The conversation now; `kept` counts the leading messages unchanged since the last call."""
        view = View(self.leaf, self._kept)
        self._kept = len(self._nodes)
        return view
