"""Randomness that gives the same bytes everywhere, and the small template language that pages and clues are made with.

Only `random.Random.random()` is used, the one method whose sequence Python promises to keep for a seed; NumPy's generators
may change their streams between versions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentgym.core.seeding import derive

T = TypeVar("T")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


class Dice:
    """A stream of random decisions for one named purpose."""

    __slots__ = ("_random",)

    def __init__(self, seed: int, *names: object) -> None:
        self._random = random.Random(derive(seed, *names)).random

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in random order (Fisher-Yates)."""
        result = list(items)
        for i in range(len(result) - 1, 0, -1):
            j = self.below(i + 1)
            result[i], result[j] = result[j], result[i]
        return result

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """At most `k` different items in random order."""
        return self.shuffled(items)[:k]


def expand(template: str, dice: Dice, slot: Callable[[str], str]) -> str:
    """Resolve `[a|b]` choices by the dice, then `{name}` slots by `slot`; one slot is asked once for each occurrence."""
    text = _CHOICE.sub(lambda match: dice.pick(match.group(1).split("|")), template)
    return _SLOT.sub(lambda match: slot(match.group(1)), text)


def capital(text: str) -> str:
    """The text with its first letter raised."""
    return text[:1].upper() + text[1:]
