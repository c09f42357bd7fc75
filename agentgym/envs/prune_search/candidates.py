"""The environment `PruneSearchCandidates-v0`: the episodes of `PruneSearch-v0`, with the next calls as numbered candidates."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from agentgym.core.errors import ConfigError, EpisodeOver
from agentgym.core.records import Record, Task, Turn
from agentgym.envs.base import ToolEnv
from agentgym.envs.prune_search.builder import CandidateBuilder, Candidates
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.envs.prune_search.features import FEATURES, GLOBAL_FEATURES
from agentgym.envs.prune_search.notes import library
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.reward import SearchReward
from agentgym.envs.prune_search.tools import Rankings
from agentgym.harness.episode import Episode

Observation = dict[str, NDArray[np.float32]]


class PruneSearchCandidatesEnv(gym.Env[Observation, np.int64]):
    """## Description
    `PruneSearch-v0` for policies that score candidates instead of writing text: at each step the environment lists the
    concrete calls that make sense next, described by numbers, and the agent picks one. Episodes, tools, budget, score and
    reward are those of the text environment, which this one drives; `env.unwrapped.text` is it.

    ## Observation
    A dictionary of float32 arrays, all in [0, 1]:
    - `global` (G,): the episode so far, see `features.GLOBAL_FEATURES`.
    - `candidates` (K, F): one row a candidate, see `features.FEATURES`; rows without a candidate are 0.
    - `action_mask` (K,): 1 where the candidate can be chosen.

    Candidates are queries made from the question (whole, its clues, names, rare words, clauses), queries and patterns for
    names that were read, alone and with the words of clues not covered yet, reads of documents met, prunes of each chunk in
    view, prunes of all but the best 5, 10 or 20, and answers that return the best 5, 10, 20 or all chunks in view, or the
    best 10 or 20 ever met, by standing (see `leads`).

    ## Action
    `Discrete(K)`: the candidate's row. An action that the mask allows never gives an error result, and one is always
    allowed. The mask leaves out what the budget would refuse (past the hard line all but prunes and answers), and as long as
    anything else can be done, the empty answer. A query that brought nothing, a read of what is in view, and an answer
    equal to another are not listed. Anything else, a masked row, a number out of range, no number at all, is a turn lost:
    it is answered with an error result and counted as one, as malformed text is in the text environment.

    ## Reward, episode end, info
    As in `PruneSearch-v0`: 0 until the end, then the terms in `info["reward_terms"]`.

    ## Arguments
    - `tasks`, `index`, `profile`, `retrieval`, `reward`: as in `PruneSearch-v0`.
    - `k`: number of candidates, at least 24. Long lists are cut by promise and standing.
    - `cache_searches`: how many rankings to keep, shared by all environments of the process over one index; 0 for none.
      Rankings are pure functions of query and exclusions, so episodes are the same with and without.
    - `render_mode`: `"ansi"` or None.

    ## Version history
    - v0: first version.
    """

    metadata: ClassVar[dict[str, Any]] = ToolEnv.metadata  # type: ignore[misc]

    def __init__(
        self,
        tasks: str = "sample",
        *,
        index: str | None = None,
        profile: str | SearchProfile = "32k",
        retrieval: str | None = None,
        reward: SearchReward | None = None,
        k: int = 64,
        cache_searches: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if cache_searches < 0:
            raise ConfigError(f"cache_searches={cache_searches} must be 0 or more")
        self.text = PruneSearchEnv(
            tasks, index=index, profile=profile, retrieval=retrieval, reward=reward, render_mode=render_mode
        )
        if cache_searches:
            self.text.rankings = _rankings(self.text.index.hash, cache_searches)
        self.render_mode = render_mode
        self.k = k
        self.observation_space = Dict(
            {
                "global": Box(0.0, 1.0, (len(GLOBAL_FEATURES),), np.float32),
                "candidates": Box(0.0, 1.0, (k, len(FEATURES)), np.float32),
                "action_mask": Box(0.0, 1.0, (k,), np.float32),
            }
        )
        self.action_space = Discrete(k)
        self.candidates: Candidates | None = None
        self._builder = builder(self.text, self.text.tasks[0], k)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; seeds and options as in the text environment."""
        super().reset(seed=seed)
        view, info = self.text.reset(seed=seed, options=options)
        self._builder = builder(self.text, self._episode.task, self.k)
        self.candidates = self._builder.update(view)
        return _observation(self.candidates), info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Make the chosen call.

        Raises:
            EpisodeOver: before `reset` or after the end.
        """
        if self.candidates is None:
            raise EpisodeOver("PruneSearchCandidates-v0: call reset before step")
        view, reward, terminated, truncated, info = self.text.step(chosen(self.candidates, action))
        self.candidates = self._builder.update(view)
        return _observation(self.candidates), float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask as bool (K,), under the name that sb3-contrib looks for."""
        if self.candidates is None:
            raise EpisodeOver("PruneSearchCandidates-v0: call reset before action_masks")
        return self.candidates.mask > 0

    def set_reward(self, config: Record) -> None:
        """Replace the reward settings; takes effect with the next episode that ends."""
        self.text.set_reward(config)

    def render(self) -> str | None:  # type: ignore[override]
        """The current view as text, for `render_mode="ansi"`."""
        return self.text.render()

    @property
    def _episode(self) -> Episode:
        assert self.text.episode is not None
        return self.text.episode


def builder(env: PruneSearchEnv, task: Task, k: int = 64) -> CandidateBuilder:
    """The candidate builder for one episode of a task: what an agent is handed that acts by candidates."""
    return CandidateBuilder(library(env.index), env.search_profile, task.prompt, k)


def chosen(candidates: Candidates, action: Any) -> Turn:
    """The turn of a candidate; for an action that is not allowed, a turn that the harness answers with an error."""
    place = _number(action)
    if 0 <= place < len(candidates.turns) and candidates.mask[place]:
        return candidates.turns[place]
    return Turn(malformed=f"action {str(action)[:40]} is not allowed now: choose one that the mask allows")


def _number(action: Any) -> int:
    """An integer of any kind, alone in an array or not, as an int; -1 for all else."""
    if isinstance(action, np.ndarray) and action.size == 1:
        action = action.item()
    return int(action) if isinstance(action, int | np.integer) else -1


def _observation(candidates: Candidates) -> Observation:
    return {
        "global": candidates.overview,
        "candidates": candidates.features,
        "action_mask": candidates.mask,
    }


@functools.lru_cache(maxsize=8)
def _rankings(index_hash: str, size: int) -> Rankings:
    return Rankings(size)
