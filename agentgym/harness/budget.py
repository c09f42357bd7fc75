"""How much of a tool's output goes into the window: whole parts while they fit, the last one cut."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.records import Part
from agentgym.core.tokens import Counter
from agentgym.harness.profiles import Profile

CUT = "\n[cut]"


def free_tokens(profile: Profile, used: int) -> int:
    """Tokens that tool results may still use when `used` are: the reserve for the answer is taken off. 0 without a budget."""
    budget = profile.budget_tokens
    return 0 if budget is None else max(0, budget - used - profile.reserve_tokens)


def call_cap(profile: Profile, left: int) -> int:
    """Tokens one call may bring when `left` are free: the cap, or max(floor, left // 2) when less than the cap is left."""
    if profile.call_tokens is None:
        return left
    if left >= profile.call_tokens:
        return profile.call_tokens
    return min(left, max(profile.call_floor_tokens, left // 2))


def fit(parts: Sequence[Part], cap: int, counter: Counter) -> list[Part]:
    """The leading parts that fit into `cap` tokens; the first that does not is cut to what is left.

    A cut part keeps its chunk id: the agent has met the chunk and can prune it. Where not even a line of it fits, it is
    left out.
    """
    kept: list[Part] = []
    for part in parts:
        if part.tokens <= cap:
            kept.append(part)
            cap -= part.tokens
            continue
        mark = counter.count(CUT)
        text = counter.cut(part.text, cap - mark)
        header, _, body = text.partition("\n")
        if body.strip() or (part.chunk is None and header):
            kept.append(Part(text + CUT, part.chunk, min(counter.count(text) + mark, cap)))
        break
    return kept
