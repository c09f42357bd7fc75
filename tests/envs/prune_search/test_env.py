"""PruneSearch-v0 as a Gymnasium environment: conformance, determinism, hostile input, and that truth stays outside."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import agentgym as ag
from agentgym import testing
from agentgym.core.errors import ConfigError, EpisodeOver, UnknownName
from agentgym.core.hashing import canonical
from agentgym.core.records import Truth, Turn
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.envs.prune_search.profiles import PROFILES
from agentgym.envs.prune_search.score import score
from agentgym.rollouts.replay import replay
from tests.envs.prune_search.hostile import hostile_turn
from tests.envs.prune_search.world import (
    MAX_TOKENS,
    SLACK,
    answer,
    grep,
    play,
    prune,
    read,
    search,
    small_taskset,
    turn,
)

EPISODE = [
    turn(search("Ardle bridge"), grep("Ilse Marden")),
    turn(prune("b1_0", "b2_0", "nope_0"), read("t0")),
    turn(search("Ganmouth river")),
    answer("t0_1", "b0_0", "g0_0"),
]


def leaves(env: PruneSearchEnv) -> list[str]:
    """Ids of every view of the episode just played."""
    assert env.episode is not None
    record = env.episode.trajectory()
    return [record.opening_leaf, *(step.leaf for step in record.steps)]


# -- conformance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["32k", "24k-eval", "200k-no-prune", "8k", "2k", "multi-source", "walkthrough"])
def test_conformance(small: str, profile: str) -> None:
    env = PruneSearchEnv(small, profile=profile)
    testing.check_env(env)
    testing.check_integrity(env, tasks=2)


def test_replay_of_scripted_agents(small: str) -> None:
    env = PruneSearchEnv(small, profile="2k")
    testing.check_replay(env, ["random", "malformed", "everything", "greedy-prune", "oracle"], tasks=3)


def test_replay_of_hybrid_rankings_by_their_rule(small: str, tmp_path: Path) -> None:
    """Rankings of vectors are recorded effects: fed back in a replay, and judged by the verifier's own scores."""
    cut = {"chunk_tokens": MAX_TOKENS, "slack": SLACK}
    index = ag.Index.build(small_taskset().documents, tmp_path, embedder="tests.retrieval.vectors:words", **cut)
    env = PruneSearchEnv(small, index=str(index.folder), profile="8k")
    testing.check_replay(env, ["greedy-prune", "oracle"], tasks=2)
    play(env, "s0", EPISODE)
    assert env.episode is not None
    record = env.episode.trajectory(env=env.name, fingerprint=env.fingerprint())
    legs = record.steps[0].effects
    assert {effect.rule for effect in legs} == {"ranking"}
    assert len(legs) >= 2
    forged = msgspec.structs.replace(legs[0], value=legs[0].value[::-1])
    first = msgspec.structs.replace(record.steps[0], effects=(forged, *legs[1:]))
    problems = replay(env, msgspec.structs.replace(record, steps=(first, *record.steps[1:]))).problems
    assert any("inverted" in problem or "differs" in problem for problem in problems)


def test_made_by_gymnasium_by_either_name(small: str) -> None:
    for name in ("PruneSearch-v0", "agentgym:PruneSearch-v0"):
        env = gym.make(name, tasks=small, profile="8k")
        observation, info = env.reset(seed=3)
        assert isinstance(observation, ag.View)
        assert info["task"] == "s3"
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert (reward, truncated) == (0.0, False) or terminated


def test_without_arguments_it_plays_the_set_in_the_package(cache: Path) -> None:
    env = gym.make("PruneSearch-v0")
    _, info = env.reset(seed=0)
    base = env.unwrapped
    assert isinstance(base, PruneSearchEnv)
    assert info["task"] == base.tasks[0].id
    assert base.index.settings.retrieval == "lexical"
    assert base.index.folder.is_relative_to(cache.resolve())
    assert base.taskset_hash() == PruneSearchEnv("sample/dev").taskset_hash()
    env.step(env.action_space.sample())
    testing.check_integrity(base)


