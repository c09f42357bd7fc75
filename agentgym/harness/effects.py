"""Recorded effects: results of what is not a pure function.

While an episode is lived, `EffectLog.call` computes and records. When it is replayed, the recorded value is fed to the
harness, so that everything after it is exact, and is checked by its declared rule. Values are filed under the call that
asked and what it asked, so the order in which concurrent calls happen to finish plays no role.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

from agentgym.core.errors import ReplayMismatch
from agentgym.core.hashing import digest
from agentgym.core.records import Effect

Rule = Literal["exact", "ranking", "normalised", "recorded-only"]

call_place: ContextVar[int] = ContextVar("call_place", default=0)
"""Which call of its turn is running, from 0; each thread and task that runs a call has its own."""


def _place(entry: tuple[int, Effect]) -> int:
    return entry[0]


class EffectLog:
    """Computes and records effects of the current turn; `take()` hands them over when the turn ends, in call order."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn: list[tuple[int, Effect]] = []

    def call(
        self, rule: Rule, request: Any, compute: Callable[[], Any], check: Callable[[Any], str | None] | None = None
    ) -> Any:
        """The effect's value. `request` is JSON that says what was asked; `check` judges a recorded value in a replay."""
        place = call_place.get()
        value = compute()
        self._turn.append((place, Effect(rule, digest([place, request]), value)))
        return value

    def drop(self) -> None:
        """Forget the effects of a turn that was not taken."""
        self._turn = []

    def take(self) -> tuple[Effect, ...]:
        """Effects of the turn that ends."""
        if not self._turn:
            return ()
        entries, self._turn = sorted(self._turn, key=_place), []
        return tuple([effect for _, effect in entries])


class ReplayLog(EffectLog):
    """Feeds recorded effects back. `problems` collects what the rules found; with `verify=False` nothing is computed."""

    def __init__(self, turns: list[tuple[Effect, ...]], *, verify: bool = True) -> None:
        super().__init__()
        self._coming = iter(turns)
        self._number = 1
        self._waiting = list(next(self._coming, ()))
        self._lock = threading.Lock()
        self.verify = verify
        self.problems: list[str] = []

    def call(
        self, rule: Rule, request: Any, compute: Callable[[], Any], check: Callable[[Any], str | None] | None = None
    ) -> Any:
        place = call_place.get()
        effect = self._find(rule, digest([place, request]))
        if effect is None:
            raise ReplayMismatch(
                f"turn {self._number}: the environment asked for an effect that is not on record: {request}"
            )
        self._turn.append((place, effect))
        if self.verify:
            problem = self._judge(effect, compute, check)
            if problem:
                self.problems.append(f"turn {self._number}: {problem} (request {request})")
        return effect.value

    def _find(self, rule: Rule, key: str) -> Effect | None:
        with self._lock:
            for i, effect in enumerate(self._waiting):
                if effect.request == key and effect.rule == rule:
                    return self._waiting.pop(i)
        return None

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
            self.problems.append(f"turn {self._number}: {len(self._waiting)} recorded effects were never asked for")
        self._waiting = list(next(self._coming, ()))
        self._number += 1
        return super().take()
