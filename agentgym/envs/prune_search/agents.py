"""Scripted agents for PruneSearch, from the floor to the ceiling. None of them is a model; all are deterministic.

| agent | does | shows |
|---|---|---|
| single-search | searches once with the question | what one call is worth |
| everything | searches until the budget is gone, returns all it met | that returning all does not pay |
| greedy | follows names it reads, round by round, never prunes | what a small window costs |
| greedy-prune | the same, and prunes what looks irrelevant | what pruning is worth |
| informed | knows the facts in words but no ids | that each task can be done within its budget |
| oracle | knows the ids; reads the documents and returns them | that scoring can reach 1 |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agentgym.agents.base import Agent, Brief, Policy
from agentgym.core.errors import ConfigError
from agentgym.core.graph import View
from agentgym.core.records import Part, ToolCall, Truth, Turn
from agentgym.corpus.quotes import find_quote
from agentgym.envs.prune_search.reading import Reader, sentences
from agentgym.envs.prune_search.score import SearchTruth, document_of

Call = tuple[str, dict[str, Any]]
"""Name and arguments of a call to make."""


def turn(*calls: Call) -> Turn:
    """A turn of several calls."""
    return Turn(
        tool_calls=tuple(
            ToolCall(f"c{i}", name, msgspec.json.encode(arguments).decode())
            for i, (name, arguments) in enumerate(calls)
        )
    )


def prunes(chunks: Sequence[str]) -> list[Call]:
    """The call that prunes these chunks; none for none."""
    return [("prune_chunks", {"chunk_ids": chunks})] if chunks else []


def answer(chunks: Iterable[str]) -> Turn:
    """The final answer: these chunks, best first."""
    return Turn("\n".join(f'<Document id="{chunk}">' for chunk in chunks))


def live_parts(view: View) -> list[Part]:
    """Chunks in view, in order."""
    return [part for message in view.messages for part in message.parts if part.chunk is not None]


def refused(view: View) -> bool:
    """Whether the last result says that the budget is used up."""
    return bool(view.messages) and view.messages[-1].error == "over_budget"


@dataclass(frozen=True)
class Scripted:
    """An agent that makes a policy from a brief."""

    name: str
    make: Callable[[Brief], Policy]

    def begin(self, brief: Brief) -> Policy:
        return self.make(brief)


class SingleSearch:
    """One search with the question; returns what it showed, in order."""

    def __init__(self, brief: Brief) -> None:
        self._question = brief.task.prompt

    async def act(self, view: View) -> Turn:
        if len(view) == 2:
            return turn(("search_corpus", {"query": self._question}))
        return answer(part.chunk or "" for part in live_parts(view))


class Everything:
    """Searches for the question and each of its sentences until the budget is gone; returns all it met."""

    def __init__(self, brief: Brief) -> None:
        pieces = re.split(r"(?<=[.?!;,])\s+", brief.task.prompt)
        self._queries = [brief.task.prompt, *pieces, *brief.task.prompt.split()]

    async def act(self, view: View) -> Turn:
        if self._queries and not refused(view):
            return turn(("search_corpus", {"query": self._queries.pop(0)}))
        return answer(part.chunk or "" for part in live_parts(view))


class Greedy:
    """Searches for the question and for each of its sentences, then for the most promising name read so far, round by round.

    With `prune`, only the most relevant chunks stay in view (a quarter of the budget), so that it can go on for more
    rounds. It answers when it has no lead left, when its rounds are used up, or when the budget refuses further calls.
    """

    def __init__(self, brief: Brief, *, prune: bool, rounds: int = 30, returned: int = 20) -> None:
        self._reader = Reader(brief.task.prompt)
        self._queries = list(dict.fromkeys([brief.task.prompt, *sentences(brief.task.prompt)]))
        self._room = (brief.budget_tokens or 0) // 4 if prune else None
        self._rounds = rounds
        self._returned = returned

    async def act(self, view: View) -> Turn:
        parts = live_parts(view)
        for part in parts:
            self._reader.read(part.chunk or "", part.text)
        query = None if refused(view) or self._rounds == 0 else self._next_query()
        if query is None:
            return answer(self._reader.ranked()[: self._returned])
        self._rounds -= 1
        return turn(*prunes(self._surplus(parts)), ("search_corpus", {"query": query}))

    def _next_query(self) -> str | None:
        return self._queries.pop(0) if self._queries else self._reader.next_name()

    def _surplus(self, parts: Sequence[Part]) -> list[str]:
        """Chunks in view beyond the room that is kept for chunks, least relevant ones."""
        if self._room is None:
            return []
        rank = {chunk: i for i, chunk in enumerate(self._reader.ranked())}
        room, surplus = self._room, []
        for part in sorted(parts, key=lambda part: rank[part.chunk or ""]):
            room -= part.tokens
            if room < 0:
                surplus.append(part.chunk or "")
        return surplus


class Informed:
    """Knows each fact in words (names and quotes), no ids: searches for each, keeps what holds a quote, prunes the rest."""

    def __init__(self, truth: Truth) -> None:
        hints = truth.payload
        self._quotes: list[str] = list(hints.get("quotes", ()))
        self._queries: list[str] = list(dict.fromkeys([*self._quotes, *hints.get("entities", ())]))
        self._found: dict[str, None] = {}

    async def act(self, view: View) -> Turn:
        parts = live_parts(view)
        useless = []
        for part in parts:
            if any(find_quote(quote, part.text) for quote in self._quotes):
                self._found[part.chunk or ""] = None
            else:
                useless.append(part.chunk or "")
        missing = [query for query in self._queries if not self._met(query, parts)]
        if not missing:
            return answer(self._found)
        self._queries = missing[1:]
        return turn(*prunes(useless), ("search_corpus", {"query": missing[0]}))

    def _met(self, query: str, parts: Sequence[Part]) -> bool:
        """Whether a quote is already in view; names are always searched."""
        return query in self._quotes and any(find_quote(query, part.text) for part in parts)


class Oracle:
    """Knows the ids. Reads each relevant document until the chunk is in view, prunes what it needs not, returns them all.

    Refused for lack of room it prunes what it has noted as well, and gives a chunk up that two refusals kept out of view.
    """

    def __init__(self, truth: Truth) -> None:
        known = SearchTruth.of(truth)
        self._documents = known.level == "document"
        self._wanted = list(dict.fromkeys([*known.answer_ids, *known.relevant]))
        self._found: dict[str, str] = {}
        self._refused_for = ""

    async def act(self, view: View) -> Turn:
        live = [part.chunk or "" for part in live_parts(view)]
        for chunk in live:
            self._found.setdefault(self._unit(chunk), chunk)
        missing = [item for item in self._wanted if item not in self._found]
        if missing and refused(view):
            if live and missing[0] != self._refused_for:
                self._refused_for = missing[0]
                return turn(*prunes(live))
            self._wanted.remove(missing.pop(0))
        if not missing:
            return answer(self._found[item] for item in self._wanted)
        target = missing[0] if self._documents else document_of(missing[0])
        kept = {self._found[item] for item in self._wanted if item in self._found}
        useless = [chunk for chunk in live if chunk not in kept and document_of(chunk) != target]
        return turn(*prunes(useless), ("read_document", {"doc_id": target}))

    def _unit(self, chunk: str) -> str:
        return document_of(chunk) if self._documents else chunk


@dataclass(frozen=True)
class Knowing:
    """An agent that is given truths, explicitly; for measuring a suite, never for scoring a model."""

    name: str
    make: Callable[[Truth], Policy]
    truths: Mapping[str, Truth] = field(repr=False)

    def begin(self, brief: Brief) -> Policy:
        truth = self.truths.get(brief.task.id)
        if truth is None:
            raise ConfigError(
                f"task {brief.task.id!r} has no truth, which agent {self.name!r} plays by: take another agent"
            )
        return self.make(truth)


AGENTS: Mapping[str, Callable[[Any], Agent]] = {
    "single-search": lambda env: Scripted("single-search", SingleSearch),
    "everything": lambda env: Scripted("everything", Everything),
    "greedy": lambda env: Scripted("greedy", functools.partial(Greedy, prune=False)),
    "greedy-prune": lambda env: Scripted("greedy-prune", functools.partial(Greedy, prune=True)),
    "informed": lambda env: Knowing("informed", Informed, dict(env.truths)),
    "oracle": lambda env: Knowing("oracle", Oracle, dict(env.truths)),
}
