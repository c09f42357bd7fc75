"""Agents that know nothing: the floor of every environment, and a source of broken input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.agents.base import Brief
from agentgym.core.graph import View
from agentgym.core.records import ToolCall, Turn
from agentgym.core.seeding import generator
from agentgym.harness.sampling import random_turn


@dataclass(frozen=True)
class NullAgent:
    """Answers at once with nothing."""

    name: str = "null"

    def begin(self, brief: Brief) -> NullAgent:
        return self

    async def act(self, view: View) -> Turn:
        return Turn()


@dataclass(frozen=True)
class RandomAgent:
    """Plays random valid calls, from the episode's seed."""

    name: str = "random"

    def begin(self, brief: Brief) -> RandomPolicy:
        return RandomPolicy(brief)


class RandomPolicy:
    """One episode of random play."""

    def __init__(self, brief: Brief) -> None:
        self._tools = brief.tools
        self._rng = generator(brief.seed, "random-agent", brief.task.id)

    async def act(self, view: View) -> Turn:
        return random_turn(self._tools, self._rng)


@dataclass(frozen=True)
class MalformedAgent:
    """Sends broken turns of every kind: unknown tools, arguments that are no JSON, text cut inside a call."""

    name: str = "malformed"

    def begin(self, brief: Brief) -> MalformedPolicy:
        return MalformedPolicy(brief)


class MalformedPolicy:
    """One episode of broken turns."""

    def __init__(self, brief: Brief) -> None:
        self._names = [spec.name for spec in brief.tools] or ["none"]
        self._rng = generator(brief.seed, "malformed-agent", brief.task.id)

    async def act(self, view: View) -> Turn:
        name = self._names[int(self._rng.integers(len(self._names)))]
        match int(self._rng.integers(7)):
            case 0:
                return _call("no_such_tool", "{}")
            case 1:
                return _call(name, '{"query": ')
            case 2:
                return _call(name, '["a", "list"]')
            case 3:
                return _call(name, '{"surprise": null}')
            case 4:
                return Turn("<tool_call>{", malformed="tool call 0 cannot be read: input ended")
            case 5:
                return Turn(tool_calls=tuple(ToolCall(f"c{i}", name, "{}") for i in range(40)))
            case _:
                return _call(name, _noise(self._rng))


def _call(name: str, arguments: str) -> Turn:
    return Turn(tool_calls=(ToolCall("c0", name, arguments),))


def _noise(rng: np.random.Generator) -> str:
    return "".join(chr(int(code)) for code in rng.integers(1, 0xD7FF, size=20))
