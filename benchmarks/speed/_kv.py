"""The game that `episode.py` measures harnesses by, in plain Python: no framework, nothing installed.

A table of sixteen values is drawn from a seed. An episode is a scripted run of lookups, each answered with the value and
padding, and one answer at the end. Every contestant plays the same one.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

QUESTION = "Find the value of k00. Tools: lookup(key)."
THOUGHT = "I should look this up."
CALL = re.compile(r"<tool>lookup (\w+)</tool>")
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.S)


def draw(seed: int | None) -> dict[str, str]:
    """The table of a seed."""
    rng = random.Random(seed)
    return {f"k{i:02d}": f"v{rng.randrange(100):02d}" for i in range(16)}


def padding(chars: int) -> str:
    """Words that make an observation long."""
    return ("the value stands here among other words of no use, " * (chars // 50 + 1))[:chars]


def keys(turns: int) -> list[str]:
    """What is looked up, turn by turn; the last turn is the answer."""
    return [f"k{i * 5 % 16:02d}" for i in range(turns - 1)]


def texts(turns: int) -> list[str]:
    """The episode as texts, for environments that parse them."""
    return [f"{THOUGHT} <tool>lookup {key}</tool>" for key in keys(turns)] + ["<answer>v00</answer>"]


def play(env: Any, actions: Sequence[Any], look: Callable[[Any], object] | None = None) -> Callable[[int], None]:
    """A function that plays a seed's episode; `look` is done to each observation."""

    def episode(seed: int) -> None:
        observation = env.reset(seed=seed)[0]
        if look is not None:
            look(observation)
        for action in actions:
            observation = env.step(action)[0]
            if look is not None:
                look(observation)

    return episode


def cpu_s(episode: Callable[[int], None], episodes: int) -> float:
    """CPU seconds of that many episodes."""
    start = time.process_time()
    for seed in range(episodes):
        episode(seed)
    return time.process_time() - start
