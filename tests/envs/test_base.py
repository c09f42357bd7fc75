"""`ToolEnv` as a Gymnasium environment, on the third party's example that the README shows."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym as ag
from agentgym import testing
from agentgym.core.errors import ConfigError, EpisodeOver, UnknownName
from agentgym.core.graph import View, grow
from agentgym.core.records import Message, Part, Record, ToolCall, Turn
from agentgym.envs.base import ToolEnv, run
from agentgym.rollouts.manifest import Planned
from agentgym.rollouts.play import Player
from tests.lookup_env import PROFILE, TASKS, LookupEnv, LookupTools

LOOK = Turn(tool_calls=(ToolCall("c0", "lookup", '{"key": "k00"}'),))


@pytest.fixture
def made() -> Iterator[gym.Env[View, Turn]]:
    gym.register("Lookup-v0", entry_point=LookupEnv)
    yield gym.make("Lookup-v0")
    del gym.registry["Lookup-v0"]


class WaitingTools(ag.Toolset):
    @ag.tool
    async def wait(self, turns: int) -> str:
        """Give others their turn."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"waited {turns}"


class WaitingEnv(LookupEnv):
    name, tools = "Waiting-v0", WaitingTools

    def toolset(self, task: ag.Task, seed: int) -> WaitingTools:  # type: ignore[override]
        return WaitingTools()


class DiceTools(ag.Toolset):
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    @ag.tool
    def roll(self) -> str:
        """A number of the episode's generator."""
        return str(self.rng.integers(10**9))


class DiceEnv(LookupEnv):
    name, tools = "Dice-v0", DiceTools

    def toolset(self, task: ag.Task, seed: int) -> DiceTools:  # type: ignore[override]
        return DiceTools(np.random.default_rng(seed))


def test_both_checkers_pass(made: gym.Env[View, Turn]) -> None:
    check_env(made.unwrapped)
    testing.check_env(LookupEnv(), seeds=range(2), turns=10)
    testing.check_replay(LookupEnv(), tasks=2)
    testing.check_integrity(LookupEnv(), tasks=2)


def test_an_episode(made: gym.Env[View, Turn]) -> None:
    view, info = made.reset(seed=3)
    assert info == {"task": "t3", "usage": {"tokens_in": 0, "tokens_out": 0, "calls": 0, "turns": 0, "context": 0}}
    assert view.messages[0].text == "Find the value of k03. Tools: lookup(key)."
    view, reward, terminated, truncated, info = made.step(LOOK)
    assert (view.messages[-1].text, reward, terminated, truncated) == ("v00", 0.0, False, False)
    assert "score" not in info
    _, reward, terminated, truncated, info = made.step(Turn("v21"))
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["score"], info["stop"], info["reward_terms"], info["metrics"]) == (1.0, "answer", {"outcome": 1.0}, {})
    assert info["usage"]["turns"] == 2
    with pytest.raises(EpisodeOver):
        made.step(LOOK)
    made.reset(seed=3)
    assert made.step(Turn("wrong"))[1] == 0.0


def test_the_generator_is_gymnasiums_though_seeded_when_asked_for() -> None:
    env = LookupEnv()
    env.reset(seed=7)
    assert env.np_random_seed == 7
    assert env.np_random.random(3).tolist() == seeding.np_random(7)[0].random(3).tolist()
    drawn = env.np_random
    env.reset()  # without a seed it goes on
    assert env.np_random is drawn
    env.reset(seed=7)
    assert env.np_random.random(3).tolist() == seeding.np_random(7)[0].random(3).tolist()
    for seed in (-1, "7"):
        with pytest.raises(gym.error.Error, match="Seed must be"):
            env.reset(seed=seed)  # type: ignore[arg-type]


def test_seeds_and_options_select_tasks() -> None:
    env = LookupEnv()
    assert [env.reset(seed=seed)[1]["task"] for seed in (0, 5, 16, 21)] == ["t0", "t5", "t0", "t5"]
    assert env.reset(seed=1, options={"task": "t9"})[1]["task"] == "t9"
    env.reset(seed=8)
    drawn = [env.reset()[1]["task"] for _ in range(5)]
    env.reset(seed=8)
    assert [env.reset()[1]["task"] for _ in range(5)] == drawn
    with pytest.raises(UnknownName, match="unknown task 't99'; did you mean t9"):
        env.reset(options={"task": "t99"})
    with pytest.raises(ConfigError, match=r"unknown reset options \['level'\]; offered: \['task'\]"):
        env.reset(options={"level": 3})


