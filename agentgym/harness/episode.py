"""One episode: an agent's turns go in, views come out. Knows tools and limits; knows nothing of Gymnasium.

The same object runs inside `gym.Env.step`, under the asynchronous runner and in deployment. Calls of one turn see the
state at its start, share the tokens that are left, and are committed in call order. Nothing is committed before all
calls of the turn have run: a turn that is cancelled, or that breaks by the fault of a tool, leaves the episode as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentgym.core.errors import EpisodeOver
from agentgym.core.graph import Node, View
from agentgym.core.records import CallResult, Message, Part, Step, StopReason, Task, ToolCall, Trajectory, Turn, Usage
from agentgym.core.tokens import counter
from agentgym.harness.budget import free_tokens
from agentgym.harness.calls import Result, run, run_plain, run_sync
from agentgym.harness.context import ContextWindow
from agentgym.harness.draft import Draft, draft_of
from agentgym.harness.effects import EffectLog
from agentgym.harness.profiles import Profile
from agentgym.harness.text import sane
from agentgym.harness.tool import Toolset

SOFT_MESSAGE = "[More than half of the token budget is used: prune what you do not need, or conclude with your answer.]"


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

    `view` is what the agent sees, `stop` why the episode ended (None while it runs). `turns`, `calls`, `tokens_in` (context
    read by each turn) and `tokens_out` (what the agent wrote) are sums so far, in tokens of the pinned counter.
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
        self.turns = self.calls = self.tokens_in = self.tokens_out = 0
        self._tools = toolset.tools
        if offered is not None:
            self._tools = {name: tool for name, tool in toolset.tools.items() if name in offered}
        self._always_allowed = always_allowed
        self._finish_on_text = finish_on_text
        self.context = ContextWindow(opening, counter(profile.counter) if profile.budget_tokens is not None else None)
        self.effects = effects if effects is not None else EffectLog()
        toolset.context, toolset.effects = self.context, self.effects
        self._opening_leaf = self.context.leaf
        self._record: list[tuple[Step, Node | None]] = []  # each step with the leaf of the view after it
        self._over_soft = False
        self._only = self._allowed(self.context.used)

    @property
    def last_step(self) -> Step:
        """The record of the last turn, its leaf id left out."""
        return self._record[-1][0]

    @property
    def view(self) -> View:
        """What the agent sees."""
        return self.context.view

    @property
    def free_tokens(self) -> int:
        """Tokens that tool results may still use, the reserve for the next answer taken off; 0 without a budget."""
        return free_tokens(self.profile, self.context.used)

    def cancel(self) -> None:
        """End the episode from outside; nothing more can be done in it."""
        if self.stop is None:
            self.stop = StopReason.CANCELLED

    # -- taking a turn ------------------------------------------------------------------------------------------------

    async def step(self, turn: Turn) -> View:
        """Take one turn. Whatever the agent sends becomes a result or the answer; only a step after the end raises.

        Raises:
            EpisodeOver: the episode has ended.
        """
        if self.stop is not None:
            raise self._over()
        turn = sane(turn)
        calls = turn.tool_calls[: self.profile.max_calls]
        try:
            results = await run(self.toolset, self._tools, calls, self._only)
        except BaseException:
            self.effects.drop()
            raise
        return self._commit(turn, calls, results)

    def step_sync(self, turn: Turn) -> View:
        """`step` from synchronous code. Most turns need no event loop; one with asynchronous tools uses a private one."""
        if self.stop is not None:
            raise self._over()
        turn = sane(turn)
        calls = turn.tool_calls
        results: Sequence[Result]
        try:
            if len(calls) == 1 and self.toolset.plain:  # `run_sync` would do the same, but most turns are such
                results = (run_plain(self.toolset, self._tools, calls[0], self._only),)
            else:
                calls = calls[: self.profile.max_calls]
                results = run_sync(self.toolset, self._tools, calls, self._only)
        except BaseException:
            self.effects.drop()
            raise
        return self._commit(turn, calls, results)

    def _over(self) -> EpisodeOver:
        return EpisodeOver(f"the episode of task {self.task.id!r} ended ({self.stop}): call reset")

    def _commit(self, turn: Turn, calls: tuple[ToolCall, ...], results: Sequence[Result]) -> View:
        """Write a turn and what its calls came to into the context and the record, and decide whether it goes on."""
        context = self.context
        self.turns = turns = self.turns + 1
        self.calls += len(calls)
        if turns >= self.profile.max_turns:
            self.stop = StopReason.TURN_LIMIT
        if (
            context.counter is None
            and turn.malformed is None
            and len(turn.tool_calls) == len(calls) == 1
            and type(results[0]) is str
        ):
            # Where nothing is counted, the most frequent turn, a single call that came to a text, needs no draft.
            call, content = calls[0], turn.content
            said = Message("assistant", (Part(content),) if content else (), calls)
            answer = Message("tool", (Part(results[0]),), (), call.id)
            context.extend((said, answer), 0)
            step = Step(turn, (CallResult(call.name),), (), (), (answer,), self.effects.take())
        else:
            step = self._settle(turn, calls, results)
        view = context.view
        self._record.append((step, view.leaf))
        return view

    def _settle(self, turn: Turn, calls: tuple[ToolCall, ...], results: Sequence[Result]) -> Step:
        """Write any turn into the context: results cut to what is left, objections, prunes, the usage line."""
        context = self.context
        self.tokens_in += context.used  # before a prune
        draft = draft_of(context, self.profile, turn.content, calls, results)
        self.tokens_out += draft.written
        if not calls or len(calls) != len(turn.tool_calls) or turn.malformed is not None:
            self._judge(turn, draft)
        if draft.finish:
            self.stop = StopReason.ANSWER
        if context.counter is not None:
            self._budget(draft)
        messages = tuple(draft.messages[1:])
        if draft.shown:
            for message in messages:
                context.show(message.parts)
        context.extend(draft.messages, draft.tokens)
        return Step(turn, draft.results, draft.shown, draft.pruned, messages, self.effects.take(), context.used)

    def _judge(self, turn: Turn, draft: Draft) -> None:
        """A turn that is no plain list of calls: the answer, or something to object to."""
        most = self.profile.max_calls
        surplus = len(turn.tool_calls) - most
        if surplus > 0:
            draft.object("too_many_calls", f"{surplus:,} further calls refused: at most {most} a turn")
        if turn.malformed is not None:
            draft.object("malformed", turn.malformed)
        elif not turn.tool_calls and self._finish_on_text:
            draft.finish = True
        elif not turn.tool_calls:
            draft.object("no_call", f"call a tool; tools: {', '.join(self._tools)}")

    def _budget(self, draft: Draft) -> None:
        """End the episode where it no longer fits, else say how much is used and what that means for the next turn."""
        profile, before = self.profile, self.context.used
        budget, used = profile.budget_tokens or 0, before + draft.tokens
        over_soft = profile.soft_tokens is not None and used > profile.soft_tokens
        if self.stop is None and profile.usage_line:
            draft.add_line(f"[Token usage: {used:,}/{budget:,}]")
            if over_soft and not self._over_soft:
                draft.add_line(SOFT_MESSAGE)
            self._over_soft = over_soft
        if before + draft.tokens > budget:
            self.stop = StopReason.CONTEXT_EXHAUSTED
        self._only = self._allowed(before + draft.tokens)

    def _allowed(self, used: int) -> Sequence[str] | None:
        """Names of the tools that may be used with so much of the context in use; None for all."""
        hard = self.profile.hard_tokens
        return self._always_allowed if hard is not None and used > hard else None

    # -- record -------------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> Usage:
        """Sums so far. Tokens by the pinned counter: context read by each turn, and what the agent wrote."""
        return Usage(self.tokens_in, self.tokens_out, 0, self.calls, self.turns)

    def trajectory(self, *, env: str = "", fingerprint: str = "", sealed: bool = True) -> Trajectory:
        """The record so far. `sealed=False` leaves leaf ids out, which scoring does not need."""
        if sealed:
            steps = [msgspec.structs.replace(step, leaf=leaf.id if leaf else "") for step, leaf in self._record]
        else:
            steps = [step for step, _ in self._record]
        return Trajectory(
            env,
            fingerprint,
            self.task.id,
            self.task.digest() if sealed else "",
            self.seed,
            self.context.opening,
            tuple(steps),
            self.stop,
            self.usage,
            self._opening_leaf.id if sealed and self._opening_leaf is not None else "",
        )
