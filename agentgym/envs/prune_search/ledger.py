"""What a view tells of the episode: what is in view and since when, what was met, what was asked and what it brought.

Everything comes from the messages alone, so the same bookkeeping serves inside the environment and in an agent that is
handed views. Messages are immutable and views share them, so an update looks only at messages that changed.
"""

from __future__ import annotations

from typing import NamedTuple

from agentgym.core.graph import View, message_tokens
from agentgym.core.records import Message

Ask = tuple[str, str]
"""A call as it was made: tool name and raw arguments."""


class Sighting(NamedTuple):
    """A chunk as a result showed it: its text and size, the turn (from 1), and its place in that result (from 0)."""

    chunk: str
    text: str
    tokens: int
    turn: int
    place: int


class Ledger:
    """Bookkeeping of one episode.

    `live` are chunks in view, in view order; `new` what the messages new to this update show, `changed` says whether
    anything older changed (a prune). `fresh` are the chunks that the last turn showed. `asked` counts calls by name and
    arguments, `brought` says how many chunks each brought the last time; `last` are the last turn's calls. `searches` counts
    search and grep calls, `prune_run` prune calls since the last other call that gave a result (as the reward counts
    them), `failed` says whether the last turn had an error.
    """

    def __init__(self) -> None:
        self.used = self.turns = self.searches = self.prune_run = 0
        self.failed = False
        self.changed = False
        self.live: dict[str, Sighting] = {}
        self.new: list[Sighting] = []
        self.fresh: tuple[str, ...] = ()
        self.asked: dict[Ask, int] = {}
        self.brought: dict[Ask, int] = {}
        self.last: tuple[Ask, ...] = ()
        self._messages: tuple[Message, ...] = ()
        self._tokens: list[int] = []
        self._shown: list[tuple[Sighting, ...]] = []

    def update(self, view: View) -> None:
        """Take note of the next view of the episode."""
        messages, known = view.messages, self._messages
        self.changed = False
        turns = 0
        for place, (old, message) in enumerate(zip(known, messages, strict=False)):
            turns += message.role == "assistant"
            if old is not message:
                self.changed = True
                self._tokens[place] = message_tokens(message)
                self._shown[place] = _sightings(message, turns)
        fresh = messages[len(known) :]
        for message in fresh:
            turns += message.role == "assistant"
            self._tokens.append(message_tokens(message))
            self._shown.append(_sightings(message, turns))
        self._messages, self.turns, self.used = messages, turns, sum(self._tokens)
        self.new = [sighting for shown in self._shown[len(known) :] for sighting in shown]
        if self.changed:
            self.live = {sighting.chunk: sighting for shown in self._shown for sighting in shown}
        else:
            self.live.update({sighting.chunk: sighting for sighting in self.new})
        self._count(fresh)

    def _count(self, messages: tuple[Message, ...]) -> None:
        """Calls and results among new messages."""
        pending: dict[str, Ask] = {}
        for message in messages:
            if message.role == "assistant":
                pending = {call.id: (call.name, call.arguments) for call in message.tool_calls}
                self.last, self.fresh, self.failed = tuple(pending.values()), (), False
                for ask in self.last:
                    self.asked[ask] = self.asked.get(ask, 0) + 1
                    self.searches += ask[0] in ("search_corpus", "grep_corpus")
                continue
            self.failed = self.failed or message.error is not None
            if message.role != "tool" or message.call_id not in pending:
                continue
            ask = pending[message.call_id]
            chunks = tuple([part.chunk for part in message.parts if part.chunk is not None])
            self.fresh += chunks
            if message.error is None:
                self.brought[ask] = len(chunks)
            if ask[0] == "prune_chunks":
                self.prune_run += 1
            elif message.error is None:
                self.prune_run = 0


def _sightings(message: Message, turn: int) -> tuple[Sighting, ...]:
    if message.role != "tool":
        return ()
    return tuple(
        [
            Sighting(part.chunk, part.text, part.tokens, turn, place)
            for place, part in enumerate(message.parts)
            if part.chunk is not None
        ]
    )
