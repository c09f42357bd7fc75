"""The profiles of PruneSearch: an episode's limits and what its tools give, by name."""

from __future__ import annotations

from agentgym.core.errors import ConfigError, UnknownName
from agentgym.harness.profiles import Profile

_LEAST = {"shown": 1, "candidates": 1, "grep_chunks": 1, "answer_chunks": 1, "chunk_tokens": 8, "chunk_slack": 0}


class SearchProfile(Profile, frozen=True, kw_only=True):
    """Limits of an episode, and of its search tools.

    `shown` and `candidates` are per search call, `grep_chunks` per grep call, `answer_chunks` is how many returned ids
    count (report §1; shown, candidates and answer_chunks from the co-author's code, arXiv 2606.02373). `prune=False`
    takes the prune tool away; `sources=True` gives `search_corpus` its `sources` argument (our extension). `chunk_tokens`
    and `chunk_slack` say how a corpus is cut that is indexed for the profile, unless its task set pins that itself.
    """

    prune: bool = True
    sources: bool = False
    shown: int = 10
    candidates: int = 50
    grep_chunks: int = 5
    answer_chunks: int = 30
    chunk_tokens: int = 512
    chunk_slack: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ConfigError(f"profile {self.name!r}: {name}={value!r} must be a whole number of at least {least}")


PROFILES = {
    profile.name: profile
    for profile in (
        SearchProfile(name="32k"),
        # Evaluation shows no soft message (report: training rollouts only) and allows 64 turns; lines scaled to the budget.
        SearchProfile(name="24k-eval", budget_tokens=24_576, soft_tokens=None, hard_tokens=18_244, max_turns=64),
        SearchProfile(
            name="200k-no-prune",
            budget_tokens=200_000,
            soft_tokens=None,
            hard_tokens=None,
            max_turns=64,
            prune=False,
        ),
        SearchProfile(
            name="8k",
            budget_tokens=8_192,
            soft_tokens=4_096,
            hard_tokens=6_081,
            call_tokens=2_048,
            call_floor_tokens=256,
            reserve_tokens=400,
            max_turns=64,
        ),
        SearchProfile(
            name="2k",
            budget_tokens=2_048,
            soft_tokens=1_024,
            hard_tokens=1_520,
            call_tokens=640,
            call_floor_tokens=128,
            reserve_tokens=160,
            max_turns=32,
            shown=3,
            answer_chunks=10,
        ),
        # Words and punctuation marks, for policies with a small vocabulary of their own; chunks of at most 32.
        SearchProfile(
            name="tiny",
            counter="words",
            budget_tokens=256,
            soft_tokens=None,
            hard_tokens=200,
            call_tokens=80,
            call_floor_tokens=24,
            reserve_tokens=64,
            max_turns=16,
            max_calls=4,
            shown=2,
            grep_chunks=2,
            answer_chunks=5,
            usage_line=False,
            chunk_tokens=24,
            chunk_slack=8,
        ),
        SearchProfile(name="multi-source", sources=True),
        # The report's walk-through: no cap a call, and a result that does not fit is refused instead of cut.
        SearchProfile(name="walkthrough", call_tokens=None, oversize="refuse", reserve_tokens=0),
    )
}


def profile(name: str) -> SearchProfile:
    """The profile of that name."""
    if name not in PROFILES:
        raise UnknownName("profile", name, PROFILES)
    return PROFILES[name]
