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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agentgym.agents.base import Agent, Brief
from agentgym.core.graph import View
from agentgym.core.records import Part, ToolCall, Truth, Turn
from agentgym.corpus.quotes import find_quote
from agentgym.envs.prune_search.reading import Reader
from agentgym.envs.prune_search.score import SearchTruth, document_of


def call(number: int, name: str, **arguments: Any) -> ToolCall:
    """A tool call with these arguments."""
    return ToolCall(f"c{number}", name, msgspec.json.encode(arguments).decode())


def turn(*calls: tuple[str, dict[str, Any]]) -> Turn:
    """A turn of several calls."""
    return Turn(tool_calls=tuple(call(i, name, **arguments) for i, (name, arguments) in enumerate(calls)))


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
    make: Callable[[Brief], Any]

    def begin(self, brief: Brief) -> Any:
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
    """Searches for the question, then for the most promising name read so far, round by round.

    With `prune`, only the most relevant chunks stay in view, so that it can go on for more rounds. It answers when it has
    no lead left, when its rounds are used up, or when the budget refuses further calls.
    """

    def __init__(self, brief: Brief, *, prune: bool, rounds: int, keep: int = 5, returned: int = 8) -> None:
        self._question = brief.task.prompt
        self._reader = Reader(brief.task.prompt)
        self._prune = prune
        self._rounds = rounds
        self._keep = keep
        self._returned = returned

    async def act(self, view: View) -> Turn:
        if self._rounds == 0 or refused(view):
            return self._answer()
        parts = live_parts(view)
        for part in parts:
            self._reader.read(part.chunk or "", part.text)
        query = self._question if len(view) == 2 else self._reader.next_query()
        if query is None:
            return self._answer()
        self._rounds -= 1
        calls: list[tuple[str, dict[str, Any]]] = []
        if self._prune and len(parts) > self._keep:
            kept = set(self._reader.ranked()[: self._keep])
            surplus = [part.chunk for part in parts if part.chunk not in kept]
            if surplus:
                calls.append(("prune_chunks", {"chunk_ids": surplus}))
        return turn(*calls, ("search_corpus", {"query": query}))

    def _answer(self) -> Turn:
        return answer(self._reader.ranked()[: self._returned])


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
                useless.append(part.chunk)
        calls: list[tuple[str, dict[str, Any]]] = [("prune_chunks", {"chunk_ids": useless})] if useless else []
        missing = [query for query in self._queries if not self._met(query, parts)]
        if not missing:
            return answer(self._found)
        self._queries = missing[1:]
        return turn(*calls, ("search_corpus", {"query": missing[0]}))

    def _met(self, query: str, parts: Sequence[Part]) -> bool:
        """Whether a quote is already in view; names are always searched."""
        return query in self._quotes and any(find_quote(query, part.text) for part in parts)


class Oracle:
    """Knows the ids. Reads each relevant document until the chunk is in view, prunes its other chunks, returns them all."""

    def __init__(self, truth: Truth) -> None:
        known = SearchTruth.of(truth)
        self._documents = known.level == "document"
        self._wanted = list(dict.fromkeys([*known.answer_ids, *known.relevant]))

    async def act(self, view: View) -> Turn:
        live = [part.chunk or "" for part in live_parts(view)]
        have = {self._unit(chunk) for chunk in live}
        missing = [item for item in self._wanted if item not in have]
        if not missing or refused(view):
            return answer(chunk for chunk in live if self._unit(chunk) in self._wanted)
        target = missing[0] if self._documents else document_of(missing[0])
        useless = [chunk for chunk in live if self._unit(chunk) not in self._wanted and document_of(chunk) != target]
        calls: list[tuple[str, dict[str, Any]]] = [("prune_chunks", {"chunk_ids": useless})] if useless else []
        return turn(*calls, ("read_document", {"doc_id": target}))

    def _unit(self, chunk: str) -> str:
        return document_of(chunk) if self._documents else chunk


@dataclass(frozen=True)
class Knowing:
    """An agent that is given truths, explicitly; for measuring a suite, never for scoring a model."""

    name: str
    make: Callable[[Truth], Any]
    truths: Mapping[str, Truth] = field(repr=False)

    def begin(self, brief: Brief) -> Any:
        return self.make(self.truths[brief.task.id])


def _greedy(brief: Brief) -> Greedy:
    return Greedy(brief, prune=False, rounds=16)


def _greedy_prune(brief: Brief) -> Greedy:
    return Greedy(brief, prune=True, rounds=16)


AGENTS: Mapping[str, Callable[[Any], Agent]] = {
    "single-search": lambda env: Scripted("single-search", SingleSearch),
    "everything": lambda env: Scripted("everything", Everything),
    "greedy": lambda env: Scripted("greedy", _greedy),
    "greedy-prune": lambda env: Scripted("greedy-prune", _greedy_prune),
    "informed": lambda env: Knowing("informed", Informed, env.truths),
    "oracle": lambda env: Knowing("oracle", Oracle, env.truths),
}
