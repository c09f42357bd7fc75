"""Play over PruneSearchCandidates-v0: profiles to play it in, policies from random to informed, and what to look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.candidates import PruneSearchCandidatesEnv
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.score import SearchTruth

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


def single(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
    """One search with the question, then everything that it showed."""
    return (of_kind(observation, f.FINISH)[-1:] or of_kind(observation, f.WHOLE))[0]


def greedy(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
    """Linear in the features: queries not made yet by promise, sweeps when the window fills, an answer after ten searches."""
    weights = np.zeros(len(f.FEATURES))
    overview = dict(zip(f.GLOBAL_FEATURES, observation["global"].tolist(), strict=True))
    weights[[f.SEARCH, f.WHOLE, f.PROMISE, f.USED, f.COUNT]] = 1.0, 3.0, 2.0, -20.0, 1.0
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
