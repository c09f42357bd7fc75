"""Records: frozen, strict, compact, and the same after every round trip."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core import records
from agentgym.core.errors import DataError
from agentgym.core.hashing import canonical
from agentgym.core.records import (
    CallResult,
    Effect,
    Message,
    Part,
    Record,
    Score,
    Step,
    StopReason,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Usage,
    upgrade,
)

counts = st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts, counts)


def trajectory(**changes: Any) -> Trajectory:
    call = ToolCall(id="c1", name="search_corpus", arguments='{"query": "x"')  # broken JSON is kept as it came
    step = Step(
        turn=Turn(content="", tool_calls=(call,), raw="…", malformed="no end", usage=Usage(3, 4)),
        results=(CallResult("search_corpus", error="arguments", tokens=9),),
        shown=("a_0",),
        pruned=("b_1",),
        messages=(
            Message(role="tool", parts=(Part(text="t", chunk="a_0", tokens=1),), call_id="c1", error="arguments"),
        ),
        effects=(Effect(rule="ranking", request="ab", value=[["a_0", 0.5]]),),
        used=12,
        leaf="ff",
    )
    final = Step(turn=Turn(content="the answer"))
    fields: dict[str, Any] = {
        "env": "PruneSearch-v0",
        "fingerprint": "f",
        "task": "t",
        "task_hash": "h",
        "seed": 3,
        "opening": (Message(role="system", parts=(Part(text="s"),)),),
        "steps": (step, final),
        "stop": StopReason.ANSWER,
        "usage": Usage(calls=1, turns=2),
    }
    return Trajectory(**fields | changes)


def all_records() -> list[type[Record]]:
    return [item for item in vars(records).values() if isinstance(item, type) and issubclass(item, Record)]


@pytest.mark.parametrize("record", all_records(), ids=lambda record: record.__name__)
def test_every_record_is_frozen_strict_and_compact(record: type[Record]) -> None:
    config = record.__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
    assert config.omit_defaults


def test_a_trajectory_survives_the_disk() -> None:
    original = trajectory()
    data = canonical(original)
    assert msgspec.json.decode(data, type=Trajectory) == original
    assert canonical(msgspec.json.decode(data, type=Trajectory)) == data
    packed = msgspec.msgpack.encode(original)
    assert msgspec.msgpack.decode(packed, type=Trajectory) == original


def test_unknown_keys_and_wrong_types_are_errors() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.json.decode(b'{"id": "t", "family": "f", "prompt": "p", "colour": 1}', type=Task)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.prompt"):
        msgspec.json.decode(b'{"id": "t", "family": "f", "prompt": 1}', type=Task)


def test_records_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Task(id="t", family="f", prompt="p").prompt = "q"  # type: ignore[misc]


def test_the_answer_is_the_last_turn_of_an_episode_that_ended_with_one() -> None:
    assert trajectory().answer == "the answer"
    assert trajectory(stop=StopReason.TURN_LIMIT).answer == ""
    assert trajectory(stop=None).answer == ""
    assert trajectory(steps=()).answer == ""


def test_message_text_joins_its_parts() -> None:
    assert Message(role="user", parts=(Part(text="a"), Part(text="b"))).text == "a\nb"
    assert Message(role="user").text == ""


@given(usages, usages, usages)
def test_usage_adds_up(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Usage() == a
    assert (a + b).tokens_cached == a.tokens_cached + b.tokens_cached


def test_defaults_are_not_shared() -> None:
    one, two = Task(id="a", family="f", prompt=""), Task(id="b", family="f", prompt="")
    one.payload["x"] = 1
    assert two.payload == {}


def test_task_hashes_follow_the_content() -> None:
    task = Task(id="t", family="f", prompt="p")
    assert task.digest() == Task(id="t", family="f", prompt="p", payload={}).digest()
    changed = [msgspec.structs.replace(task, **{name: "x"}) for name in ("id", "family", "prompt", "cluster")]
    assert len({task.digest(), *(other.digest() for other in changed)}) == 5


def test_a_score_may_be_unknown() -> None:
    assert msgspec.json.decode(canonical(Score(value=None)), type=Score).value is None


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("trajectory/2", r"'trajectory/2' cannot be read as 'trajectory/1': update agentgym to read trajectory/2"),
        ("tasks/1", r"'tasks/1' cannot be read as 'trajectory/1': this is no trajectory file"),
        ("", r"this is no trajectory file"),
    ],
)
def test_other_schemas_are_refused(schema: str, message: str) -> None:
    upgrade("trajectory/1", "trajectory/1")
    with pytest.raises(DataError, match=message):
        upgrade(schema, "trajectory/1")
