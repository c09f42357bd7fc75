"""Effects: recorded while an episode is lived, fed back and checked when it is replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentgym.core.errors import ReplayMismatch
from agentgym.core.records import Effect
from agentgym.harness.effects import EffectLog, ReplayLog, Rule
from tests.harness.test_calls import Waiting
from tests.harness.toolkit import call, calls, episode, results


def record(rule: Rule, *values: tuple[str, object]) -> list[tuple[Effect, ...]]:
    """One turn with an effect of each (request, value)."""
    log = EffectLog()
    for request, value in values:
        log.call(rule, request, lambda value=value: value)  # type: ignore[misc]
    return [log.take()]


def never() -> object:
    raise AssertionError("computed")


def test_what_was_recorded_is_fed_back_in_any_order_of_asking() -> None:
    log = ReplayLog(record("recorded-only", ("a", 1), ("b", [2])))
    assert log.call("recorded-only", "b", never) == [2]
    assert log.call("recorded-only", "a", never) == 1
    assert len(log.take()) == 2
    assert log.problems == []


@pytest.mark.parametrize(
    ("rule", "compute", "problem"),
    [
        ("exact", lambda: {"x": 1}, None),
        ("exact", lambda: {"x": 2}, "turn 1: the effect's value differs from the record (request a)"),
        ("recorded-only", never, None),
    ],
)
def test_rules(rule: Rule, compute: Callable[[], object], problem: str | None) -> None:
    log = ReplayLog(record(rule, ("a", {"x": 1})))
    assert log.call(rule, "a", compute) == {"x": 1}
    assert log.problems == ([problem] if problem else [])
    unchecked = ReplayLog(record(rule, ("a", {"x": 1})), verify=False)
    assert unchecked.call(rule, "a", never) == {"x": 1}


def test_a_check_judges_the_recorded_value() -> None:
    turns = record("ranking", ("a", [3, 1]))
    log = ReplayLog(turns)
    log.call("ranking", "a", never, lambda value: None if value == [3, 1] else "other")
    assert log.problems == []
    log = ReplayLog(turns)
    log.call("ranking", "a", never, lambda value: f"{value} is out of order")
    assert log.problems == ["turn 1: [3, 1] is out of order (request a)"]


def test_what_is_not_on_record_is_refused_and_what_is_not_asked_is_told() -> None:
    log = ReplayLog([*record("exact", ("a", 1)), *record("exact", ("b", 2))])
    with pytest.raises(ReplayMismatch, match="turn 1: the environment asked for an effect that is not on record: b"):
        log.call("exact", "b", never)
    log.take()
    assert log.problems == ["turn 1: 1 recorded effects were never asked for"]
    assert log.call("exact", "b", lambda: 2) == 2
    log.take()
    assert log.take() == ()
    with pytest.raises(ReplayMismatch, match="turn 4"):
        log.call("exact", "b", never)


def test_the_same_question_of_several_calls_keeps_each_its_answer() -> None:
    """Lived, the last call asks first; replayed, nobody waits and the first does."""
    turn = calls(*[call("race", name=n, before=i) for i, n in enumerate("abc")])
    lived = episode(tools=Waiting())
    lived.step_sync(turn)
    for reverse in (False, True):
        again = calls(*[call("race", name="?", before=-i if reverse else i) for i in range(3)])
        replayed = episode(tools=Waiting(), effects=ReplayLog([lived.last_step.effects]))
        asyncio.run(replayed.step(again))
        assert results(replayed) == results(lived) == ["a", "b", "c"]
        assert replayed.last_step.effects == lived.last_step.effects
