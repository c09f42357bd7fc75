"""What the candidates' mask allows never fails, what it forbids would, and what is not allowed is a turn lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.core.records import StopReason, Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.candidates import PruneSearchCandidatesEnv, builder, chosen
from agentgym.envs.prune_search.notes import library
from agentgym.envs.prune_search.profiles import SearchProfile
from tests.envs.prune_search.candidate_play import (
    ODD,
    PLAYED,
    allowed,
    errors,
    lingering,
    made,
    of_kind,
    play,
)

# -- the mask ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [*PLAYED, *ODD], ids=lambda profile: getattr(profile, "name", profile))
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


@pytest.mark.parametrize("profile", ["2k", "tiny", *ODD[:2]], ids=lambda profile: getattr(profile, "name", profile))
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
                held_back = env.candidates.turns[int(rng.choice(forbidden))]
                error = _error_of(env, seed, actions, held_back)
                if held_back.tool_calls and held_back.tool_calls[0].name == "prune_chunks":
                    continue  # held back where its result might not fit; what it frees may yet make it fit
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
    env = made(small, k=24)
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
