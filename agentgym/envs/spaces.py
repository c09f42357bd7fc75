"""Spaces of text environments: views are observed, turns are actions.

Plain `Space` subclasses, not `Text`: a vector environment's shared memory silently corrupts `Text`, refuses a plain space,
and works with it under `shared_memory=False`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np

from agentgym.core.graph import View, grow
from agentgym.core.records import Message, Part, ToolSpec, Turn
from agentgym.harness.sampling import random_turn, random_words
from agentgym.harness.text import render_turn

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Turn)


class ViewSpace(gym.Space[View]):
    """All views."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> View:
        """A view of one user message."""
        return View(grow(None, [Message("user", (Part(random_words(self.np_random)),))]))

    def contains(self, x: Any) -> bool:
        return isinstance(x, View)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ViewSpace)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "ViewSpace()"


class TurnSpace(gym.Space[Turn]):
    """All turns; samples are valid calls of the given tools, now and then a final answer."""

    def __init__(self, tools: Sequence[ToolSpec], seed: int | np.random.Generator | None = None) -> None:
        self.tools = tuple(tools)
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Turn:
        """A random valid turn: one call with arguments drawn from its JSON schema, or a text."""
        return random_turn(self.tools, self.np_random)

    def contains(self, x: Any) -> bool:
        if not isinstance(x, Turn):
            return False
        try:
            return _DECODER.decode(_ENCODER.encode(x)) == x
        except (TypeError, ValueError, OverflowError, RecursionError):  # a field of another type, or text without UTF-8
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurnSpace) and self.tools == other.tools

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TurnSpace({', '.join(spec.name for spec in self.tools)})"


class TextSpace(gym.Space[str]):
    """All texts, as a model writes turns; samples are valid calls of the given tools, now and then a final answer."""

    def __init__(self, tools: Sequence[ToolSpec], seed: int | np.random.Generator | None = None) -> None:
        self.tools = tuple(tools)
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random valid turn in the plain-text protocol."""
        return render_turn(random_turn(self.tools, self.np_random))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.tools == other.tools

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TextSpace({', '.join(spec.name for spec in self.tools)})"
