"""What a turn is about to add to the context: its result messages, made in call order within the tokens left.

Messages are collected here and appended together when the turn closes, because the usage line belongs to the last one,
and because a prune takes out what stood in view at the start of the turn, never what the turn itself brings.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentgym.core.errors import ToolError
from agentgym.core.graph import message_tokens
from agentgym.core.records import CallResult, Message, Part, ToolCall
from agentgym.harness.budget import call_cap, fit, free_tokens
from agentgym.harness.calls import Result
from agentgym.harness.context import ContextWindow, counted_call
from agentgym.harness.profiles import Profile

_QUOTED_CHARS = 400  # of an error: an agent must not be able to flood its own window with what it sent


class Draft(msgspec.Struct, eq=False, gc=False):
    """What a turn adds.

    `messages` begins with the agent's own, which is `written` tokens long; `tokens` is the size of all, `cap` what one
    call may bring; `finish` says that the episode ends with this turn.
    """

    context: ContextWindow
    profile: Profile
    messages: list[Message]
    written: int = 0
    tokens: int = 0
    cap: int = 0
    results: tuple[CallResult, ...] = ()
    shown: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    finish: bool = False

    def settle(self, call: ToolCall, result: Result) -> None:
        """Turn what a call came to into its message."""
        name, error, tokens = call.name, None, 0
        try:
            parts = self._accepted(result)
            tokens = sum([part.tokens for part in parts])
        except ToolError as refused:
            part = self.context.part(f"error: {_short(str(refused))}")
            name, error, tokens, parts = name[:80], refused.kind, part.tokens, (part,)
        self.tokens += tokens
        self.messages.append(Message("tool", parts, (), call.id, error))
        self.results += (CallResult(name, error, tokens),)

    def object(self, kind: str, text: str) -> None:
        """Add a message of the harness's own about something that could not be run."""
        part = self.context.part(f"error: {_short(text)}")
        self.tokens += part.tokens
        self.messages.append(Message("user", (part,), (), None, kind))
        self.results += (CallResult("", kind),)

    def add_line(self, text: str) -> None:
        """Append a line to the last message."""
        last, part = self.messages[-1], self.context.part(text)
        self.tokens += part.tokens
        self.messages[-1] = Message(last.role, (*last.parts, part), last.tool_calls, last.call_id, last.error)

    def _accepted(self, result: Result) -> tuple[Part, ...]:
        """What of a result is shown; its effects on the state are done. Raises ToolError for a refused one."""
        if isinstance(result, str):
            return self._fitted((self.context.part(result),))
        if isinstance(result, ToolError):
            raise result
        if result.prune:
            self.pruned += self.context.prune(result.prune)
            free = free_tokens(self.profile, self.context.used + self.tokens)
            self.cap = max(self.cap, call_cap(self.profile, free))  # what a prune frees is there for what follows
        parts = tuple(result.parts)
        if self.shown:
            shown = set(self.shown)
            parts = tuple([part for part in parts if part.chunk not in shown])
            if result.parts and not parts:
                parts = (self.context.part("nothing new: an earlier call of this turn shows the same"),)
        parts = self._fitted(parts)
        self.shown += tuple([part.chunk for part in parts if part.chunk is not None])
        if result.commit is not None:
            result.commit()
        self.finish = self.finish or result.finish
        return parts

    def _fitted(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts cut to the cap of a call and to what is left."""
        context, profile = self.context, self.profile
        if context.counter is None:
            return parts
        left = free_tokens(profile, context.used + self.tokens)
        needed = sum([part.tokens for part in parts])
        if needed <= self.cap and needed <= left:
            return parts
        kept = fit(parts, min(self.cap, left), context.counter) if profile.oversize == "truncate" else []
        if not kept:
            raise ToolError(f"needs {needed:,} tokens, {left:,} left: prune or conclude", "over_budget")
        return tuple(kept)


def draft_of(
    context: ContextWindow, profile: Profile, content: str, calls: tuple[ToolCall, ...], results: Sequence[Result]
) -> Draft:
    """What the agent said and what its calls came to; whatever counts it claims for its calls are replaced."""
    counter = context.counter
    if counter is None:
        draft = Draft(context, profile, [Message("assistant", (Part(content),) if content else (), calls)])
    else:
        calls = tuple([counted_call(call, counter) for call in calls])
        said = Message("assistant", (Part(content, None, counter.count(content)),) if content else (), calls)
        tokens = message_tokens(said)
        cap = call_cap(profile, free_tokens(profile, context.used + tokens))
        draft = Draft(context, profile, [said], tokens, tokens, cap)
    for place, result in enumerate(results):
        draft.settle(calls[place], result)
    return draft


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
