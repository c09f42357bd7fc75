"""The scripted agents, from floor to ceiling, and that only those that are given truth have it."""

from __future__ import annotations

import pickle
from statistics import fmean

import pytest

from agentgym import testing
from agentgym.agents.base import Brief
from agentgym.core.errors import UnknownName
from agentgym.core.hashing import canonical
from agentgym.core.records import Status, StopReason, Trajectory, Truth
from agentgym.envs.prune_search.agents import AGENTS, Knowing, Oracle
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.rollouts.manifest import EpisodeRow

ROOMY = ("32k", "24k-eval", "200k-no-prune", "8k", "2k")


def played(folder: str, agent: str, profile: str = "24k-eval") -> list[tuple[EpisodeRow, Trajectory]]:
    """All tasks of a set, played to an end."""
    env = PruneSearchEnv(folder, profile=profile)
    episodes = testing.play(env, agent, tasks=len(env.tasks))
    assert [row.status for row, _ in episodes] == [Status.COMPLETED] * len(env.tasks)
    return episodes


def mean(episodes: list[tuple[EpisodeRow, Trajectory]], metric: str) -> float:
    values = [row.score.metrics[metric] for row, _ in episodes]
    return fmean(value for value in values if value is not None)


@pytest.mark.parametrize("profile", ROOMY)
def test_oracle_scores_one_in_every_metric(small: str, profile: str) -> None:
    for row, _ in played(small, "oracle", profile):
        assert row.score.value == 1.0
        for name in ("success", "final_answer_found", "recall", "precision", "f1", "fact_recall", "trajectory_recall"):
            assert row.score.metrics[name] == 1.0
        assert row.reward == pytest.approx(2.0)


@pytest.mark.parametrize("profile", ["32k", "8k", "2k", "tiny"])
def test_oracle_scores_one_where_documents_are_judged(plain: str, profile: str) -> None:
    for row, _ in played(plain, "oracle", profile):
        assert row.score.value == 1.0


def test_null_gets_the_floor(small: str) -> None:
    for row, _ in played(small, "null"):
        assert (row.score.value, row.reward, row.stop) == (0.0, 0.001, StopReason.ANSWER)


@pytest.mark.parametrize("profile", ["24k-eval", "8k"])
def test_informed_shows_that_tasks_can_be_done_by_the_tools_alone(small: str, profile: str) -> None:
    episodes = played(small, "informed", profile)
    assert mean(episodes, "final_answer_found") == 1.0
    assert mean(episodes, "fact_recall") == 1.0
    assert {call.name for _, t in episodes for step in t.steps for call in step.turn.tool_calls} == {
        "search_corpus",
        "prune_chunks",
    }


@pytest.mark.parametrize("agent", sorted(AGENTS))
@pytest.mark.parametrize("profile", ["2k", "multi-source", "walkthrough"])
def test_every_agent_ends_every_task(plain: str, agent: str, profile: str) -> None:
    for row, _ in played(plain, agent, profile):
        assert row.stop is not None
        assert row.score.metrics["invalid_call_rate"] is not None


def test_returning_everything_is_not_precise(small: str) -> None:
    everything, oracle = played(small, "everything"), played(small, "oracle")
    assert mean(everything, "trajectory_recall") > 0
    assert mean(everything, "precision") < 0.5
    assert mean(everything, "f1") < mean(oracle, "f1")


def test_a_single_search_finds_less_than_following_names(small: str) -> None:
    single, greedy = played(small, "single-search"), played(small, "greedy-prune")
    assert all(len(trajectory.steps) == 2 for _, trajectory in single)
    assert mean(single, "trajectory_recall") < mean(greedy, "trajectory_recall")


def test_greedy_prune_prunes_and_greedy_does_not(small: str) -> None:
    pruned = {
        agent: sum(len(step.pruned) for _, trajectory in played(small, agent, "8k") for step in trajectory.steps)
        for agent in ("greedy", "greedy-prune")
    }
    assert pruned["greedy"] == 0
    assert pruned["greedy-prune"] > 0


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_agents_play_the_same_twice(small: str, agent: str) -> None:
    first, second = played(small, agent, "8k"), played(small, agent, "8k")
    assert [t.steps[-1].leaf for _, t in first] == [t.steps[-1].leaf for _, t in second]
    assert len({t.steps[-1].leaf for _, t in first}) == 6


@pytest.mark.parametrize("agent", sorted(PruneSearchEnv.agents))
def test_agents_can_be_sent_to_a_process(small: str, agent: str) -> None:
    made = PruneSearchEnv(small).agent(agent)
    copy = pickle.loads(pickle.dumps(made))
    assert copy.name == agent
    env = PruneSearchEnv(small)
    assert testing.play(env, copy, tasks=1)[0][0].score == testing.play(env, made, tasks=1)[0][0].score


def test_truth_is_given_to_two_agents_and_to_nobody_else(small: str, truths: dict[str, Truth]) -> None:
    env = PruneSearchEnv(small)
    holders = [name for name in env.agents if isinstance(env.agent(name), Knowing)]
    assert holders == ["informed", "oracle"]
    brief = canonical(Brief(env.tasks[0], env.specs, 0, 1, 1)).decode()
    payload = truths["s0"].payload
    assert not any(secret in brief for secret in [payload["answer"], *payload["relevant"], *payload["quotes"]])
    assert "b0_0" not in repr(env.agent("oracle"))  # nor does it stand in a log
    own = Knowing("mine", Oracle, {"s0": truths["s1"]})  # what it is given is all that it knows
    assert testing.play(env, own, tasks=1)[0][0].score.value == 0.0


def test_an_unknown_agent(small: str) -> None:
    with pytest.raises(UnknownName, match="unknown agent 'greedy_prune'; did you mean greedy-prune"):
        PruneSearchEnv(small).agent("greedy_prune")
