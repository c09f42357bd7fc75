"""What the harness would run now, and what it would refuse: the candidates' mask by the profile's arithmetic.

The same rules as `harness.budget` and `harness.episode`, asked ahead of the call. Where a result's size is not known
before it is made, the answer errs on the side of refusing: a search is offered while the beginning of any chunk would fit
(under `oversize="refuse"`, while the largest chunks would).
"""

from __future__ import annotations

from agentgym.core.records import Turn
from agentgym.envs.prune_search.notes import SHORT_CHARS, Library
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.harness.budget import call_cap, free_tokens

PRUNE_RESULT_TOKENS = 24
"""A prune's own result, one line, takes no more."""

_SHORT_TOKENS = 1_024  # more than a call of `SHORT_CHARS` has: a character has four bytes at most, a token one at least


class Room:
    """The room that is left when `used` tokens are in the context."""

    __slots__ = ("_easy", "_library", "free", "profile", "prune_only", "used")

    def __init__(self, profile: SearchProfile, library: Library, used: int) -> None:
        self.profile = profile
        self.used = used
        self.free = free_tokens(profile, used)
        self.prune_only = profile.budget_tokens is not None and past(profile.hard_tokens, used)
        self._library = library
        self._easy = self.cap(_SHORT_TOKENS)

    def cap(self, call_tokens: int) -> int:
        """Tokens that a call of this size could bring."""
        return call_cap(self.profile, free_tokens(self.profile, self.used + call_tokens))

    def prunes(self, call: Turn) -> bool:
        """Whether a prune is run and its result fits."""
        return self.profile.prune and self.brings(call, PRUNE_RESULT_TOKENS)

    def needs(self, chunks: int) -> int | None:
        """Tokens that a call which brings up to `chunks` chunks must be able to bring; None where none is run."""
        profile, library = self.profile, self._library
        if self.prune_only:
            return None
        if profile.budget_tokens is None:
            return 0
        return library.start_tokens if profile.oversize == "truncate" else chunks * library.chunk_tokens

    def brings(self, call: Turn, tokens: int | None) -> bool:
        """Whether a one-call turn can bring so many tokens; None is never."""
        if tokens is None:
            return False
        made = call.tool_calls[0]
        if self.easily(tokens) and len(made.arguments) <= SHORT_CHARS:
            return True
        if self.profile.budget_tokens is None or self.cap(len(made.name) + len(made.arguments.encode())) >= tokens:
            return True
        return self.cap(self._library.count(made.name) + self._library.count(made.arguments)) >= tokens

    def easily(self, tokens: int | None) -> bool:
        """Whether every call with short arguments can bring so many tokens."""
        return tokens is not None and (self._easy >= tokens or self.profile.budget_tokens is None)

    def answers(self, text: str) -> bool:
        """Whether an answer fits into the budget."""
        budget = self.profile.budget_tokens
        if budget is None or self.used + len(text.encode()) <= budget:
            return True
        return self.used + self._library.count(text) <= budget

    def share(self, tokens: int) -> float:
        """Tokens as a share of the budget; 0 without one."""
        budget = self.profile.budget_tokens
        return tokens / budget if budget else 0.0


def past(line: int | None, used: int) -> bool:
    """Whether a line is there and passed."""
    return line is not None and used > line
