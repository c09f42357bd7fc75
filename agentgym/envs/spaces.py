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
from agentgym.core.records import Message, Part, ToolCall, ToolSpec, Turn

_WORDS = ("river", "award", "bridge", "founded", "album", "museum", "year", "team", "island", "report", "north", "first")
_ANSWER_RATE = 0.05  # of sampled turns are a final answer, so that random play ends


class ViewSpace(gym.Space[View]):
    """All views."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> View:
        """A view of one user message."""
        return View(grow(None, [Message("user", (Part(_words(self.np_random)),))]))

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
        rng = self.np_random
        if not self.tools or rng.random() < _ANSWER_RATE:
            return Turn(_words(rng))
        spec = self.tools[int(rng.integers(len(self.tools)))]
        arguments = msgspec.json.encode(draw(spec.parameters, rng)).decode()
        return Turn(tool_calls=(ToolCall("c0", spec.name, arguments),))

    def contains(self, x: Any) -> bool:
        if not isinstance(x, Turn):
            return False
        try:
            msgspec.convert(msgspec.to_builtins(x), Turn)
        except (msgspec.ValidationError, TypeError, ValueError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurnSpace) and self.tools == other.tools

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TurnSpace({', '.join(spec.name for spec in self.tools)})"


def draw(schema: dict[str, Any], rng: np.random.Generator) -> Any:
    """A random value of a JSON schema as `harness.tool` makes them."""
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    if "anyOf" in schema:
        return draw(schema["anyOf"][int(rng.integers(len(schema["anyOf"])))], rng)
    match schema.get("type"):
        case "object":
            required = set(schema.get("required", ()))
            properties = schema.get("properties", {}).items()
            return {key: draw(item, rng) for key, item in properties if key in required or rng.random() < 0.5}
        case "array":
            low = schema.get("minItems", 0)
            return [draw(schema.get("items", {}), rng) for _ in range(int(rng.integers(low, low + 4)))]
        case "integer":
            low = schema.get("minimum", -100)
            return int(rng.integers(low, schema.get("maximum", max(low, 0) + 100) + 1))
        case "number":
            return round(float(rng.normal()), 3)
        case "boolean":
            return bool(rng.integers(2))
        case "null":
            return None
        case _:
            return _words(rng)


def _words(rng: np.random.Generator) -> str:
    return " ".join(_WORDS[i] for i in rng.integers(len(_WORDS), size=int(rng.integers(1, 4))))
