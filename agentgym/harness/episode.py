"""One episode: an agent's turns go in, views come out. Knows tools and limits; knows nothing of Gymnasium.

The same object runs inside `gym.Env.step`, under the asynchronous runner and in deployment. Calls of one turn see the
state at its start, share the tokens that are left, and are committed in call order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec

from agentgym.core.errors import EpisodeOver, ToolError
from agentgym.core.graph import Node, View, message_tokens
from agentgym.core.records import (
    CallResult,
    Message,
    Part,
    Step,
    StopReason,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Usage,
)
from agentgym.core.tokens import counter
from agentgym.harness.budget import call_cap, fit
from agentgym.harness.context import ContextWindow
from agentgym.harness.effects import EffectLog
from agentgym.harness.profiles import Profile
from agentgym.harness.text import sane
from agentgym.harness.tool import Output, Tool, Toolset

SOFT_MESSAGE = "[More than half of the token budget is used: prune what you do not need, or conclude with your answer.]"
HARD_MESSAGE = "token budget nearly used up: only prune_chunks is possible now; prune, or conclude with your answer"


class Episode:
    """An agent's life with one task.

    Args:
        task: what is asked; holds no truth.
        toolset: this episode's tools and their state.
        profile: limits.
        opening: messages before the first turn.
        seed: the episode's seed, for the record.
        offered: names of the tools offered; all by default.
        effects: where effects are recorded, or replayed from.
        always_allowed: tools that still work past the hard line (those that free budget).
        finish_on_text: a turn without calls is the final answer; otherwise the agent is asked to call a tool.

    `view` is what the agent sees, `stop` why the episode ended (None while it runs).
    """

    def __init__(
        self,
        task: Task,
        toolset: Toolset,
        profile: Profile,
        opening: Sequence[Message],
        *,
        seed: int = 0,
        offered: Sequence[str] | None = None,
        effects: EffectLog | None = None,
        always_allowed: Sequence[str] = ("prune_chunks",),
        finish_on_text: bool = True,
    ) -> None:
        self.task = task
        self.toolset = toolset
        self.profile = profile
        self.seed = seed
        self.stop: StopReason | None = None
        self._tokens_in = self._tokens_out = self._calls = 0
        self._tools = toolset.tools
        self._offered = offered
        self._always = always_allowed
        self._finish_on_text = finish_on_text
        self._counter = counter(profile.counter) if profile.budget_tokens is not None else None
        self.context = ContextWindow(opening, self._counter)
        self.effects = effects if effects is not None else EffectLog()
        toolset.context, toolset.effects = self.context, self.effects
        self._opening_leaf = self.context.leaf
        self._opening = tuple(self.context.view().messages)
        self._steps: list[Step] = []
        self._leaves: list[Node | None] = []
        self._over_soft = False
        self.view = View(self.context.leaf)

    @property
    def turns(self) -> int:
        """Turns taken so far."""
        return len(self._steps)

    @property
    def last_messages(self) -> tuple[Message, ...]:
        """Result messages of the last turn."""
        return self._steps[-1].messages if self._steps else ()

    @property
    def free_tokens(self) -> int:
        """Tokens that tool results may still use, the reserve for the next answer taken off."""
        budget = self.profile.budget_tokens
        return 0 if budget is None else max(0, budget - self.context.used - self.profile.reserve_tokens)

    async def step(self, turn: Turn) -> View:
        """Take one turn. Whatever the agent sends becomes a result or the answer; only a step after the end raises.

        Raises:
            EpisodeOver: the episode has ended.
        """
        if self.stop is not None:
            raise EpisodeOver(f"the episode of task {self.task.id!r} ended ({self.stop}): call reset")
        turn = sane(turn)
        context, profile = self.context, self.profile
        self.effects.begin()
        over_hard = profile.hard_tokens is not None and context.used > profile.hard_tokens
        self._tokens_in += context.used
        calls = turn.tool_calls[: profile.max_calls]
        if self._counter is not None:
            calls = tuple([context.call(call) for call in calls])
        before = context.used
        context.append(Message("assistant", (context.part(turn.content),) if turn.content else (), calls))
        self._tokens_out += context.used - before
        draft = _Draft()
        if calls:
            self._commit(calls, await self._run(calls, over_hard), draft)
        self._complain(turn, draft)
        self._close(turn, draft)
        return self.view

    def suspends(self, turn: Turn) -> bool:
        """Whether this turn needs an event loop: it calls a tool that is asynchronous or blocking."""
        tools = self._tools
        for call in turn.tool_calls:
            tool = tools.get(call.name)
            if tool is not None and (tool.is_async or tool.blocking):
                return True
        return False

    def cancel(self) -> None:
        """End the episode from outside; nothing more can be done in it."""
        if self.stop is None:
            self.stop = StopReason.CANCELLED

    # -- running calls ------------------------------------------------------------------------------------------------

    async def _run(self, calls: Sequence[ToolCall], over_hard: bool) -> list[Output | ToolError]:
        """Run the calls of a turn: plain ones in order, asynchronous and blocking ones at the same time."""
        outputs: list[Output | ToolError | None] = []
        waiting: list[tuple[int, Awaitable[Any]]] = []
        for place, call in enumerate(calls):
            try:
                tool, arguments = self._prepare(call, over_hard)
                if tool.blocking and len(calls) > 1:
                    waiting.append((place, asyncio.to_thread(tool.function, self.toolset, *arguments)))
                    outputs.append(None)
                    continue
                result = tool.function(self.toolset, *arguments)
                if tool.is_async:
                    waiting.append((place, result))
                    outputs.append(None)
                    continue
                outputs.append(self._output(result))
            except ToolError as error:
                outputs.append(error)
        if len(waiting) == 1:
            place, pending = waiting[0]
            outputs[place] = await self._settle(pending)
        elif waiting:
            settled = await asyncio.gather(*(self._settle(pending) for _, pending in waiting))
            for (place, _), output in zip(waiting, settled, strict=True):
                outputs[place] = output
        return [output for output in outputs if output is not None]

    def _prepare(self, call: ToolCall, over_hard: bool) -> tuple[Tool, tuple[Any, ...]]:
        tool = self._tools.get(call.name)
        if tool is None or (self._offered is not None and call.name not in self._offered):
            names = ", ".join(name for name in self._tools if self._offered is None or name in self._offered)
            raise ToolError(f"there is no tool {call.name[:80]!r}; tools: {names}", "unknown_tool")
        if over_hard and call.name not in self._always:
            raise ToolError(HARD_MESSAGE, "over_budget")
        return tool, tool.parse(call.arguments)

    async def _settle(self, pending: Awaitable[Any]) -> Output | ToolError:
        try:
            return self._output(await pending)
        except ToolError as error:
            return error

    def _output(self, result: Any) -> Output:
        if isinstance(result, Output):
            return result
        return Output((self.context.part(result),))

    # -- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, calls: Sequence[ToolCall], outputs: Sequence[Output | ToolError], draft: _Draft) -> None:
        """Turn outputs into result messages, in call order, within the tokens left."""
        context = self.context
        cap = call_cap(self.profile, self.free_tokens) if self._counter is not None else 0
        for call, output in zip(calls, outputs, strict=True):
            error: str | None = None
            try:
                if isinstance(output, ToolError):
                    raise output
                if output.prune:
                    draft.pruned += context.prune(output.prune)
                parts = self._room(output.parts, cap, draft) if self._counter is not None else output.parts
                if output.commit is not None:
                    output.commit()
                draft.finish = draft.finish or output.finish
            except ToolError as refused:
                error, parts = refused.kind, (context.part(f"error: {_short(str(refused))}"),)
            tokens = 0
            for part in parts:
                tokens += part.tokens
                if part.chunk is not None:
                    draft.shown.append(part.chunk)
            draft.hold(context, Message("tool", tuple(parts), (), call.id, error))
            draft.results.append(CallResult(call.name[:80], error, tokens))

    def _room(self, parts: Sequence[Part], cap: int, draft: _Draft) -> Sequence[Part]:
        """The parts that may be shown: no chunk twice in a turn, no more tokens than are left."""
        counter_ = self._counter
        assert counter_ is not None
        if draft.shown:
            parts = [part for part in parts if part.chunk is None or part.chunk not in draft.shown]
        left = max(0, self.free_tokens - draft.held_tokens)
        needed = sum([part.tokens for part in parts])
        if needed <= cap and needed <= left:
            return parts
        kept = fit(parts, min(cap, left), counter_) if self.profile.oversize == "truncate" else []
        if not kept:
            raise ToolError(f"needs {needed:,} tokens, {left:,} left: prune or conclude", "over_budget")
        return kept

    def _complain(self, turn: Turn, draft: _Draft) -> None:
        """Say what of the turn could not be run: surplus calls, text that was meant as a call, no call where one is needed."""
        surplus = len(turn.tool_calls) - self.profile.max_calls
        if surplus > 0:
            self._object(
                draft, "too_many_calls", f"{surplus:,} further calls refused: at most {self.profile.max_calls} a turn"
            )
        if turn.malformed is not None:
            self._object(draft, "malformed", _short(turn.malformed))
        elif not turn.tool_calls and not self._finish_on_text:
            self._object(draft, "no_call", f"call a tool; tools: {', '.join(self._offered or self._tools)}")

    def _object(self, draft: _Draft, kind: str, text: str) -> None:
        draft.hold(self.context, Message("user", (self.context.part(f"error: {text}"),), (), None, kind))
        draft.results.append(CallResult("", kind))

    def _close(self, turn: Turn, draft: _Draft) -> None:
        """Decide whether the episode ends, add the usage line, record the turn and make the next view."""
        context, profile = self.context, self.profile
        answered = not turn.tool_calls and turn.malformed is None and self._finish_on_text
        budget = profile.budget_tokens
        if budget is not None and context.used + draft.held_tokens > budget:
            self.stop = StopReason.CONTEXT_EXHAUSTED
        elif answered or draft.finish:
            self.stop = StopReason.ANSWER
        elif len(self._steps) + 1 >= profile.max_turns:
            self.stop = StopReason.TURN_LIMIT
        draft.release(context, () if self.stop is not None or budget is None else self._usage_line(budget, draft))
        self._calls += min(len(turn.tool_calls), profile.max_calls)
        self._steps.append(
            Step(
                turn,
                tuple(draft.results),
                tuple(draft.shown),
                tuple(draft.pruned),
                tuple(draft.messages),
                self.effects.take(),
                context.used,
            )
        )
        self._leaves.append(context.leaf)
        self.view = context.view()

    def _usage_line(self, budget: int, draft: _Draft) -> tuple[Part, ...]:
        context, profile = self.context, self.profile
        if not profile.usage_line:
            return ()
        used = context.used + draft.held_tokens
        line = context.part(f"[Token usage: {used:,}/{budget:,}]")
        over = profile.soft_tokens is not None and used > profile.soft_tokens
        crossed, self._over_soft = over and not self._over_soft, over
        return (line, context.part(SOFT_MESSAGE)) if crossed else (line,)

    # -- record -------------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        """Sums so far. Tokens by the pinned counter: context read by each turn, and what the agent wrote."""
        return Usage(self._tokens_in, self._tokens_out, 0, self._calls, len(self._steps))

    def trajectory(self, *, env: str = "", fingerprint: str = "", sealed: bool = True) -> Trajectory:
        """The record so far. `sealed=False` leaves leaf ids out, which scoring does not need."""
        steps = self._steps
        if sealed:
            steps = [
                msgspec.structs.replace(step, leaf=leaf.id if leaf is not None else "")
                for step, leaf in zip(steps, self._leaves, strict=True)
            ]
        return Trajectory(
            env=env,
            fingerprint=fingerprint,
            task=self.task.id,
            task_hash=self.task.digest() if sealed else "",
            seed=self.seed,
            opening=self._opening,
            steps=tuple(steps),
            stop=self.stop,
            usage=self.usage,
            opening_leaf=self._opening_leaf.id if sealed and self._opening_leaf is not None else "",
        )


class _Draft:
    """What a turn adds, until it is closed. The last message is held back, because the usage line belongs to it."""

    __slots__ = ("_held", "finish", "held_tokens", "messages", "pruned", "results", "shown")

    def __init__(self) -> None:
        self.results: list[CallResult] = []
        self.shown: list[str] = []
        self.pruned: tuple[str, ...] = ()
        self.messages: list[Message] = []
        self.finish = False
        self.held_tokens = 0
        self._held: Message | None = None

    def hold(self, context: ContextWindow, message: Message) -> None:
        """Add the message held so far and hold this one."""
        self.release(context, ())
        self._held = message
        self.held_tokens = message_tokens(message) if context.counter is not None else 0

    def release(self, context: ContextWindow, tail: tuple[Part, ...]) -> None:
        """Add the held message, with `tail` at its end."""
        if self._held is None:
            return
        message = self._held
        if tail:
            message = Message(message.role, message.parts + tail, message.tool_calls, message.call_id, message.error)
        self.messages.append(message)
        context.append(message)
        self._held, self.held_tokens = None, 0


def _short(text: str, chars: int = 400) -> str:
    """Error texts quote what the agent sent; an agent must not be able to flood its own window with them."""
    return text if len(text) <= chars else text[:chars] + "…"
