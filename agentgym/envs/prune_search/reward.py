"""The training reward of Context-1: r = clamp(0.7·F_β + 0.3·r_traj + r_fa − p_prune − p_turn, ε, r_pre).

Every term stops a way of being paid for nothing; `tests/envs/prune_search/test_reward.py` plays each of them.

| term | stops |
|---|---|
| f_beta | returning everything (precision) or one safe chunk (recall, weighed β² times) |
| trajectory_recall | collapse to one broad search: what was met counts even if it was pruned or not returned |
| answer | fetching surroundings and missing the answer |
| prune_run | pruning by many calls in a row, to look busy or to empty the window; a failed call between does not hide it |
| turns | wandering on until the turn limit |
| clamp | a penalty that turns an honest try into less than nothing: floor ε, and never above the value before penalties |
"""

from __future__ import annotations

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record, StopReason, Trajectory, Truth
from agentgym.envs.prune_search.score import f_beta, found

_LARGEST = 1e9  # its square and sums of such terms are finite, so that no reward can be NaN


class SearchReward(Record, frozen=True, kw_only=True):
    """Settings of the reward; defaults are the report's (§1 Reward), `floor` is from the co-author's code.

    `beta` starts at 4 and is annealed to 2 between epochs; the schedule belongs to training. Recall in F_β and in r_traj
    is fact-level (our choice: a fact that stands in two chunks need be brought only once; equal to chunk-level recall
    where each fact stands in one). An episode that ends without an answer has no floor: its `clamp` stops at 0.
    """

    beta: float = 4.0
    f_weight: float = 0.7
    trajectory_weight: float = 0.3
    answer_bonus: float = 1.0
    prune_free_calls: int = 3
    prune_cost: float = 0.1
    prune_max: float = 0.5
    free_turns: int = 64
    full_turns: int = 128
    turn_max: float = 0.5
    floor: float = 0.001

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value <= _LARGEST):
                raise ConfigError(f"{name}={value} must be a number from 0 to {_LARGEST:g}")
        if self.beta == 0:
            raise ConfigError("beta=0 leaves recall out of F_β: give a positive number")
        if self.full_turns <= self.free_turns:
            raise ConfigError(f"full_turns={self.full_turns} must exceed free_turns={self.free_turns}")


def prune_penalty(trajectory: Trajectory, config: SearchReward) -> float:
    """0.1 for each call beyond 3 in a run of consecutive prune calls, at most 0.5 in all.

    A run goes on over turns, and prune calls that failed belong to it. Only a call that gave a result ends it (our choice:
    else a call of a tool that does not exist, free of charge, would hide a run).
    """
    run = surplus = 0
    for result in (result for step in trajectory.steps for result in step.results):
        if result.name == "prune_chunks":
            run += 1
            surplus += run > config.prune_free_calls
        elif result.error is None:
            run = 0
    return min(config.prune_max, config.prune_cost * surplus)


def turn_penalty(turns: int, config: SearchReward) -> float:
    """0 up to `free_turns`, then linear to `turn_max` at `full_turns`."""
    over = (turns - config.free_turns) / (config.full_turns - config.free_turns)
    return config.turn_max * min(1.0, max(0.0, over))


def reward_terms(
    truth: Truth, trajectory: Trajectory, config: SearchReward, answer_chunks: int = 30
) -> dict[str, float]:
    """The reward's terms by name; they sum to the reward (`clamp` is the residual)."""
    got = found(truth, trajectory, answer_chunks)
    terms = {
        "f_beta": config.f_weight * f_beta(got.precision, got.fact_recall, config.beta),
        "trajectory_recall": config.trajectory_weight * got.trajectory_fact_recall,
        "answer": config.answer_bonus * (got.answer_found or 0.0),
    }
    before = sum(terms.values())
    terms["prune_run"] = 0.0 - prune_penalty(trajectory, config)
    terms["turns"] = 0.0 - turn_penalty(len(trajectory.steps), config)
    raw = sum(terms.values())
    floor = config.floor if trajectory.stop is StopReason.ANSWER else 0.0
    terms["clamp"] = max(floor, min(raw, before)) - raw
    return terms
