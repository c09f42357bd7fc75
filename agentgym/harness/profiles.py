"""A profile: the limits of an episode as one frozen record. They are part of the task, so a changed limit is a changed
task: it changes the environment's fingerprint and makes a run `custom`."""

from __future__ import annotations

from typing import Literal

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record

_OPTIONAL = ("budget_tokens", "soft_tokens", "hard_tokens", "call_tokens")
_LEAST = dict.fromkeys((*_OPTIONAL, "max_turns", "max_calls"), 1) | {"call_floor_tokens": 0, "reserve_tokens": 0}


class Profile(Record, frozen=True, kw_only=True):
    """Limits of an episode, in tokens of the pinned `counter` and in turns.

    Defaults are Context-1's (report §Context: budget 32,768, soft threshold at half). The rejection line, the per-call
    cap with its floor, the reserve and the turn limit are those of the co-author's public code (arXiv 2606.02373).
    `max_calls` is our choice: so many calls of one turn are run, further ones are refused in one line.
    """

    name: str
    counter: str = "o200k"
    budget_tokens: int | None = 32_768
    soft_tokens: int | None = 16_384
    hard_tokens: int | None = 24_326
    call_tokens: int | None = 4_096
    call_floor_tokens: int = 512
    reserve_tokens: int = 500
    max_turns: int = 128
    max_calls: int = 16
    oversize: Literal["truncate", "refuse"] = "truncate"
    usage_line: bool = True

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) is not int or value < least:
                raise ConfigError(f"profile {self.name!r}: {name}={value!r} must be a whole number of at least {least}")
        if self.oversize not in ("truncate", "refuse"):
            raise ConfigError(f"profile {self.name!r}: oversize={self.oversize!r} must be 'truncate' or 'refuse'")
        budget = self.budget_tokens
        if budget is not None:
            if budget <= self.reserve_tokens:
                raise ConfigError(
                    f"profile {self.name!r}: budget_tokens={budget} must exceed reserve_tokens={self.reserve_tokens}"
                )
            for name in ("soft_tokens", "hard_tokens"):
                line = getattr(self, name)
                if line is not None and not 0 < line <= budget:
                    raise ConfigError(f"profile {self.name!r}: {name}={line} must lie in (0, {budget}]")
