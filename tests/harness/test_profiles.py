"""A profile that cannot be is refused with the field and the value."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.core.errors import ConfigError
from agentgym.harness.profiles import Profile


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("budget_tokens", float("inf")),
        ("budget_tokens", 0),
        ("budget_tokens", 400),  # less than the reserve
        ("soft_tokens", 40_000),  # beyond the budget
        ("hard_tokens", -1),
        ("call_tokens", -1),
        ("reserve_tokens", -100),
        ("max_turns", float("nan")),
        ("max_turns", 0),
        ("max_calls", "3"),
        ("max_calls", True),
        ("oversize", "bogus"),
    ],
)
def test_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{field}"):
        Profile(name="x", **{field: value})


def test_everything_may_be_unlimited_but_turns_and_calls() -> None:
    profile = Profile(name="x", budget_tokens=None, soft_tokens=None, hard_tokens=None, call_tokens=None)
    assert (profile.max_turns, profile.max_calls) == (128, 16)
