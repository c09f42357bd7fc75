from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.evaluation.statistics import (
    Estimate,
    estimate,
    estimates,
    mcnemar,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    passes,
)

EMPTY = Estimate(None, None, None, 0)


def beta_binomial(tasks: int, trials: int, seed: int) -> tuple[list[float], list[str]]:
    """Yes/no outcomes of tasks whose difficulty varies as on real suites: p ~ Beta(.6, .6), mean .5."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, tasks)
    values = [float(rng.random() < p[i]) for i in range(tasks) for _ in range(trials)]
    return values, [f"t{i:03}" for i in range(tasks) for _ in range(trials)]


# -- degenerate input


def test_nothing_has_no_mean() -> None:
    assert estimate([]) == EMPTY
    assert estimate([None, None, float("nan")]) == EMPTY
    assert estimates({}, []) == {}
    assert estimates({"a": [], "b": []}, []) == {"a": EMPTY, "b": EMPTY}


def test_one_episode_has_a_mean_and_no_interval() -> None:
    assert estimate([0.25]) == Estimate(0.25, None, None, 1)
    assert estimate([None, 0.25, None]) == Estimate(0.25, None, None, 1)


def test_one_task_is_resampled_over_its_trials_and_one_cluster_over_its_tasks() -> None:
    one_task = estimate([0.0, 1.0] * 10, ["t"] * 20)
    assert one_task.mean == 0.5
    assert one_task.lo is not None
    assert 0.2 < one_task.lo < 0.4
    values, tasks = beta_binomial(40, 1, 0)
    assert estimate(values, tasks, ["same"] * 40) == estimate(values, tasks)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert estimate([0.3] * 7) == Estimate(0.3, 0.3, 0.3, 7)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ConfigError, match="one entry for each of the 2 episodes"):
        estimates({"a": [1.0]}, ["t0", "t1"])
    with pytest.raises(ConfigError, match="level=95"):
        estimate([1.0, 2.0], level=95)


# -- what the mean is


def test_the_score_is_the_mean_of_task_means() -> None:
    found = estimate([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert found.mean == 0.5
    assert found.n == 4


def test_none_is_left_out_of_its_metric_alone() -> None:
    found = estimates({"a": [1.0, None, 0.0], "b": [1.0, 1.0, 1.0]}, ["t0", "t1", "t2"])
    assert (found["a"].mean, found["a"].n) == (0.5, 2)
    assert (found["b"].mean, found["b"].n) == (1.0, 3)
    trials = estimate([1.0, None, 0.0, 0.0], ["t0", "t0", "t1", "t1"])  # t0's mean is over the trial it has
    assert (trials.mean, trials.n) == (0.5, 3)


columns = st.lists(
    st.tuples(st.none() | st.floats(-1e6, 1e6), st.sampled_from("abcdef"), st.sampled_from(["", "x", "y"])),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(columns)
def test_an_interval_lies_within_the_data(rows: list[tuple[float | None, str, str]]) -> None:
    cluster = {task: group for _, task, group in rows}
    values = [value for value, _, _ in rows]
    found = estimate(values, [t for _, t, _ in rows], [cluster[t] for _, t, _ in rows], draws=200)
    present = [value for value in values if value is not None]
    assert found.n == len(present)
    if not present:
        assert found == EMPTY
        return
    low, high = min(present) - 1e-5, max(present) + 1e-5
    assert found.mean is not None
    assert low <= found.mean <= high
    if found.lo is None or found.hi is None:
        assert found.n == 1
    else:
        assert low <= found.lo <= found.hi <= high


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.floats(-5, 5))
def test_shifting_all_values_shifts_the_estimate(values: list[float], shift: float) -> None:
    base = estimate(values, draws=300)
    moved = estimate([value + shift for value in values], draws=300)
    for a, b in ((base.mean, moved.mean), (base.lo, moved.lo), (base.hi, moved.hi)):
        assert a is not None
        assert b is not None
        assert b == pytest.approx(a + shift, abs=1e-5)


def test_a_metric_does_not_depend_on_those_beside_it() -> None:
    values, tasks = beta_binomial(30, 3, 1)
    alone = estimate(values, tasks)
    beside = estimates({"x": [None] * 90, "m": values, "y": [1.0] * 90}, tasks)["m"]
    assert alone == beside


# -- intervals


def test_the_interval_is_the_binomial_one_where_both_exist() -> None:
    values = [1.0] * 60 + [0.0] * 140
    found = estimate(values)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 200)
    assert found.lo == pytest.approx(0.3 - half, abs=0.01)
    assert found.hi == pytest.approx(0.3 + half, abs=0.01)


def test_the_interval_covers_the_truth_and_clusters_widen_it() -> None:
    covered = 0
    for seed in range(120):
        values, tasks = beta_binomial(60, 3, seed)
        found = estimate(values, tasks, draws=500)
        assert found.lo is not None
        assert found.hi is not None
        covered += found.lo <= 0.5 <= found.hi
    assert covered >= 108  # 95 % of 120 is 114; below 108 has p < .01
    values, tasks = beta_binomial(60, 1, 0)
    ordered = sorted(values)  # clusters of six tasks that agree
    apart = estimate(ordered, tasks)
    together = estimate(ordered, tasks, [f"c{i // 6}" for i in range(60)])
    assert apart.mean == together.mean
    assert apart.lo is not None
    assert together.lo is not None
    assert together.lo < apart.lo - 0.05


def test_more_trials_narrow_the_interval() -> None:
    widths = []
    for trials in (1, 5):
        values, tasks = beta_binomial(200, trials, 3)
        found = estimate(values, tasks)
        assert found.hi is not None
        assert found.lo is not None
        widths.append(found.hi - found.lo)
    assert widths[1] < 0.9 * widths[0]


def test_numbers_are_pinned() -> None:
    values, tasks = beta_binomial(50, 2, 7)
    assert estimate(values, tasks) == estimate(values, tasks)
    skewed = [value + i / 1000 for i, value in enumerate(values)]
    assert estimate(skewed, tasks) != estimate(skewed, tasks, seed=1)
    # By hand: x alone is drawn a quarter of the time, and then both trials of task a, twice, are 0 a sixteenth of it
    # (1.6 %, below 2.5 %); the next lowest value is (0 + 0.125 + 2 × 0.5) / 4.
    small = estimate([0.0, 0.25, 0.5, 1.0], ["a", "a", "b", "c"], ["x", "x", "x", "y"])
    assert small == Estimate(0.541667, 0.28125, 1.0, 4)


def test_numbers_do_not_depend_on_hash_seed_or_order() -> None:
    values, tasks = beta_binomial(20, 1, 5)
    reverse = estimate(values[::-1], tasks[::-1])
    assert reverse == estimate(values, tasks)
    code = (
        "from agentgym.evaluation.statistics import estimate;"
        "print(estimate([0.0, 1.0, 1.0, 0.5], ['b', 'a', 'c', 'a'], ['y', 'x', 'z', 'x']))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(said) == 1


# -- comparing two runs


def test_a_paired_difference_sees_what_two_intervals_do_not() -> None:
    rng = np.random.default_rng(0)
    hard = {(f"t{i}", 0): float(rng.random()) for i in range(100)}
    better = {key: value + 0.05 + 0.01 * float(rng.standard_normal()) for key, value in hard.items()}
    found = paired_difference(better, hard)
    assert found.lo is not None
    assert found.lo > 0.04
    a, b = estimate(list(better.values())), estimate(list(hard.values()))
    assert a.lo is not None
    assert b.hi is not None
    assert a.lo < b.hi  # the intervals overlap


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), st.floats(0, 1), min_size=1), st.data())
def test_a_difference_turns_with_its_arguments(first: dict[tuple[str, int], float], data: st.DataObject) -> None:
    second = {key: data.draw(st.none() | st.floats(0, 1)) for key in first}
    one, other = paired_difference(first, second, draws=200), paired_difference(second, first, draws=200)
    assert one.n == other.n == sum(value is not None for value in second.values())
    if one.mean is not None and other.mean is not None:
        assert one.mean == pytest.approx(-other.mean, abs=2e-6)


def test_pairs_are_formed_over_common_episodes() -> None:
    found = paired_difference(
        {("a", 0): 1.0, ("b", 0): 1.0, ("c", 0): None}, {("a", 0): 0.0, ("c", 0): 0.0, ("d", 0): 1.0}
    )
    assert (found.mean, found.n) == (1.0, 1)
    with pytest.raises(ConfigError, match="no \\(task, trial\\) in common"):
        paired_difference({("a", 0): 1.0}, {("b", 0): 1.0})


def test_mcnemar_is_the_exact_test() -> None:
    def outcomes(
        pairs: list[tuple[int, int]],
    ) -> tuple[dict[tuple[str, int], float | None], dict[tuple[str, int], float | None]]:
        return (
            {(str(i), 0): float(a) for i, (a, _) in enumerate(pairs)},
            {(str(i), 0): float(b) for i, (_, b) in enumerate(pairs)},
        )

    found = mcnemar(*outcomes([(1, 0)] * 9 + [(0, 1)] + [(1, 1)] * 5 + [(0, 0)] * 3))
    assert (found.both, found.only_first, found.only_second, found.neither) == (5, 9, 1, 3)
    assert found.p == pytest.approx(2 * (1 + 10) / 2**10)
    assert mcnemar({}, {}).p == 1.0
    assert mcnemar(*outcomes([(1, 1)] * 4)).p == 1.0
    large = mcnemar(*outcomes([(1, 0)] * 3000 + [(0, 1)] * 100))
    assert large.p == 0.0  # below every float that is printed, and no overflow
    assert mcnemar({("a", 0): None}, {("a", 0): 1.0}).both == 0


# -- pass@k, pass^k


@pytest.mark.parametrize(("successes", "trials"), [(0, 4), (1, 4), (3, 5), (5, 5)])
def test_pass_k_counts_the_draws(successes: int, trials: int) -> None:
    results = [True] * successes + [False] * (trials - successes)
    for k in range(1, trials + 1):
        draws = list(itertools.combinations(results, k))
        assert pass_at_k(successes, trials, k) == pytest.approx(sum(map(any, draws)) / len(draws))
        assert pass_hat_k(successes, trials, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@pytest.mark.parametrize(("successes", "trials", "k"), [(3, 2, 1), (-1, 2, 1), (1, 2, 3), (1, 2, 0)])
def test_impossible_counts_are_refused(successes: int, trials: int, k: int) -> None:
    with pytest.raises(ConfigError, match="need 0 <= successes"):
        pass_at_k(successes, trials, k)
    with pytest.raises(ConfigError, match="need 0 <= successes"):
        pass_hat_k(successes, trials, k)


def test_passes_average_over_tasks_with_enough_trials() -> None:
    at, hat = passes([1.0, 0.0, 1.0, 1.0, 0.0, None], ["a", "a", "b", "b", "c", "c"], k=2)
    assert (at.mean, at.n) == (1.0, 2)  # c has one trial with a value
    assert (hat.mean, hat.n) == (0.5, 2)
    values, tasks = beta_binomial(100, 4, 0)
    curve = [passes(values, tasks, k=k) for k in (1, 2, 4)]
    ats = [at.mean for at, _ in curve if at.mean is not None]
    hats = [hat.mean for _, hat in curve if hat.mean is not None]
    assert ats == sorted(ats)
    assert hats == sorted(hats, reverse=True)
    assert ats[0] == hats[0]
    assert passes([], [], k=1) == (EMPTY, EMPTY)
    with pytest.raises(ConfigError, match="k=0"):
        passes([1.0], ["a"], k=0)
