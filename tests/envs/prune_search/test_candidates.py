"""PruneSearchCandidates-v0: conformance, the exact mask, illegal actions, vectors, and that its actions suffice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError, EpisodeOver
from agentgym.core.records import StopReason, Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.candidates import PruneSearchCandidatesEnv, builder, chosen
from agentgym.envs.prune_search.notes import library
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.reward import SearchReward
from agentgym.envs.prune_search.score import SearchTruth
from agentgym.rollouts.replay import replay

Policy = Callable[[PruneSearchCandidatesEnv, dict[str, Any]], int]
PLAYED = ["24k-eval", "32k", "8k", "2k", "tiny", "200k-no-prune", "walkthrough"]
ODD = [
    SearchProfile(name="no-lines", budget_tokens=1_400, soft_tokens=None, hard_tokens=None, call_tokens=300,
                  call_floor_tokens=32, reserve_tokens=100, max_turns=40),
    SearchProfile(name="refusing", budget_tokens=2_000, soft_tokens=900, hard_tokens=1_500, call_tokens=None,
                  reserve_tokens=60, oversize="refuse", max_turns=40, shown=4),
    SearchProfile(name="unlimited", budget_tokens=None, max_turns=40),
]  # fmt: skip


def made(tasks: str, profile: str | SearchProfile = "24k-eval", **more: Any) -> PruneSearchCandidatesEnv:
    return PruneSearchCandidatesEnv(tasks, profile=profile, **more)


def allowed(observation: dict[str, Any]) -> list[int]:
    found: list[int] = np.flatnonzero(observation["action_mask"]).tolist()
    return found


def of_kind(observation: dict[str, Any], *columns: int) -> list[int]:
    """Allowed candidates with all of these features set."""
    rows = observation["candidates"]
    return [place for place in allowed(observation) if all(rows[place, column] > 0 for column in columns)]


def lingering(rng: np.random.Generator) -> Policy:
    """Random play that answers seldom, so that episodes fill their window."""

    def act(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
        others = sorted(set(allowed(observation)) - set(of_kind(observation, f.FINISH)))
        return int(rng.choice(others if others and rng.random() < 0.97 else allowed(observation)))

    return act


def play(
    env: PruneSearchCandidatesEnv, policy: Policy, seed: int
) -> tuple[list[dict[str, Any]], float, dict[str, Any]]:
    """Play an episode; returns the observations, the reward and the last info."""
    observation, info = env.reset(seed=seed)
    seen, reward, terminated = [observation], 0.0, False
    while not terminated:
        observation, reward, terminated, _, info = env.step(policy(env, observation))
        seen.append(observation)
    return seen, reward, info


def errors(env: PruneSearchCandidatesEnv) -> list[str]:
    """Kinds of error in the last turn."""
    assert env.text.episode is not None
    return [result.error for result in env.text.episode.last_step.results if result.error is not None]


def fingerprint(seen: list[dict[str, Any]]) -> str:
    arrays = [observation[key].tobytes() for observation in seen for key in sorted(observation)]
    return hashlib.sha256(b"".join(arrays)).hexdigest()


# -- conformance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [*PLAYED, *ODD], ids=str)
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
    with pytest.raises(ConfigError, match="at least 16"):
        made(small, k=15)
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
        "from tests.envs.prune_search.test_candidates import fingerprint, lingering, made, play\n"
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


# -- the mask ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [*PLAYED, *ODD], ids=str)
def test_what_the_mask_allows_never_fails(plain: str, profile: str | SearchProfile) -> None:
    env = made(plain, profile)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        observation, terminated = env.reset(seed=seed)[0], False
        while not terminated:
            assert env.observation_space.contains(observation)
            assert allowed(observation)
            assert np.array_equal(env.action_masks(), observation["action_mask"] > 0)
            observation, _, terminated, _, info = env.step(lingering(rng)(env, observation))
            assert errors(env) == []
        assert info["stop"] in ("answer", "turn_limit")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["24k-eval", "8k", "2k", "tiny"]), st.integers(0, 5), st.lists(st.integers(0, 63), max_size=40))
def test_any_choice_that_the_mask_allows_gives_a_result(
    plain: str, profile: str, seed: int, choices: list[int]
) -> None:
    env = made(plain, profile)
    observation, _ = env.reset(seed=seed)
    for choice in choices:
        places = allowed(observation)
        observation, _, terminated, _, _ = env.step(places[choice % len(places)])
        assert errors(env) == []
        if terminated:
            break


@pytest.mark.parametrize("profile", ["2k", "tiny", *ODD[:2]], ids=str)
def test_what_the_mask_forbids_would_fail(plain: str, profile: str | SearchProfile) -> None:
    """Past the hard line every forbidden call is refused. Before it, only calls are held back whose result might not fit."""
    env, tried = made(plain, profile), 0
    limits, shared = env.text.search_profile, library(env.text.index)
    least = shared.start_tokens if limits.oversize == "truncate" else limits.budget_tokens
    assert limits.budget_tokens is not None
    assert least is not None
    past_hard, cap = (f.GLOBAL_FEATURES.index(name) for name in ("past_hard", "call_cap"))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        actions: list[int] = []
        observation, terminated = env.reset(seed=seed)[0], False
        while not terminated:
            assert env.candidates is not None
            forbidden = [i for i in range(len(env.candidates.turns)) if not observation["action_mask"][i]]
            if forbidden:
                error = _error_of(env, seed, actions, env.candidates.turns[int(rng.choice(forbidden))])
                tight = observation["global"][cap] * limits.budget_tokens < least + 64
                assert error == "over_budget" if observation["global"][past_hard] else error or tight
                tried += 1
            actions.append(lingering(rng)(env, observation))
            observation, _, terminated, _, _ = env.step(actions[-1])
    assert tried


def _error_of(env: PruneSearchCandidatesEnv, seed: int, actions: list[int], turn: Turn) -> str | None:
    """What becomes of a turn after these actions: the kind of error, for a broken budget too, or None."""
    episode = env.text.open(env.text.tasks[seed % len(env.text.tasks)].id, seed=seed)
    own = builder(env.text, episode.task, env.k)
    candidates = own.update(episode.view)
    for action in actions:
        candidates = own.update(episode.step_sync(candidates.turns[action]))
    episode.step_sync(turn)
    kinds = [result.error for result in episode.last_step.results if result.error]
    return kinds[0] if kinds else "over_budget" if episode.stop is StopReason.CONTEXT_EXHAUSTED else None


def test_past_the_hard_line_only_prunes_and_answers(small: str) -> None:
    env = made(small, "2k")
    past_hard, seen = f.GLOBAL_FEATURES.index("past_hard"), 0
    for seed in range(6):
        observations, _, _ = play(env, lingering(np.random.default_rng(seed)), seed)
        for observation in observations[:-1]:
            kinds = observation["candidates"][allowed(observation), : f.FINISH + 1].any(axis=0)
            if observation["global"][past_hard]:
                seen += 1
                assert not kinds[[f.SEARCH, f.READ, f.GREP]].any()
            assert kinds.any()
    assert seen


def test_nothing_is_listed_twice_or_in_vain(small: str) -> None:
    env = made(small)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        observation, terminated = env.reset(seed=seed)[0], False
        while not terminated:
            assert env.candidates is not None
            assert env.text.episode is not None
            turns = env.candidates.turns
            assert len(set(map(repr, turns))) == len(turns)
            rows = observation["candidates"]
            assert (rows[: len(turns), : f.FINISH + 1].sum(axis=1) == 1).all()
            assert not rows[len(turns) :].any()
            action = lingering(rng)(env, observation)
            listed = rows[action]
            observation, _, terminated, _, _ = env.step(action)
            if listed[f.READ]:
                assert env.text.episode.last_step.shown
            if listed[f.SEARCH] and not env.text.episode.last_step.shown:
                assert turns[action] not in env.candidates.turns


def test_a_profile_without_pruning_lists_no_prunes(small: str) -> None:
    seen, _, _ = play(made(small, "200k-no-prune"), lingering(np.random.default_rng(0)), 0)
    assert not any(observation["candidates"][:, [f.PRUNE, f.SWEEP]].any() for observation in seen)


def test_named_sources(sources: str) -> None:
    env = made(sources, "multi-source")
    _, reward, info = play(env, lambda _, o: (of_kind(o, f.FINISH) or of_kind(o, f.WHOLE))[0], 0)
    assert info["metrics"]["recall"] == 1.0
    assert reward > 1.0


def test_few_places_hold_every_kind(small: str) -> None:
    env = made(small, k=16)
    kinds = sum(
        o["candidates"][:, : f.FINISH + 1].sum(axis=0) for o in play(env, lingering(np.random.default_rng(3)), 3)[0]
    )
    assert (kinds > 0).all()


# -- actions that are not allowed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [-1, 64, 10**12, None, "0", 1.5, float("nan"), [0], np.zeros(3), np.array(63), ()])
def test_an_illegal_action_is_a_turn_lost(small: str, action: Any) -> None:
    env = made(small)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["usage"]["turns"]) == (0.0, False, False, 1)
    assert errors(env) == ["malformed"]
    assert observation["global"][f.GLOBAL_FEATURES.index("failed")] == 1
    assert env.observation_space.contains(observation)
    while not terminated:
        _, _, terminated, _, info = env.step(action)
    assert info["metrics"]["invalid_call_rate"] == 1.0
    assert info["score"] == 0.0


def test_allowed_actions_in_other_clothes(small: str) -> None:
    env = made(small)
    env.reset(seed=0)
    assert env.candidates is not None
    turn = env.candidates.turns[2]
    for action in (2, np.int64(2), np.int32(2), np.uint8(2), np.array(2), np.array([2])):
        assert chosen(env.candidates, action) is turn


def test_two_thousand_hostile_turns_never_raise(plain: str) -> None:
    rng = np.random.default_rng(0)
    odd: list[Any] = [-1, 64, 2**70, None, "x", 0.5, np.nan, [1], np.ones(2), np.array(-3), True]
    for profile in ("24k-eval", "2k", "tiny", ODD[1]):
        env = made(plain, profile)
        observation, _ = env.reset(seed=0)
        for _ in range(500):
            action = odd[int(rng.integers(len(odd)))] if rng.random() < 0.3 else int(rng.integers(64))
            observation, reward, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            assert np.isfinite(reward)
            assert not truncated
            if terminated:
                observation, _ = env.reset()


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


def single(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
    """One search with the question, then everything that it showed."""
    return (of_kind(observation, f.FINISH)[-1:] or of_kind(observation, f.WHOLE))[0]


def greedy(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
    """Linear in the features: queries not made yet by promise, sweeps when the window fills, an answer after ten searches."""
    weights = np.zeros(len(f.FEATURES))
    overview = dict(zip(f.GLOBAL_FEATURES, observation["global"].tolist(), strict=True))
    weights[[f.SEARCH, f.WHOLE, f.PROMISE, f.USED]] = 1.0, 3.0, 2.0, -20.0
    weights[f.SWEEP] = 20.0 if overview["used"] > 0.5 else -20.0
    weights[[f.GREP, f.PRUNE, f.READ]] = -20.0
    weights[f.FINISH] = 30.0 if overview["searches"] >= 10 / 16 else -10.0
    scores = observation["candidates"] @ weights
    return max(allowed(observation), key=lambda place: scores[place])


def informed(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
    """Knows what is relevant: takes the search or read that would show most of it, prunes what is not, returns the rest."""
    assert env.candidates is not None
    assert env.text.episode is not None
    context, turns = env.text.episode.context, env.candidates.turns
    wanted = set(SearchTruth.of(env.text.truths[env.text.episode.task.id]).relevant)
    useless = [
        place
        for place in of_kind(observation, f.PRUNE)
        if json.loads(turns[place].tool_calls[0].arguments)["chunk_ids"][0] not in wanted
    ]
    if useless:
        return useless[0]
    missing = wanted - set(context.seen)
    gains = {}
    for place in of_kind(observation, f.SEARCH) if missing else ():
        query = json.loads(turns[place].tool_calls[0].arguments)["query"]
        rows = env.text.index.search(query, 10, exclude=list(context.seen))
        found = missing & {env.text.index.chunk(row).id for row in rows}
        used, promise = observation["candidates"][place, [f.USED, f.PROMISE]]
        gains[place] = (len(found), -used, promise)
    if gains:
        return max(gains, key=lambda place: gains[place])
    rows = observation["candidates"]
    in_view = [place for place in of_kind(observation, f.FINISH) if rows[place, f.LIVE] == 1]
    return max(in_view, key=lambda place: rows[place, f.COUNT])


def mean(small: str, policy: Policy, metric: str, profile: str = "8k") -> float:
    env = made(small, profile)
    return float(np.mean([play(env, policy, seed)[2]["metrics"][metric] for seed in range(6)]))


def test_a_linear_policy_beats_a_single_search(small: str) -> None:
    assert mean(small, greedy, "trajectory_recall") > mean(small, single, "trajectory_recall") + 0.2
    assert mean(small, greedy, "final_answer_found") >= mean(small, single, "final_answer_found")


@pytest.mark.parametrize("profile", ["24k-eval", "8k"])
def test_who_knows_what_is_relevant_brings_it_and_nothing_else(small: str, profile: str) -> None:
    assert mean(small, informed, "recall", profile) == 1.0
    assert mean(small, informed, "precision", profile) == 1.0
