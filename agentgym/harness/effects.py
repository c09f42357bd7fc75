"""Recorded effects: results of what is not a pure function.

While an episode is lived, `EffectLog.call` computes and records. When it is replayed, the recorded value is fed to the
harness, so that everything after it is exact, and is checked by its declared rule. Values are matched by what was asked
within a turn, so the order in which concurrent calls happen to finish plays no role.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from agentgym.core.errors import ReplayMismatch
from agentgym.core.hashing import digest
from agentgym.core.records import Effect

Rule = Literal["exact", "ranking", "normalised", "recorded-only"]


class EffectLog:
    """Computes and records effects of the current turn; `take()` hands them over when the turn ends."""

    def __init__(self) -> None:
        self._turn: list[Effect] = []

    def call(
        self, rule: Rule, request: Any, compute: Callable[[], Any], check: Callable[[Any], str | None] | None = None
    ) -> Any:
        """The effect's value. `request` is JSON that says what was asked; `check` judges a recorded value in a replay."""
        value = compute()
        self._turn.append(Effect(rule, digest(request), value))
        return value

    def begin(self) -> None:
        """A turn starts."""

    def take(self) -> tuple[Effect, ...]:
        """Effects of the turn that ends."""
        if not self._turn:
            return ()
        effects, self._turn = tuple(self._turn), []
        return effects


class ReplayLog(EffectLog):
    """Feeds recorded effects back. `problems` collects what the rules found; with `verify=False` nothing is computed."""

    def __init__(self, turns: list[tuple[Effect, ...]], *, verify: bool = True) -> None:
        super().__init__()
        self._turns = turns
        self._next = 0
        self._waiting: list[Effect] = []
        self.verify = verify
        self.problems: list[str] = []

    def begin(self) -> None:
        self._waiting = list(self._turns[self._next]) if self._next < len(self._turns) else []
        self._next += 1

    def call(
        self, rule: Rule, request: Any, compute: Callable[[], Any], check: Callable[[Any], str | None] | None = None
    ) -> Any:
        key = digest(request)
        for i, effect in enumerate(self._waiting):
            if effect.request == key and effect.rule == rule:
                del self._waiting[i]
                break
        else:
            raise ReplayMismatch(
                f"turn {self._next}: the environment asked for an effect that is not on record: {request}"
            )
        self._turn.append(effect)
        if self.verify:
            problem = self._judge(effect, compute, check)
            if problem:
                self.problems.append(f"turn {self._next}: {problem} (request {request})")
        return effect.value

    def _judge(
        self, effect: Effect, compute: Callable[[], Any], check: Callable[[Any], str | None] | None
    ) -> str | None:
        if effect.rule == "recorded-only":
            return None
        if check is not None:
            return check(effect.value)
        return None if digest(compute()) == digest(effect.value) else "the effect's value differs from the record"

    def take(self) -> tuple[Effect, ...]:
        if self._waiting:
            self.problems.append(f"turn {self._next}: {len(self._waiting)} recorded effects were never asked for")
            self._waiting = []
        return super().take()