def test_the_generator_is_the_seed_s() -> None:
    env, roll = DiceEnv(), Turn(tool_calls=(ToolCall("c0", "roll", "{}"),))

    def rolled(**options: Any) -> str:
        env.reset(**options)
        return env.step(roll)[0].messages[-1].text

    assert rolled(seed=1) == rolled(seed=1) != rolled(seed=2)
    env.reset(seed=1)
    assert rolled() != rolled()
    episode = env.open("t1", 1)
    asyncio.run(episode.step(roll))
    assert episode.view.messages[-1].text == rolled(seed=1)
    env.reset(seed=1)
    info = env.reset()[1]  # no seed: the episode's own is drawn, and recorded
    assert env.episode is not None
    again = env.open(info["task"], env.episode.seed)
    assert env.step(roll)[0].id == again.step_sync(roll).id


def test_wrong_use_says_what_to_do() -> None:
    env = LookupEnv()
    with pytest.raises(EpisodeOver, match="call reset before step"):
        env.step(LOOK)
    env.reset(seed=0)
    for action in ("text", None, 5, {"content": "x"}):
        with pytest.raises(ConfigError, match=r"an action is an agentgym\.Turn, not .*TextActions"):
            env.step(action)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="render_mode='human'"):
        LookupEnv(render_mode="human")
    with pytest.raises(UnknownName, match="unknown agent 'nul'; did you mean null"):
        env.agent("nul")
    with pytest.raises(ConfigError, match="the task set is empty"):
        ToolEnv.__init__(LookupEnv.__new__(LookupEnv), [], PROFILE)
    with pytest.raises(ConfigError, match="task ids are not unique"):
        ToolEnv.__init__(LookupEnv.__new__(LookupEnv), [TASKS[0], TASKS[0]], PROFILE)


def test_rendering() -> None:
    env = LookupEnv(render_mode="ansi")
    assert env.render() is None
    env.reset(seed=0)
    env.step(LOOK)
    shown = env.render()
    assert shown is not None
    assert shown.startswith("user: Find the value of k00.")
    assert 'assistant: <tool_call>{"name": "lookup", "arguments": {"key": "k00"}}</tool_call>' in shown
    assert shown.endswith("tool: v00")
    silent = LookupEnv()
    silent.reset(seed=0)
    assert silent.render() is None


class Rates(Record, frozen=True):
    each: float = 0.5


def test_reward_settings_are_replaced_and_terms_sum() -> None:
    class Priced(LookupEnv):
        def reward_terms(self, truth: ag.Truth, trajectory: ag.Trajectory, score: ag.Score) -> dict[str, float]:
            assert isinstance(self.reward_config, Rates)
            return {"outcome": score.value or 0.0, "turns": -self.reward_config.each * len(trajectory.steps)}

    env = Priced()
    env.reward_config = Rates()
    env.reset(seed=0)
    assert env.step(Turn("v00"))[1] == 0.5
    env.set_reward(Rates(0.25))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(Turn("v00"))
    assert reward == sum(info["reward_terms"].values()) == 0.75
    with pytest.raises(ConfigError, match="must be a Rates, not Profile"):
        env.set_reward(PROFILE)


def test_a_task_without_truth_scores_none() -> None:
    env = LookupEnv()
    env.truths = {}
    env.reset(seed=0)
    _, reward, _, _, info = env.step(Turn("v00"))
    assert (reward, info["score"], info["reward_terms"]) == (0.0, None, {})


