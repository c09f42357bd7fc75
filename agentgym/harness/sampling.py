"""Random valid turns, drawn from the tools' JSON schemas: what action spaces sample and the random agent plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from agentgym.core.records import ToolCall, ToolSpec, Turn

_WORDS = [
    "river",
    "award",
    "bridge",
    "founded",
    "album",
    "museum",
    "year",
    "team",
    "island",
    "report",
    "north",
    "first",
]
_ANSWER_RATE = 0.05  # of turns are a final answer, so that random play ends


def random_turn(tools: Sequence[ToolSpec], rng: np.random.Generator) -> Turn:
    """One call with arguments drawn from its schema, or now and then a text."""
    if not tools or rng.random() < _ANSWER_RATE:
        return Turn(random_words(rng))
    spec = tools[int(rng.integers(len(tools)))]
    arguments = msgspec.json.encode(draw(spec.parameters, rng)).decode()
    return Turn(tool_calls=(ToolCall("c0", spec.name, arguments),))


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
            return random_words(rng)


def random_words(rng: np.random.Generator) -> str:
    """One to three words."""
    return " ".join(_WORDS[i] for i in rng.integers(len(_WORDS), size=int(rng.integers(1, 4))))