def test_the_random_agent_of_the_readme(small: str) -> None:
    env = gym.make("PruneSearch-v0", tasks=small)
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    done = False
    while not done:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        done = terminated or truncated
    assert 0 <= info["score"] <= 1
    assert set(info["reward_terms"]) == {"f_beta", "trajectory_recall", "answer", "prune_run", "turns", "clamp"}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_sync_vector(small: str, mode: AutoresetMode) -> None:
    vector = gym.make_vec(
        "PruneSearch-v0", 3, "sync", vector_kwargs={"autoreset_mode": mode}, tasks=small, profile="8k"
    )
    views, info = vector.reset(seed=4)
    assert list(info["task"]) == ["s4", "s5", "s0"]
    actions = [(EPISODE[0], Turn(), EPISODE[0]), (EPISODE[1], EPISODE[0], EPISODE[1])]
    alone = PruneSearchEnv(small, profile="8k")
    alone.reset(seed=4)
    for action in actions:
        views, rewards, ended, _, info = vector.step(action)
        assert views[0] == alone.step(action[0])[0]
        if ended[1]:
            assert rewards[1] == 0.001
            if mode is AutoresetMode.DISABLED:
                vector.reset(options={"reset_mask": np.asarray(ended)})
    vector.close()


def test_async_vector_without_shared_memory(small: str) -> None:
    settings = {"shared_memory": False}
    vector = gym.make_vec("PruneSearch-v0", 2, "async", vector_kwargs=settings, tasks=small, profile="8k")
    try:
        views, _ = vector.reset(seed=0)
        alone = PruneSearchEnv(small, profile="8k")
        assert views[0].id == alone.reset(seed=0)[0].id
        for action in EPISODE:
            views, rewards, ended, _, info = vector.step((action, action))
            view, reward, terminated, _, _ = alone.step(action)
            assert (views[0].id, views[0].kept) == (view.id, view.kept)
            assert (rewards[0], ended[0]) == (reward, terminated)
        assert info["score"][0] == 1.0
    finally:
        vector.close()


def test_shared_memory_is_refused_not_corrupted(small: str) -> None:
    with pytest.raises(Exception, match="shared_memory"):
        gym.make_vec("PruneSearch-v0", 2, "async", tasks=small).close()


def test_views_cost_nothing_to_copy(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", EPISODE[:3])
    assert copy.deepcopy(view) is view
    assert pickle.loads(pickle.dumps(view)) == view


def test_render(small: str) -> None:
    env = gym.make("PruneSearch-v0", tasks=small, render_mode="ansi")
    env.reset(seed=0)
    env.step(EPISODE[0])
    text = env.render()
    assert isinstance(text, str)
    assert "user: Which river flows" in text
    assert "[b0_0] Ardle" in text
    assert '"query": "Ardle bridge"' in text
    with pytest.raises(ConfigError, match="render_mode='human'"):
        PruneSearchEnv(small, render_mode="human")


def test_the_class_docstring_is_the_page() -> None:
    page = PruneSearchEnv.__doc__ or ""
    for heading in ("Description", "Observation", "Action", "Reward", "Episode end", "Arguments", "Version history"):
        assert f"## {heading}\n" in page
    for name in (*PROFILES, *PruneSearchEnv.tools.tools):
        assert f"`{name}" in page


# -- determinism ------------------------------------------------------------------------------------------------------


def test_the_seed_alone_selects_the_task(env: PruneSearchEnv) -> None:
    assert [env.reset(seed=seed)[1]["task"] for seed in range(8)] == ["s0", "s1", "s2", "s3", "s4", "s5", "s0", "s1"]
    assert env.reset(seed=0, options={"task": "s4"})[1]["task"] == "s4"
    env.reset(seed=11)
    drawn = [env.reset()[1]["task"] for _ in range(6)]
    env.reset(seed=11)
    assert drawn == [env.reset()[1]["task"] for _ in range(6)]
    assert len(set(drawn)) > 1


def test_equal_actions_give_equal_views(small: str) -> None:
    first, second = PruneSearchEnv(small, profile="8k"), PruneSearchEnv(small, profile="8k")
    outcomes = [play(env, "s0", EPISODE, seed=seed)[1:] for env, seed in ((first, 0), (second, 0), (second, 99))]
    assert outcomes[0] == outcomes[1] == outcomes[2]  # nothing in this environment is drawn at random
    assert leaves(first) == leaves(second)
    assert leaves(first)[-1] != leaves(first)[-2]


def test_the_asynchronous_runner_sees_the_same_views(small: str) -> None:
    env = PruneSearchEnv(small, profile="8k")
    play(env, "s0", EPISODE)

    async def lived() -> list[str]:
        episode = env.open("s0", 0)
        found = [episode.view.id]
        for action in EPISODE:
            found.append((await episode.step(action)).id)
        return found

    assert asyncio.run(lived()) == leaves(env)


SCRIPT = """
import sys
from tests.envs.prune_search.test_env import EPISODE, leaves
from tests.envs.prune_search.world import play
from agentgym.envs.prune_search.env import PruneSearchEnv
env = PruneSearchEnv(sys.argv[1], profile="8k")
_, reward, info = play(env, "s0", EPISODE)
print(env.fingerprint(), reward, sorted(info["metrics"].items()), *leaves(env))
"""


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_another_process_sees_the_same_views(small: str, hash_seed: str) -> None:
    env = PruneSearchEnv(small, profile="8k")
    _, reward, info = play(env, "s0", EPISODE)
    expected = " ".join(map(str, [env.fingerprint(), reward, sorted(info["metrics"].items()), *leaves(env)]))
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, small], env=environment, capture_output=True, text=True, check=False
    )
    assert made.stdout.strip() == expected, made.stderr


