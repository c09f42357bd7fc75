"""The message graph: an episode's conversation as an immutable linked structure, hashed node by node.

A conversation that prunes, summarises or forks is not a list but a tree: two views share their unchanged beginning. A
`Node` is a message and its parent; its id, `sha256(parent id ‖ canonical message)`, names the whole conversation up to
it. Ids are computed when first asked for, each once, so a step costs nothing for history it did not touch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from agentgym.core.hashing import canonical
from agentgym.core.records import Message


class Node(msgspec.Struct, eq=False):
    """A message and what came before it. Immutable but for the id, which is kept once it was asked for."""

    parent: Node | None
    message: Message
    _id: bytes | None = None

    @property
    def depth(self) -> int:
        """Messages from the root to here, counted from 1."""
        return sum(1 for _ in self.path())

    @property
    def id(self) -> str:
        """Hex SHA-256 of this message chained to all before it."""
        if self._id is None:
            pending: list[Node] = []
            node: Node | None = self
            while node is not None and node._id is None:
                pending.append(node)
                node = node.parent
            previous = b"" if node is None else node._id or b""
            for item in reversed(pending):
                previous = hashlib.sha256(previous + canonical(item.message)).digest()
                item._id = previous
        return (self._id or b"").hex()

    def path(self) -> Iterator[Node]:
        """This node and its ancestors, leaf first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


def grow(parent: Node | None, messages: Iterable[Message]) -> Node | None:
    """Append messages one by one; returns the new leaf."""
    for message in messages:
        parent = Node(parent, message)
    return parent


def message_tokens(message: Message) -> int:
    """Cached token counts of a message's parts and calls, added up."""
    tokens = 0
    for part in message.parts:
        tokens += part.tokens
    for call in message.tool_calls:
        tokens += call.tokens
    return tokens


class View(msgspec.Struct, eq=False, gc=False):
    """What an agent sees: the messages from the opening to `leaf`.

    `kept` is the number of leading messages unchanged since the previous view (0 for the first): a prefix cache or a
    token-exact trainer continues from there. Immutable, so copies are the object itself; `messages` is built at first
    use and then kept.
    """

    leaf: Node | None
    kept: int = 0
    _messages: tuple[Message, ...] | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, opening first."""
        if self._messages is None:
            path = [] if self.leaf is None else [node.message for node in self.leaf.path()]
            path.reverse()
            self._messages = tuple(path)
        return self._messages

    @property
    def id(self) -> str:
        """Id of the leaf: equal ids mean equal conversations. Empty for an empty view."""
        return self.leaf.id if self.leaf is not None else ""

    @property
    def tokens(self) -> int:
        """Sum of the cached token counts of all parts and calls."""
        return sum(message_tokens(message) for message in self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self.kept == other.kept and (self.leaf is other.leaf or self.id == other.id)

    def __hash__(self) -> int:
        return hash((self.id, self.kept))

    def __copy__(self) -> View:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> View:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # flat: a chain of nodes would overflow the pickler's stack
        return _view_from_messages, (self.messages, self.kept)

    def __repr__(self) -> str:
        return f"View({len(self)} messages, kept={self.kept}, id={self.id[:12]})"


def _view_from_messages(messages: tuple[Message, ...], kept: int) -> View:
    return View(grow(None, messages), kept)