def test_the_fingerprint_is_of_what_may_change_a_score() -> None:
    first = LookupEnv().fingerprint()
    assert LookupEnv().fingerprint() == first

    class Reworded(LookupEnv):
        def opening(self, task: ag.Task) -> Sequence[ag.Message]:
            return [ag.Message("system", (ag.Part("Be quick."),)), *super().opening(task)]

    class Rescored(LookupEnv):
        scorer_version = "2"

    class Retooled(LookupEnv):
        class tools(LookupTools):  # noqa: N801
            @ag.tool
            def lookup(self, key: str) -> str:
                """Something else."""
                return ""

    assert len({first, *(kind().fingerprint() for kind in (Reworded, Rescored, Retooled))}) == 4
    env = LookupEnv()
    env.profile = ag.Profile(name="lookup", budget_tokens=None, max_turns=11)
    assert env.fingerprint() != first


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_synchronous_vector_environments(mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([LookupEnv] * 3, autoreset_mode=mode)
    views, _ = vector.reset(seed=[0, 1, 2])
    assert [view.messages[0].text[18:21] for view in views] == ["k00", "k01", "k02"]
    views, rewards, terminated, *_ = vector.step((Turn("v00"), LOOK, Turn("no")))
    assert terminated.tolist() == [True, False, True]
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert isinstance(views[1], View)
    if mode is AutoresetMode.DISABLED:
        vector.reset(options={"reset_mask": terminated})
    views, *_ = vector.step((LOOK, Turn("v07"), LOOK))
    assert len(views) == 3
    vector.close()


def test_asynchronous_vector_environments_without_shared_memory() -> None:
    vector = AsyncVectorEnv([partial(LookupEnv)] * 2, shared_memory=False, context="spawn")
    try:
        views, _ = vector.reset(seed=[0, 1])
        assert [view.messages[0].text[18:21] for view in views] == ["k00", "k01"]
        views, rewards, terminated, _, _ = vector.step((LOOK, Turn("v07")))
        assert views[0].messages[-1].text == "v00"
        assert rewards.tolist() == [0.0, 1.0]
        assert terminated.tolist() == [False, True]
    finally:
        vector.close()


def test_shared_memory_is_refused_not_corrupted() -> None:
    with pytest.raises((ValueError, gym.error.Error)):
        AsyncVectorEnv([partial(LookupEnv)], context="spawn")


class Policy:
    """A fixed list of turns."""

    name = "script"

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns

    def begin(self, brief: object) -> Policy:
        return Policy(list(self.turns))

    async def act(self, view: View) -> Turn:
        return self.turns.pop(0) if self.turns else Turn("done")  # type: ignore[attr-defined]


turns = st.lists(
    st.builds(
        Turn,
        content=st.text(max_size=10),
        tool_calls=st.lists(
            st.builds(
                ToolCall,
                st.text(max_size=3),
                st.sampled_from(["lookup", "wait", "nosuch"]),
                st.sampled_from(['{"key": "k01"}', '{"turns": 3}', '{"turns": 0}', "{", "\x00"]),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    ),
    max_size=5,
)


@settings(deadline=None)
@given(turns, st.sampled_from([LookupEnv, WaitingEnv]), st.integers(0, 40))
def test_leaf_ids_are_equal_through_gymnasium_and_through_the_runner(
    made: list[Turn], kind: type[LookupEnv], seed: int
) -> None:
    env = kind()
    view, info = env.reset(seed=seed)
    leaves, terminated = [], False
    for turn in [*made, Turn("done")]:
        view, _, terminated, _, _ = env.step(turn)
        leaves.append(view.id)
    assert terminated
    _, trajectory = asyncio.run(Player(kind(), Policy(made)).play(Planned(info["task"], 0, seed)))
    assert [step.leaf for step in trajectory.steps] == leaves


def test_steps_work_inside_a_running_loop() -> None:
    async def notebook() -> str:
        env = WaitingEnv()
        env.reset(seed=0)
        return env.step(Turn(tool_calls=(ToolCall("c0", "wait", '{"turns": 2}'),)))[0].messages[-1].text

    assert asyncio.run(notebook()) == "waited 2"


def test_run_works_inside_a_running_loop_and_hands_errors_over() -> None:
    async def value() -> int:
        return 5

    async def broken() -> int:
        raise KeyError("x")

    async def outer() -> None:
        assert run(value()) == 5
        with pytest.raises(KeyError):
            run(broken())

    asyncio.run(outer())
    assert run(value()) == 5


def test_deep_views_pickle_and_copies_are_free() -> None:
    view = View(grow(None, [Message("user", (Part(f"message {i}"),)) for i in range(1000)]), kept=999)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(view, protocol))
        assert back == view
        assert back.messages == view.messages
    assert copy.deepcopy([view])[0] is view
    env = LookupEnv()
    env.profile = ag.Profile(name="long", budget_tokens=None, max_turns=2000)
    env.reset(seed=0)
    for _ in range(500):
        view = env.step(LOOK)[0]
    assert pickle.loads(pickle.dumps(view)).id == view.id


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31 - 1))
def test_sampled_actions_never_raise(seed: int) -> None:
    env = LookupEnv()
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for _ in range(20):
        action = env.action_space.sample()
        assert action in env.action_space
        view, _, terminated, truncated, _ = env.step(action)
        assert view in env.observation_space
        assert not truncated
        if terminated:
            env.reset()
