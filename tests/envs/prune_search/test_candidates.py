"""PruneSearchCandidates-v0: conformance, determinism, vectors, and that its actions suffice."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from agentgym.core.errors import ConfigError, EpisodeOver
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.candidates import builder
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.reward import SearchReward
from agentgym.rollouts.replay import replay
from tests.envs.prune_search.candidate_play import (
    ODD,
    PLAYED,
    Policy,
    fingerprint,
    greedy,
    informed,
    lingering,
    made,
    play,
    single,
)

# -- conformance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [*PLAYED, *ODD], ids=lambda profile: getattr(profile, "name", profile))
def test_gymnasium_check(plain: str, profile: str | SearchProfile) -> None:
    check_env(made(plain, profile), skip_render_check=True)


def test_registered(small: str) -> None:
    env = gym.make("agentgym:PruneSearchCandidates-v0", tasks=small, profile="8k", k=32, render_mode="ansi")
    observation, info = env.reset(seed=3)
    assert info["task"] == "s3"
    assert observation["candidates"].shape == (32, len(f.FEATURES))
    assert "Corvane" not in str(env.render())
    assert "Dusmore" in str(env.render())
    _, reward, terminated, truncated, info = env.step(np.int64(0))
    assert (reward, terminated, truncated, info["usage"]["turns"]) == (0.0, False, False, 1)


def test_every_feature_is_documented_and_has_its_column() -> None:
    documented = str(f.__doc__)
    for name in [*f.FEATURES, *f.GLOBAL_FEATURES]:
        assert f"`{name}`" in documented, name
    for column, name in enumerate(f.FEATURES):
        assert getattr(f, name.upper()) == column


def test_bad_arguments(small: str) -> None:
    with pytest.raises(ConfigError, match="at least 24"):
        made(small, k=23)
    with pytest.raises(ConfigError, match="cache_searches=-1"):
        made(small, cache_searches=-1)
    with pytest.raises(ConfigError, match="unknown reset options"):
        made(small).reset(options={"tasks": "s0"})


def test_no_step_before_reset_or_after_the_end(small: str) -> None:
    env = made(small)
    with pytest.raises(EpisodeOver):
        env.step(0)
    with pytest.raises(EpisodeOver):
        env.action_masks()
    play(env, lingering(np.random.default_rng(0)), 0)
    with pytest.raises(EpisodeOver):
        env.step(0)


def test_score_and_reward_are_those_of_the_text_environment(small: str) -> None:
    env = made(small, "8k", reward=SearchReward(beta=2.0))
    _, reward, info = play(env, lingering(np.random.default_rng(1)), 1)
    assert env.text.episode is not None
    record = env.text.episode.trajectory(env=env.text.name, fingerprint=env.text.fingerprint())
    outcome = env.text.outcome(record)
    assert (reward, info["score"], info["reward_terms"]) == (outcome.reward, outcome.score.value, outcome.terms)
    assert not replay(env.text, record, score=outcome.score).problems
    env.set_reward(SearchReward(beta=4.0))
    assert env.text.reward_config == SearchReward(beta=4.0)


# -- determinism ------------------------------------------------------------------------------------------------------


def test_same_seed_and_actions_same_bytes_whatever_was_played_before(small: str) -> None:
    fresh = [fingerprint(play(made(small), lingering(np.random.default_rng(s)), s)[0]) for s in range(3)]
    env = made(small)
    for s in (4, 2, 1):
        play(env, lingering(np.random.default_rng(s + 9)), s)
    again = [fingerprint(play(env, lingering(np.random.default_rng(s)), s)[0]) for s in range(3)]
    assert again == fresh


def test_same_bytes_in_another_process(small: str) -> None:
    program = (
        "import sys, numpy as np\n"
        "from tests.envs.prune_search.candidate_play import fingerprint, lingering, made, play\n"
        "print(fingerprint(play(made(sys.argv[1]), lingering(np.random.default_rng(5)), 5)[0]))\n"
    )
    found = {fingerprint(play(made(small), lingering(np.random.default_rng(5)), 5)[0])}
    for hash_seed in ("1", "2"):
        surroundings = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program, small], env=surroundings, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1


def test_kept_rankings_change_nothing(small: str) -> None:
    plain, keeping = made(small), made(small, cache_searches=3)
    for seed in (0, 1, 0):
        lives = []
        for env in (plain, keeping):
            seen, reward, _ = play(env, lingering(np.random.default_rng(seed)), seed)
            assert env.text.episode is not None
            lives.append((fingerprint(seen), reward, env.text.episode.trajectory()))
        assert lives[0] == lives[1]


def test_a_builder_in_an_agent_sees_what_the_environment_shows(small: str) -> None:
    env = made(small, "2k")
    observations, _, _ = play(env, lingering(np.random.default_rng(2)), 2)
    episode = env.text.open("s2", seed=2)
    own = builder(env.text, episode.task, env.k)
    rng, seen = np.random.default_rng(2), []
    candidates = own.update(episode.view)
    seen.append(candidates)
    while episode.stop is None:
        observation = {"candidates": candidates.features, "action_mask": candidates.mask}
        turn = candidates.turns[lingering(rng)(env, observation)]
        candidates = own.update(asyncio.run(episode.step(turn)))
        seen.append(candidates)
    assert len(seen) == len(observations)
    for candidates, shown in zip(seen, observations, strict=True):
        assert np.array_equal(candidates.features, shown["candidates"])
        assert np.array_equal(candidates.mask, shown["action_mask"])
        assert np.array_equal(candidates.overview, shown["global"])


# -- vectors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", ["sync", "async", "async-unshared"])
def test_vectors(small: str, kind: str, mode: AutoresetMode) -> None:
    """Each member of a vector lives the episode that it lives alone, in every autoreset mode."""
    makers = [lambda: made(small, "2k")] * 3
    if kind == "sync":
        vector: Any = SyncVectorEnv(makers, autoreset_mode=mode)
    else:
        vector = AsyncVectorEnv(makers, shared_memory=kind == "async", autoreset_mode=mode)
    alone = made(small, "2k")
    try:
        observations, _ = vector.reset(seed=[0, 1, 2])
        expected, _ = alone.reset(seed=0)
        finished = 0
        for step in range(40):
            actions = np.array(
                [np.flatnonzero(mask)[-1 - step % 2 if mask.sum() > 1 else -1] for mask in observations["action_mask"]]
            )
            for key, value in expected.items():
                assert np.array_equal(observations[key][0], value)
            assert vector.single_observation_space.contains({key: value[0] for key, value in observations.items()})
            observations, rewards, terminations, truncations, infos = vector.step(actions)
            expected, reward, terminated, _, _ = alone.step(int(actions[0]))
            assert (rewards[0], terminations[0], truncations[0]) == (reward, terminated, False)
            if terminations.any():
                finished += 1
                final = infos["final_obs"][0] if mode is AutoresetMode.SAME_STEP else None
                if terminations[0]:
                    break
                if mode is AutoresetMode.DISABLED:
                    observations, _ = vector.reset(options={"reset_mask": terminations})
        assert finished
        if mode is AutoresetMode.SAME_STEP:
            assert all(np.array_equal(final[key], value) for key, value in expected.items())
            assert infos["final_info"]["stop"][0] == "turn_limit"
        else:
            assert infos["stop"][0] == "turn_limit"
    finally:
        vector.close()


# -- the actions suffice ----------------------------------------------------------------------------------------------


def mean(tasks: str, policy: Policy, metric: str, profile: str, episodes: int) -> float:
    env = made(tasks, profile)
    return float(np.mean([play(env, policy, seed)[2]["metrics"][metric] for seed in range(episodes)]))


@pytest.mark.parametrize(("tasks", "profile", "episodes"), [("small", "8k", 6), ("sample", "24k-eval", 24)])
def test_a_linear_policy_beats_a_single_search(
    request: pytest.FixtureRequest, tasks: str, profile: str, episodes: int
) -> None:
    folder = request.getfixturevalue("small") if tasks == "small" else tasks
    for metric, margin in (("trajectory_recall", 0.2), ("final_answer_found", 0.1)):
        better, worse = (mean(folder, policy, metric, profile, episodes) for policy in (greedy, single))
        assert better > worse + margin, metric


@pytest.mark.parametrize("profile", ["24k-eval", "8k"])
def test_who_knows_what_is_relevant_brings_it_and_nothing_else(small: str, profile: str) -> None:
    assert mean(small, informed, "recall", profile, 6) == 1.0
    assert mean(small, informed, "precision", profile, 6) == 1.0


def test_who_knows_what_is_relevant_meets_nearly_all_of_a_generated_set() -> None:
    assert mean("sample", informed, "trajectory_recall", "24k-eval", 24) > 0.9
