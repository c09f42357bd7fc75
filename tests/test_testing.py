"""The conformance checks pass on the example environment and fail on environments that break the contract."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import agentgym as ag
from agentgym import testing
from tests.lookup_env import LookupEnv, LookupTools


class Restless(LookupEnv):
    """Opens differently each time."""

    opened = 0

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        self.opened += 1
        return [ag.Message("user", (ag.Part(f"{task.prompt} ({self.opened})"),))]


class Generous(LookupEnv):
    """Pays whoever says nothing."""

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        return ag.Score(1.0)


class Talkative(LookupEnv):
    """Tells the truth in its opening."""

    def __init__(self) -> None:
        super().__init__()
        self.truths = {
            key: ag.Truth(key, "lookup", {**truth.payload, "answer": "a long answer"})
            for key, truth in self.truths.items()
        }

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        return [ag.Message("user", (ag.Part(f"{task.prompt} It is a long answer."),))]


class Growing(LookupEnv):
    """Scores by a state that a replay does not find again."""

    played = 0

    def toolset(self, task: ag.Task, seed: int) -> LookupTools:
        self.played += 1
        return super().toolset(task, seed)

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        self.played += 1
        return ag.Score(1.0 / self.played)


def test_the_example_environment_conforms() -> None:
    testing.check_env(LookupEnv())
    testing.check_replay(LookupEnv())
    testing.check_integrity(LookupEnv())


def test_what_is_not_deterministic_is_found() -> None:
    with pytest.raises(AssertionError):
        testing.check_env(Restless())


def test_a_score_that_cannot_be_recomputed_is_found() -> None:
    with pytest.raises(AssertionError, match="re-scored"):
        testing.check_replay(Growing())


def test_a_floor_that_pays_is_found() -> None:
    with pytest.raises(AssertionError, match="null agent scores"):
        testing.check_integrity(Generous())


def test_a_truth_that_is_told_is_found() -> None:
    with pytest.raises(AssertionError, match="long answer"):
        testing.check_integrity(Talkative())
