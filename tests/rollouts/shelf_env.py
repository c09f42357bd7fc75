"""A small environment whose agent brings texts into view and takes them out again."""

from __future__ import annotations

import json
from collections.abc import Sequence

import agentgym as ag
from agentgym.core.records import Part
from agentgym.harness.tool import Output

PROFILE = ag.Profile(name="shelf", budget_tokens=None, max_turns=20)


class ShelfTools(ag.Toolset):
    """Texts by letter."""

    @ag.tool
    def take(self, names: list[str]) -> Output:
        """Bring texts into view."""
        return Output([Part(f"text of {name}: {name * 8}", name) for name in names])

    @ag.tool
    def drop(self, names: list[str]) -> Output:
        """Take texts out of view."""
        return Output([Part(f"dropped {len(names)}")], prune=tuple(names))


class ShelfEnv(ag.ToolEnv):
    """Answer with anything."""

    name, family, tools = "Shelf-v0", "shelf", ShelfTools

    def __init__(self, profile: ag.Profile = PROFILE) -> None:
        task = ag.Task("shelf", "shelf", "Say something of a.")
        super().__init__([task], profile, truths={"shelf": ag.Truth("shelf", "shelf")})

    def toolset(self, task: ag.Task, seed: int) -> ShelfTools:
        return ShelfTools()

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        return [ag.Message("system", (Part("You keep a shelf."),)), ag.Message("user", (Part(task.prompt),))]

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        return ag.Score(float("a" in trajectory.answer))


def take(*names: str) -> ag.Turn:
    return ag.Turn(tool_calls=(ag.ToolCall("c0", "take", json.dumps({"names": names})),))


def drop(*names: str) -> ag.Turn:
    return ag.Turn(tool_calls=(ag.ToolCall("c0", "drop", json.dumps({"names": names})),))
