"""The contract of an agent: it is told of a task once, and then turns views into turns."""

from __future__ import annotations

from typing import Protocol

from agentgym.core.graph import View
from agentgym.core.records import Record, Task, ToolSpec, Turn


class Brief(Record, frozen=True):
    """What an agent is told at the start of an episode. Holds no truth."""

    task: Task
    tools: tuple[ToolSpec, ...]
    seed: int
    budget_tokens: int | None
    max_turns: int


class Policy(Protocol):
    """An agent during one episode; may keep state."""

    async def act(self, view: View) -> Turn:
        """The next turn. An exception ends the episode as `agent_error` (`InfraError`: as `infra_error`)."""


class Agent(Protocol):
    """A maker of policies. Immutable and picklable, so that worker processes can be handed a copy."""

    @property
    def name(self) -> str:
        """How results call it."""

    def begin(self, brief: Brief) -> Policy:
        """A policy for one episode."""
