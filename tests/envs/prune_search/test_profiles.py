"""Profiles hold the report's numbers, are frozen, and keep every episode within its budget."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from agentgym.agents.base import Brief
from agentgym.core.errors import ConfigError, UnknownName
from agentgym.core.tokens import counter
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.envs.prune_search.profiles import PROFILES, SearchProfile, profile
from agentgym.harness.profiles import Profile
from tests.envs.prune_search.world import grep, last, live, play, prune, read, search, turn

AGENTS = ("random", "malformed", "single-search", "everything", "greedy", "greedy-prune", "oracle")


def test_the_default_profile_is_the_reports() -> None:
    limits = profile("32k")
    assert (limits.budget_tokens, limits.soft_tokens, limits.hard_tokens) == (32_768, 16_384, 24_326)
    assert (limits.call_tokens, limits.call_floor_tokens, limits.max_turns) == (4_096, 512, 128)
    assert (limits.candidates, limits.shown, limits.grep_chunks, limits.answer_chunks) == (50, 10, 5, 30)
    assert (limits.chunk_tokens, limits.chunk_slack) == (512, 100)
    assert limits == SearchProfile(name="32k")


def test_every_profile_is_known_by_its_name() -> None:
    assert list(PROFILES) == ["32k", "24k-eval", "200k-no-prune", "8k", "2k", "tiny", "multi-source", "walkthrough"]
    assert all(profile(name).name == name for name in PROFILES)
    with pytest.raises(UnknownName, match="unknown profile '24k_eval'; did you mean 24k-eval"):
        profile("24k_eval")


@pytest.mark.parametrize("name", [name for name, limits in PROFILES.items() if limits.hard_tokens is not None])
def test_the_hard_line_lies_between_half_and_all_of_the_budget(name: str) -> None:
    limits = PROFILES[name]
    assert limits.budget_tokens is not None
    assert limits.hard_tokens is not None
    assert limits.budget_tokens / 2 < limits.hard_tokens < limits.budget_tokens
    assert limits.soft_tokens in (None, limits.budget_tokens // 2)


def test_the_soft_message_is_for_training_alone(small: str) -> None:
    assert PROFILES["24k-eval"].soft_tokens is None
    assert PROFILES["200k-no-prune"].soft_tokens is None
    for soft, said in ((400, True), (None, False)):
        limits = SearchProfile(name="x", soft_tokens=soft)
        view, _, _ = play(PruneSearchEnv(small, profile=limits), "s0", [turn(search("bridge mills"))])
        assert ("More than half" in last(view)) is said


def test_profiles_are_frozen_and_part_of_the_fingerprint(small: str) -> None:
    with pytest.raises(AttributeError):
        PROFILES["8k"].max_turns = 1  # type: ignore[misc]
    standard = PruneSearchEnv(small, profile="8k").fingerprint()
    assert PruneSearchEnv(small, profile=PROFILES["8k"]).fingerprint() == standard
    read_back = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(PROFILES["8k"])), type=SearchProfile)
    assert PruneSearchEnv(small, profile=read_back).fingerprint() == standard
    for change in ({"max_turns": 9}, {"shown": 3}, {"answer_chunks": 29}, {"hard_tokens": 6_000}):
        changed = msgspec.structs.replace(PROFILES["8k"], **change)
        assert PruneSearchEnv(small, profile=changed).fingerprint() != standard


def test_a_profile_of_another_kind_is_refused(small: str) -> None:
    with pytest.raises(ConfigError, match="must be a name or a SearchProfile, not Profile"):
        PruneSearchEnv(small, profile=Profile(name="x"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="hard_tokens=9 must lie in"):
        SearchProfile(name="x", budget_tokens=8, reserve_tokens=0, soft_tokens=None, hard_tokens=9)


@pytest.mark.parametrize("name", ["shown", "candidates", "grep_chunks", "answer_chunks", "chunk_tokens", "chunk_slack"])
@pytest.mark.parametrize("value", [-1, float("nan"), "3"])
def test_a_limit_that_is_no_count_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.* must be a whole number"):
        SearchProfile(name="x", **{name: value})  # type: ignore[arg-type]


def test_reward_settings_of_another_kind_are_refused(small: str) -> None:
    with pytest.raises(ConfigError, match="reward must be a SearchReward, not dict"):
        PruneSearchEnv(small, reward={"beta": 3})  # type: ignore[arg-type]


def budget_kept(env: PruneSearchEnv, agent: str, task: str) -> None:
    """Play an agent and compare every view with the budget and with a count of its own texts."""
    limits = env.search_profile
    tokens = counter(limits.counter)
    policy = env.agent(agent).begin(Brief(env.task(task), env.specs, 7, limits.budget_tokens, limits.max_turns))
    view, _ = env.reset(seed=7, options={"task": task})
    terminated = False
    while not terminated:
        action = asyncio.run(policy.act(view))
        view, _, terminated, truncated, info = env.step(action)
        assert not truncated
        used = info["usage"]["context"]
        assert used == view.tokens
        if info.get("stop") != "context_exhausted":
            assert limits.budget_tokens is not None
            assert used <= limits.budget_tokens
        counted = sum(tokens.count(part.text) for message in view.messages for part in message.parts if not part.chunk)
        said = sum(part.tokens for message in view.messages for part in message.parts if not part.chunk)
        assert said == counted


@pytest.mark.parametrize("name", list(PROFILES))
def test_agents_stay_within_the_budget_of_every_profile(plain: str, name: str) -> None:
    env = PruneSearchEnv(plain, profile=name)
    for agent in AGENTS:
        budget_kept(env, agent, "s0")


def test_the_2k_profile_has_room_for_a_search_and_goes_on_after_a_prune(plain: str) -> None:
    env = PruneSearchEnv(plain, profile="2k")
    view, _, _ = play(env, "s0", [turn(search("Ardle bridge"))])
    assert live(view)
    view, _, _, _, _ = env.step(turn(search("Ilse Marden")))
    view, _, _, _, _ = env.step(turn(prune(*live(view))))
    view, _, terminated, _, info = env.step(turn(read("t0")))
    assert live(view)[0].startswith("t0_")
    assert not terminated
    assert info["usage"]["context"] < 2_048


def test_the_tiny_profile_counts_words_and_cuts_small_chunks(plain: str) -> None:
    env = PruneSearchEnv(plain, profile="tiny")
    assert env.index.settings.counter == "words"
    assert max(env.index.chunk(row).tokens for row in range(len(env.index))) <= 32
    assert env.search_profile.budget_tokens == 256
    view, _, info = play(env, "s0", [turn(search("Ardle bridge")), turn(grep("Ilse Marden was born"))])
    assert len(live(view)) >= 2
    assert info["usage"]["context"] <= 256
    assert "Token usage" not in view.messages[-1].text


def test_a_truth_that_names_chunks_binds_the_profile_to_their_counter(small: str) -> None:
    with pytest.raises(ConfigError, match="cut by counter 'o200k', profile 'tiny' counts by 'words'"):
        PruneSearchEnv(small, profile="tiny")


def test_multi_source_alone_offers_sources(sources: str) -> None:
    for name, limits in PROFILES.items():
        env = PruneSearchEnv(sources, profile=name)
        search_spec = next(spec for spec in env.specs if spec.name == "search_corpus")
        assert ("sources" in search_spec.parameters["properties"]) is limits.sources is (name == "multi-source")
