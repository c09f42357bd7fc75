"""A third party's environment in forty lines: the example that the README shows.

The agent is asked for a value, may look keys up, and answers with text.
"""

from collections.abc import Sequence
from typing import Annotated

import agentgym as ag

PROFILE = ag.Profile(name="lookup", budget_tokens=None, max_turns=10)
TASKS = [ag.Task(f"t{i}", "lookup", f"Find the value of k{i:02d}. Tools: lookup(key).") for i in range(16)]
TRUTHS = {f"t{i}": ag.Truth(f"t{i}", "lookup", {"key": f"k{i:02d}"}) for i in range(16)}


class LookupTools(ag.Toolset):
    """A table that the agent can ask."""

    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = facts

    @ag.tool
    def lookup(self, key: Annotated[str, "Such as k07."]) -> str:
        """The value stored under a key."""
        return self.facts.get(key, "missing")


class LookupEnv(ag.ToolEnv):
    """Find a value in a table whose contents are the same in every episode."""

    name, family, tools = "Lookup-v0", "lookup", LookupTools

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(TASKS, PROFILE, truths=TRUTHS, render_mode=render_mode)
        self.facts = {f"k{i:02d}": f"v{i * 7 % 100:02d}" for i in range(16)}

    def toolset(self, task: ag.Task, seed: int) -> LookupTools:
        return LookupTools(self.facts)

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        return [ag.Message("user", (ag.Part(task.prompt),))]

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        return ag.Score(float(trajectory.answer.strip() == self.facts[truth.payload["key"]]))
