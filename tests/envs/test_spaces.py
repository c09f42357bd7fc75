"""Spaces: exact membership, valid samples, seeding, equality."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.core.graph import View
from agentgym.core.records import ToolCall, Turn, Usage
from agentgym.envs.spaces import TextSpace, TurnSpace, ViewSpace
from agentgym.harness.text import parse_turn
from tests.harness.toolkit import Tools

SPACES: list[gym.Space[Any]] = [ViewSpace(), TurnSpace(Tools.specs()), TextSpace(Tools.specs())]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_samples_are_members_and_follow_the_seed(space: gym.Space[Any]) -> None:
    space.seed(4)
    first = [space.sample() for _ in range(100)]
    assert all(sample in space for sample in first)
    space.seed(4)
    assert [space.sample() for _ in range(100)] == first
    space.seed(5)
    assert [space.sample() for _ in range(100)] != first
    twin = copy.deepcopy(space)
    assert twin.sample() == space.sample()
    assert not space.is_np_flattenable


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_are_equal_by_what_they_hold(space: gym.Space[Any]) -> None:
    assert pickle.loads(pickle.dumps(space)) == space
    assert [space == other for other in SPACES].count(True) == 1
    assert type(space).__name__ in repr(space)
    assert TurnSpace(Tools.specs()) != TurnSpace(Tools.specs(["say"]))


@pytest.mark.parametrize(
    "turn",
    [
        Turn(),
        Turn("é", "x", (ToolCall("c", "f", "{"),), "raw", "malformed", Usage(1)),
        Turn(tool_calls=(ToolCall("", "", ""),) * 100),
    ],
)
def test_turns_of_declared_types_are_members(turn: Turn) -> None:
    assert turn in TurnSpace(())


@pytest.mark.parametrize(
    "other",
    [
        None,
        "text",
        {"content": "x"},
        View(None),
        Turn(5),  # type: ignore[arg-type]
        Turn(np.str_("x")),
        Turn(tool_calls=[ToolCall("c", "f", "{}")]),  # type: ignore[arg-type]
        Turn(tool_calls=("c",)),  # type: ignore[arg-type]
        Turn(tool_calls=(ToolCall("c", "f", None),)),  # type: ignore[arg-type]
        Turn(usage=Usage("many")),  # type: ignore[arg-type]
        Turn(usage=Usage(2**70)),
        Turn("\ud800"),
    ],
)
def test_anything_else_is_not(other: object) -> None:
    assert other not in TurnSpace(())


def test_views_and_texts() -> None:
    assert View(None) in ViewSpace()
    assert "text" not in ViewSpace()
    assert "\ud800" in TextSpace(())
    assert 5 not in TextSpace(())
    assert len(ViewSpace().sample().messages) == 1


def test_sampled_texts_are_valid_turns() -> None:
    space = TextSpace(Tools.specs(), seed=1)
    for _ in range(200):
        turn = parse_turn(space.sample())
        assert turn.malformed is None
        for call in turn.tool_calls:
            Tools.tools[call.name].parse(call.arguments)


def test_without_tools_samples_are_answers() -> None:
    assert TurnSpace((), seed=1).sample().content
