"""Tools: schemas from signatures, strict arguments, one line that says what is wrong with them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError, ToolError
from agentgym.harness.sampling import draw, random_turn
from agentgym.harness.tool import Toolset, tool
from tests.harness.toolkit import Tools

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Typed(Toolset):
    @tool
    def find(
        self,
        query: Annotated[str, "What to look for."],
        limit: int = 3,
        order: Literal["up", "down"] = "up",
        among: list[str] | None = None,
    ) -> str:
        """Find things.

        This is for people who read the code.
        """
        return json.dumps([query, limit, order, among])


def test_a_spec_comes_from_the_signature() -> None:
    (spec,) = Typed.specs()
    assert spec.name == "find"
    assert spec.description == "Find things."
    assert spec.parameters["properties"]["query"] == {"type": "string", "description": "What to look for."}
    assert spec.parameters["properties"]["order"] == {"enum": ["down", "up"], "default": "up"}
    assert spec.parameters["required"] == ["query"]
    assert spec.parameters["additionalProperties"] is False
    assert json.loads(json.dumps(spec.parameters)) == spec.parameters


def test_arguments_arrive_in_signature_order_with_defaults() -> None:
    assert Typed.tools["find"].parse('{"order": "down", "query": "q"}') == ("q", 3, "down", None)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ("{}", "bad_arguments", "query"),
        ('{"query": "q", "colour": 1}', "bad_arguments", "colour"),
        ('{"query": 5}', "bad_arguments", "Expected `str`, got `int`"),
        ('{"query": "q", "limit": "3"}', "bad_arguments", "limit"),
        ('{"query": "q", "limit": 1.5}', "bad_arguments", "limit"),
        ('{"query": "q", "order": "sideways"}', "bad_arguments", "sideways"),
        ('{"query": "q", "among": ["a", 1]}', "bad_arguments", "among[1]"),
        ("[]", "bad_arguments", "object"),
        ("null", "bad_arguments", "object"),
        ('"query"', "bad_arguments", "object"),
        ("", "bad_json", "no JSON object"),
        ('{"query": ', "bad_json", "no JSON object"),
        ("{'query': 'q'}", "bad_json", "no JSON object"),
        ('{"query": "q"} and more', "bad_json", "no JSON object"),
        ('{"query": NaN}', "bad_json", "no JSON object"),
        ('{"among": ' + "[" * 100_000 + "]" * 100_000 + "}", "bad_arguments", "among"),
        ('{"x": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}", "bad_arguments", "x"),
    ],
)
def test_wrong_arguments_are_named(arguments: str, kind: str, says: str) -> None:
    with pytest.raises(ToolError) as caught:
        Typed.tools["find"].parse(arguments)
    assert caught.value.kind == kind
    assert says in str(caught.value)
    assert str(caught.value).startswith("find: ")


def test_ten_megabytes_of_argument_are_only_text() -> None:
    text = "x" * 10_000_000
    assert Typed.tools["find"].parse(json.dumps({"query": text}))[0] == text


@given(Json)
def test_any_json_is_accepted_or_refused(value: Any) -> None:
    try:
        query, limit, order, among = Typed.tools["find"].parse(json.dumps(value))
    except ToolError:
        return
    assert isinstance(query, str)
    assert type(limit) is int
    assert order in ("up", "down")
    assert among is None or all(isinstance(item, str) for item in among)


@given(st.integers(0, 2**32 - 1))
def test_sampled_arguments_are_valid(seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    for spec in (*Typed.specs(), *Tools.specs()):
        tools = {**Typed.tools, **Tools.tools}
        tools[spec.name].parse(json.dumps(draw(spec.parameters, rng)))
    turn = random_turn(Typed.specs(), rng)
    for made in turn.tool_calls:
        Typed.tools[made.name].parse(made.arguments)


def test_tools_are_inherited_and_replaced() -> None:
    class More(Typed):
        @tool
        def find(self, query: str) -> str:
            """Find less."""
            return query

        @tool(blocking=True)
        def wait(self) -> str:
            """Wait."""
            return "waited"

    assert list(More.tools) == ["find", "wait"]
    assert More.specs()[0].description == "Find less."
    assert [spec.name for spec in More.specs(["wait"])] == ["wait"]
    assert Typed.plain
    assert not More.plain


def test_a_tool_without_a_docstring_or_a_type_is_refused_by_name() -> None:
    class Mute(Toolset):
        @tool
        def mute(self) -> str:
            return ""

    class Untyped(Toolset):
        @tool
        def untyped(self, x) -> str:  # type: ignore[no-untyped-def]
            """Something."""
            return ""

    with pytest.raises(ConfigError, match="'mute' needs a docstring"):
        Mute.specs()
    with pytest.raises(ConfigError, match="'untyped': parameter 'x' needs a type"):
        Untyped.specs()
