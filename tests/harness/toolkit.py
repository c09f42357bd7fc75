"""A toolset with one tool for each thing that a harness must get right, and episodes over it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from agentgym.core.errors import InfraError, ToolError
from agentgym.core.records import Message, Part, Task, ToolCall, Turn
from agentgym.harness.effects import EffectLog
from agentgym.harness.episode import Episode
from agentgym.harness.profiles import Profile
from agentgym.harness.tool import Output, Toolset, tool

TASK = Task("t", "test", "Do something.")
FREE = Profile(name="free", budget_tokens=None, max_turns=50)
SMALL = Profile(
    name="small",
    counter="words",
    budget_tokens=1000,
    soft_tokens=500,
    hard_tokens=800,
    call_tokens=200,
    call_floor_tokens=50,
    reserve_tokens=100,
    max_turns=50,
    max_calls=4,
)


def small(**changes: Any) -> Profile:
    """The small profile, changed."""
    return msgspec.structs.replace(SMALL, **changes)


class Tools(Toolset):
    """Shows chunks, prunes them, changes state, asks the world, ends, fails."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.world = 0

    @tool
    def say(self, text: str, times: Annotated[int, msgspec.Meta(ge=0)] = 1) -> str:
        """The text, repeated."""
        return " ".join([text] * times)

    @tool
    def show(self, chunks: list[str], words: int = 10) -> Output:
        """Chunks of so many words each, their id the first."""
        return Output([Part(" ".join([chunk] + ["w"] * (words - 1)), chunk, words) for chunk in chunks])

    @tool
    def prune_chunks(self, chunk_ids: list[str]) -> Output:
        """Take chunks out of view."""
        return Output((self.context.part("pruned"),), prune=tuple(chunk_ids))

    @tool
    def note(self, text: str, kind: Literal["a", "b"] = "a") -> Output:
        """Note something when the result is committed."""
        return Output((self.context.part("noted"),), commit=lambda: self.done.append(text))

    @tool
    def ask(self, question: str) -> str:
        """Something that is different each time."""
        self.world += 1
        return str(self.effects.call("recorded-only", question, lambda: f"answer {self.world}"))

    @tool
    def end(self) -> Output:
        """End the episode."""
        return Output((self.context.part("ended"),), finish=True)

    @tool
    def fail(self, how: str) -> str:
        """Fail in one of several ways."""
        raise {"tool": ToolError("no such thing", "missing"), "infra": InfraError("down"), "bug": KeyError("bug")}[how]


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a tool with these arguments."""
    return ToolCall("c0", name, json.dumps(arguments))


def calls(*made: ToolCall, content: str = "") -> Turn:
    """A turn of calls, numbered in order."""
    return Turn(content, tool_calls=tuple(msgspec.structs.replace(c, id=f"c{i}") for i, c in enumerate(made)))


def episode(
    profile: Profile = FREE, tools: Toolset | None = None, effects: EffectLog | None = None, **options: Any
) -> Episode:
    """An episode over these tools, opened by one line."""
    opening = [Message("user", (Part(TASK.prompt),))]
    return Episode(TASK, tools if tools is not None else Tools(), profile, opening, effects=effects, **options)


def results(of: Episode) -> list[str]:
    """Texts of the last turn's result messages."""
    return [message.text for message in of.last_step.messages]


def errors(of: Episode) -> list[str | None]:
    """Kinds of error of the last turn's calls."""
    return [result.error for result in of.last_step.results]


def tokens(messages: Sequence[Message]) -> int:
    """The size of messages, counted anew from their texts."""
    from agentgym.core.tokens import counter

    words = counter("words")
    texts = [part.text for message in messages for part in message.parts]
    texts += [text for message in messages for c in message.tool_calls for text in (c.name, c.arguments)]
    return sum(words.count(text) for text in texts)