def test_live_score_is_the_re_score_and_the_replayed_one(env: PruneSearchEnv, truths: dict[str, Truth]) -> None:
    _, reward, info = play(env, "s0", EPISODE)
    assert env.episode is not None
    record = env.episode.trajectory(env=env.name, fingerprint=env.fingerprint())
    again = score(truths["s0"], record)
    assert (again.value, again.metrics) == (info["score"], info["metrics"])
    stored = msgspec.json.decode(msgspec.json.encode(record), type=type(record))
    replayed = replay(env, stored, score=again)
    assert replayed.problems == ()
    assert replayed.outcome is not None
    assert (replayed.outcome.score, replayed.outcome.reward) == (again, reward)


def test_a_record_from_other_limits_is_not_replayed(env: PruneSearchEnv, small: str) -> None:
    play(env, "s0", EPISODE)
    assert env.episode is not None
    record = env.episode.trajectory(env=env.name, fingerprint=env.fingerprint())
    other = replay(PruneSearchEnv(small, profile="8k"), record)
    assert "recorded in another environment" in other.problems[0]


# -- bad input --------------------------------------------------------------------------------------------------------


def test_two_thousand_hostile_turns_are_answered(small: str) -> None:
    rng = np.random.default_rng(5)
    envs = [PruneSearchEnv(small, profile=name) for name in ("32k", "8k", "2k", "multi-source", "walkthrough")]
    ends = 0
    for number in range(2_000):
        env = envs[number % len(envs)]
        if env.episode is None or env.episode.stop is not None:
            env.reset(seed=number)
        view, reward, terminated, truncated, info = env.step(hostile_turn(rng))
        assert not truncated
        assert (reward == 0.0 and "score" not in info) or terminated
        canonical([view.messages, info])  # everything that was said can be written down
        assert info["usage"]["context"] == view.tokens
        assert view.tokens <= (env.profile.budget_tokens or 0) or info["stop"] == "context_exhausted"
        ends += terminated
    assert ends > 20


def test_a_step_out_of_turn(small: str) -> None:
    env = PruneSearchEnv(small, profile="8k")
    with pytest.raises(EpisodeOver, match="call reset before step"):
        env.step(Turn())
    env.reset(seed=0)
    env.step(Turn())
    with pytest.raises(EpisodeOver, match=r"task 's0' ended \(answer\): call reset"):
        env.step(Turn())
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"an action is an agentgym\.Turn, not str; wrap .*TextActions"):
        env.step("search")  # type: ignore[arg-type]


def test_unknown_tasks_and_options(env: PruneSearchEnv) -> None:
    with pytest.raises(UnknownName, match="unknown task 's77'; known: s0, s1, s2, s3, s4, s5"):
        env.reset(options={"task": "s77"})
    with pytest.raises(ConfigError, match=r"unknown reset options \['tasks'\]; offered: \['task'\]"):
        env.reset(options={"tasks": "s1"})


def test_a_failed_reset_leaves_the_episode_as_it_was(env: PruneSearchEnv) -> None:
    env.reset(seed=0)
    with pytest.raises(UnknownName):
        env.reset(options={"task": "nope"})
    assert env.step(EPISODE[0])[4]["usage"]["calls"] == 2


# -- truth stays outside ----------------------------------------------------------------------------------------------


def test_truth_is_told_to_nobody(env: PruneSearchEnv, truths: dict[str, Truth]) -> None:
    for task in env.tasks:
        view, info = env.reset(seed=0, options={"task": task.id})
        told = canonical([view.messages, env.specs, info, task]).decode()
        payload = truths[task.id].payload
        for secret in [payload["answer"], *payload["relevant"], *payload["quotes"], *payload["entities"][1:]]:
            assert secret not in told
        _, _, _, _, info = env.step(Turn())
        told = canonical(info).decode()
        assert payload["answer"] not in told
        assert not any(chunk in told for chunk in payload["relevant"])


def test_a_view_holds_what_the_tools_showed_and_no_more(env: PruneSearchEnv, truths: dict[str, Truth]) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Corvane"))])
    told = canonical(view.messages).decode()
    assert "Otto" not in told
    assert not any(chunk in told for chunk in truths["s0"].payload["relevant"])
