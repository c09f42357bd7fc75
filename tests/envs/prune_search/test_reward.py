"""The reward by its formula, and every term against the hack that it stops, played as real episodes.

Terms sum to the reward by construction; the last bit of a float is the only tolerance (1e-12).
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.records import CallResult, Step, StopReason, ToolCall, Trajectory, Truth, Turn, Usage
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.envs.prune_search.reward import SearchReward, prune_penalty, reward_terms, turn_penalty
from tests.envs.prune_search.world import answer, grep, live, play, prune, search, turn

CHAIN = [turn(search("Ardle bridge")), turn(search("Ilse Marden")), turn(search("Ganmouth river"))]
NEEDED = ["b0_0", "p0_0", "t0_1"]  # one chunk a fact; the last holds the answer
TRUTH = Truth("t", "prune-search", {"relevant": ["a_0", "b_0"], "answer_ids": ["b_0"]})


def results(*names: str) -> Step:
    """A step whose calls had these outcomes: `name` or `name!kind`."""
    split = [name.partition("!") for name in names]
    return Step(Turn(), results=tuple(CallResult(name, kind or None) for name, _, kind in split))


def trajectory(*steps: Step, text: str = "", stop: StopReason | None = StopReason.ANSWER) -> Trajectory:
    return Trajectory("PruneSearch-v0", "", "t", "", 0, (), (*steps, Step(Turn(text))), stop, Usage())


def rewarded(env: PruneSearchEnv, turns: list[Turn], task: str = "s0") -> tuple[float, dict[str, float]]:
    _, reward, info = play(env, task, turns)
    assert math.isclose(sum(info["reward_terms"].values()), reward, abs_tol=1e-12)
    return reward, info["reward_terms"]


# -- the formula ------------------------------------------------------------------------------------------------------


def test_terms_are_the_reports_numbers() -> None:
    shown = Step(Turn(), shown=("a_0", "b_0", "x_0"))
    prunes = results(*["prune_chunks"] * 6)
    idle = [results("grep_corpus")] * (96 - 3)
    terms = reward_terms(TRUTH, trajectory(shown, prunes, *idle, text='<Document id="a_0">'), SearchReward())
    assert terms == {
        "f_beta": pytest.approx(0.7 * (17 * 1.0 * 0.5) / (16 * 1.0 + 0.5)),
        "trajectory_recall": 0.3,
        "answer": 0.0,
        "prune_run": pytest.approx(-0.3),
        "turns": pytest.approx(-0.25),
        "clamp": 0.0,
    }


def test_penalties_stop_at_the_floor_and_never_raise_the_reward() -> None:
    spam = results(*["prune_chunks"] * 20)
    idle = [results("grep_corpus")] * 126
    terms = reward_terms(TRUTH, trajectory(Step(Turn(), shown=("a_0",)), spam, *idle, text="x"), SearchReward())
    assert sum(terms.values()) == pytest.approx(0.001)
    assert terms["clamp"] == pytest.approx(0.001 - (0.15 - 0.5 - 0.5))
    # Without an answer there is no floor to fall back on, but nothing below 0 either.
    silent = trajectory(Step(Turn(), shown=("a_0",)), spam, *idle, stop=StopReason.TURN_LIMIT)
    assert sum(reward_terms(TRUTH, silent, SearchReward()).values()) == pytest.approx(0.0)


@pytest.mark.parametrize(("turns", "penalty"), [(0, 0), (64, 0), (65, 0.5 / 64), (96, 0.25), (128, 0.5), (500, 0.5)])
def test_turns_are_free_up_to_64_and_cost_half_at_128(turns: int, penalty: float) -> None:
    assert turn_penalty(turns, SearchReward()) == pytest.approx(penalty)


@pytest.mark.parametrize(
    ("calls", "surplus"),
    [
        (["prune_chunks"] * 3, 0),
        (["prune_chunks"] * 4, 1),
        (["prune_chunks"] * 9, 5),  # at most 0.5
        (["prune_chunks"] * 3 + ["search_corpus"] + ["prune_chunks"] * 3, 0),
        (["prune_chunks!unknown_chunk"] * 5, 2),  # failed ones are calls too
        (["prune_chunks"] * 3 + ["fly!unknown_tool"] + ["prune_chunks"], 1),  # and hide nothing
        (["prune_chunks"] * 3 + ["search_corpus!over_budget"] + ["prune_chunks"] * 2, 2),
        (["prune_chunks"] * 4 + ["grep_corpus"] + ["prune_chunks"] * 4, 2),
    ],
)
def test_prune_calls_beyond_three_in_a_run_cost(calls: list[str], surplus: int) -> None:
    expected = pytest.approx(min(0.5, 0.1 * surplus))
    assert prune_penalty(trajectory(results(*calls)), SearchReward()) == expected
    one_a_turn = [results(call) for call in calls]
    assert prune_penalty(trajectory(*one_a_turn), SearchReward()) == expected


def test_recall_of_facts_not_of_copies(env: PruneSearchEnv) -> None:
    _, terms = rewarded(env, [*CHAIN, answer(*NEEDED)])
    assert terms["f_beta"] == pytest.approx(0.7)
    assert terms["trajectory_recall"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.0},
        {"beta": -1.0},
        {"beta": float("nan")},
        {"f_weight": float("inf")},
        {"prune_cost": -0.1},
        {"free_turns": 128},
        {"beta": 1e200},
        {"beta": "4"},
        {"f_weight": None},
    ],
)
def test_settings_that_make_no_reward_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings)) + "="):
        SearchReward(**settings)


# -- hacks, played ----------------------------------------------------------------------------------------------------


def test_honest_play_earns_all_of_it(env: PruneSearchEnv) -> None:
    reward, terms = rewarded(env, [*CHAIN, answer(*NEEDED)])
    assert reward == pytest.approx(2.0)
    assert terms["answer"] == 1.0


def test_null_gets_the_floor(env: PruneSearchEnv) -> None:
    reward, terms = rewarded(env, [Turn()])
    assert reward == terms["clamp"] == 0.001


def test_returning_everything_pays_less_than_returning_what_is_needed(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", CHAIN)
    everything = live(view)
    assert set(NEEDED) < set(everything)
    honest, _ = rewarded(env, [*CHAIN, answer(*NEEDED)])
    greedy, terms = rewarded(env, [*CHAIN, answer(*everything)])
    assert terms["f_beta"] < 0.7
    assert greedy < honest
    env.set_reward(SearchReward(beta=2.0))  # later in training precision weighs more
    later, _ = rewarded(env, [*CHAIN, answer(*everything)])
    assert later < greedy


def test_one_safe_chunk_pays_less_than_all_with_some_noise(env: PruneSearchEnv) -> None:
    safe, terms = rewarded(env, [*CHAIN, answer("t0_1")])
    assert terms["answer"] == 1.0  # the answer's own chunk, at full precision
    noisy, _ = rewarded(env, [*CHAIN, answer(*NEEDED, "b1_0", "b2_0", "b3_0")])
    assert safe < noisy


def test_one_broad_search_and_stop_loses_the_trajectory_term(env: PruneSearchEnv) -> None:
    broad = turn(search("Which river flows past the birthplace of the designer of the Ardle bridge?"))
    view, _, _ = play(env, "s0", [broad])
    returned = [chunk for chunk in live(view) if chunk in NEEDED]
    assert set(returned) < set(NEEDED)
    stopped, stopped_terms = rewarded(env, [broad, answer(*returned)])
    went_on, went_on_terms = rewarded(env, [broad, *CHAIN[1:], answer(*returned)])
    assert stopped_terms["f_beta"] == went_on_terms["f_beta"]  # the same output: what was met makes the difference
    assert went_on_terms["trajectory_recall"] == pytest.approx(0.3)
    assert stopped < went_on


def test_what_was_met_counts_even_if_pruned(env: PruneSearchEnv) -> None:
    _, kept = rewarded(env, [*CHAIN, answer("t0_1")])
    _, pruned = rewarded(env, [*CHAIN, turn(prune("b0_0", "p0_0", "g0_0")), answer("t0_1")])
    assert kept == pruned


def test_pruning_chunk_by_chunk_costs_what_one_call_does_not(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", CHAIN)
    noise = [chunk for chunk in live(view) if chunk not in (*NEEDED, "g0_0")][:9]
    assert len(noise) == 9
    at_once, _ = rewarded(env, [*CHAIN, turn(prune(*noise)), answer(*NEEDED)])
    one_turn, terms = rewarded(env, [*CHAIN, turn(*[prune(chunk) for chunk in noise]), answer(*NEEDED)])
    assert terms["prune_run"] == pytest.approx(-0.5)
    one_by_one, _ = rewarded(env, [*CHAIN, *[turn(prune(chunk)) for chunk in noise], answer(*NEEDED)])
    assert at_once == pytest.approx(2.0)
    assert one_turn == one_by_one == pytest.approx(1.5)


def test_broken_calls_between_do_not_hide_a_run_of_prunes(env: PruneSearchEnv) -> None:
    broken = ToolCall("c0", "search_corpus", "{")
    spam = [turn(prune("no_0"), broken)] * 8
    _, terms = rewarded(env, [*CHAIN, *spam, answer(*NEEDED)])
    assert terms["prune_run"] == pytest.approx(-0.5)


def test_ten_thousand_prune_calls_in_a_turn(env: PruneSearchEnv) -> None:
    flood = Turn(tool_calls=tuple(ToolCall(f"c{i}", "prune_chunks", '{"chunk_ids": ["x_0"]}') for i in range(10_000)))
    reward, terms = rewarded(env, [*CHAIN, flood, answer(*NEEDED)])
    assert terms["prune_run"] == pytest.approx(-0.5)
    assert reward == pytest.approx(1.5)


def test_wandering_costs_by_the_turn(env: PruneSearchEnv) -> None:
    idle = [turn(grep("no such text"))] * 93
    reward, terms = rewarded(env, [*CHAIN, *idle, answer(*NEEDED)])
    assert terms["turns"] == pytest.approx(-0.5 * (97 - 64) / 64)
    assert reward == pytest.approx(2.0 + terms["turns"])


def test_wandering_until_the_turn_limit_returns_nothing(env: PruneSearchEnv) -> None:
    idle = [turn(grep("no such text"))] * 125
    _, reward, info = play(env, "s0", [*CHAIN, *idle])
    assert info["stop"] == "turn_limit"
    assert info["score"] == 0.0
    assert reward == 0.0
    terms = info["reward_terms"]
    assert terms["trajectory_recall"] == pytest.approx(0.3)
    assert terms["turns"] == -0.5
    assert sum(terms.values()) == reward


def test_repeating_an_id_a_hundred_times_changes_nothing(env: PruneSearchEnv) -> None:
    once = rewarded(env, [*CHAIN, answer(*NEEDED)])
    assert rewarded(env, [*CHAIN, answer(*[NEEDED[0]] * 100, *NEEDED[1:])]) == once


def test_guessing_ids_earns_nothing(env: PruneSearchEnv, truths: dict[str, Truth]) -> None:
    every_id = [f"{letter}{i}_{k}" for letter in "bpgtx" for i in range(6) for k in range(2)]
    assert set(truths["s0"].payload["relevant"]) <= set(every_id)
    reward, _ = rewarded(env, [answer(*every_id)])
    assert reward == 0.001


# -- annealing and bounds ---------------------------------------------------------------------------------------------


def test_beta_is_annealed_between_episodes(small: str) -> None:
    env = gym.make("PruneSearch-v0", tasks=small, reward=SearchReward(beta=4.0))
    base = env.unwrapped
    assert isinstance(base, PruneSearchEnv)
    played = [*CHAIN, answer(*NEEDED, "b1_0", "b2_0")]
    early, _ = rewarded(base, played)
    base.set_reward(SearchReward(beta=2.0))
    late, _ = rewarded(base, played)
    precision = 3 / 5
    assert early == pytest.approx(1.3 + 0.7 * 17 * precision / (16 * precision + 1))
    assert late == pytest.approx(1.3 + 0.7 * 5 * precision / (4 * precision + 1))
    with pytest.raises(ConfigError, match="SearchReward"):
        base.set_reward(SearchReward)  # type: ignore[arg-type]


def test_annealing_recomputes_from_what_is_stored(env: PruneSearchEnv) -> None:
    _, reward, _ = play(env, "s0", [*CHAIN, answer(*NEEDED, "b1_0")])
    assert env.episode is not None
    stored = env.episode.trajectory()
    assert env.outcome(stored).reward == reward
    env.set_reward(SearchReward(beta=1.0))
    assert env.outcome(stored).reward < reward


CHUNK = st.sampled_from(["a_0", "b_0", "x_0", "y_0"])
NAMES = st.sampled_from(
    ["prune_chunks", "prune_chunks!unknown_chunk", "search_corpus", "fly!unknown_tool", "!malformed"]
)


@given(
    shown=st.lists(CHUNK),
    returned=st.lists(CHUNK),
    calls=st.lists(NAMES, max_size=30),
    idle=st.integers(0, 200),
    stop=st.sampled_from([*StopReason, None]),
    beta=st.floats(0.01, 100),
)
def test_reward_lies_between_0_and_2_and_its_terms_sum_to_it(
    shown: list[str], returned: list[str], calls: list[str], idle: int, stop: StopReason | None, beta: float
) -> None:
    made = trajectory(
        Step(Turn(), shown=tuple(shown)),
        results(*calls),
        *[results("grep_corpus")] * idle,
        text="\n".join(returned),
        stop=stop,
    )
    terms = reward_terms(TRUTH, made, SearchReward(beta=beta))
    total = sum(terms.values())
    assert -1e-12 <= total <= 2 + 1e-12
    before = terms["f_beta"] + terms["trajectory_recall"] + terms["answer"]
    assert total <= max(before, 0.001) + 1e-12
    if stop is StopReason.ANSWER:
        assert total >= 0.001 - 1e-12
    assert terms == reward_terms(TRUTH, made, SearchReward(beta=beta))
