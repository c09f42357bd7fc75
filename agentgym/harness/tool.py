"""Typed tools: the JSON schema and the argument check come from the signature.

A toolset is a class whose methods marked `@tool` are what an agent may call; its instance is one episode's state. The
first line of a method's docstring is the tool's description, `Annotated[str, "…"]` describes an argument.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import astuple

from agentgym.core.errors import ConfigError, ToolError
from agentgym.core.records import Part, ToolSpec

if typing.TYPE_CHECKING:
    from agentgym.harness.context import ContextWindow
    from agentgym.harness.effects import EffectLog


class Output(msgspec.Struct, frozen=True):
    """What a tool gives back when a plain text is not enough.

    `prune` lists chunk ids to take out of the view. `commit` is called when the result is committed, in call order, for
    tools that change state. `finish` ends the episode.
    """

    parts: Sequence[Part]
    prune: tuple[str, ...] = ()
    commit: Callable[[], None] | None = None
    finish: bool = False


class Tool:
    """A method with its schema: decodes arguments strictly and says in one line what is wrong with them."""

    def __init__(self, function: Callable[..., Any], *, blocking: bool = False) -> None:
        self.function = function
        self.name = function.__name__
        self.blocking = blocking
        self.is_async = inspect.iscoroutinefunction(function)
        self._decode: Callable[[str], msgspec.Struct] | None = None
        self._spec: ToolSpec | None = None

    def _arguments_type(self) -> type[msgspec.Struct]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        fields: list[Any] = []
        for parameter in list(inspect.signature(self.function).parameters.values())[1:]:
            if parameter.name not in hints:
                raise ConfigError(f"tool {self.name!r}: parameter {parameter.name!r} needs a type")
            kind = _described(hints[parameter.name])
            plain = parameter.default is inspect.Parameter.empty
            fields.append((parameter.name, kind) if plain else (parameter.name, kind, parameter.default))
        return msgspec.defstruct(self.name, fields, frozen=True, forbid_unknown_fields=True)

    @property
    def spec(self) -> ToolSpec:
        """What agents are told; made at first use."""
        if self._spec is None:
            schema = msgspec.json.schema(self._arguments_type())
            parameters = dict(schema["$defs"][self.name])
            parameters.pop("title", None)
            parameters["additionalProperties"] = False
            description = (inspect.getdoc(self.function) or "").partition("\n\n")[0].replace("\n", " ")
            if not description:
                raise ConfigError(f"tool {self.name!r} needs a docstring: it is what the agent reads")
            self._spec = ToolSpec(self.name, description, parameters)
        return self._spec

    def parse(self, arguments: str) -> tuple[Any, ...]:
        """Arguments in signature order, from the raw JSON string.

        Raises:
            ToolError: kind `bad_json` or `bad_arguments`, with what is wrong and what was expected.
        """
        decode = self._decode
        if decode is None:
            decode = self._decode = msgspec.json.Decoder(self._arguments_type()).decode
        try:
            return astuple(decode(arguments))
        except msgspec.ValidationError as error:
            expected = ", ".join(self.spec.parameters.get("properties", {})) or "no arguments"
            raise ToolError(f"{self.name}: {error}; expected {expected}", "bad_arguments") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolError(f"{self.name}: arguments are no JSON object ({error})", "bad_json") from None


def _described(hint: Any) -> Any:
    """`Annotated[str, "text"]` becomes msgspec's description."""
    if typing.get_origin(hint) is typing.Annotated:
        base, *notes = typing.get_args(hint)
        notes = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
        return typing.Annotated[(base, *notes)]
    return hint


@typing.overload
def tool(function: Callable[..., Any]) -> Tool: ...
@typing.overload
def tool(*, blocking: bool = False) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, *, blocking: bool = False) -> Any:
    """Mark a method of a `Toolset` as a tool. `blocking=True` runs it on a thread when several calls run at once."""
    if function is None:
        return lambda wrapped: Tool(wrapped, blocking=blocking)
    return Tool(function, blocking=blocking)


class Toolset:
    """Base of an episode's tools. The episode sets `context` and `effects` before the first turn.

    `tools` are the class's own and inherited tools; `plain` says that none is asynchronous or blocking.
    """

    tools: ClassVar[Mapping[str, Tool]] = {}
    plain: ClassVar[bool] = True
    context: ContextWindow
    effects: EffectLog

    def __init_subclass__(cls) -> None:
        found = dict(cls.tools)
        for name, value in vars(cls).items():
            if isinstance(value, Tool):
                found[name] = value
        cls.tools = found
        cls.plain = not any(tool.is_async or tool.blocking for tool in found.values())

    @classmethod
    def specs(cls, offered: Sequence[str] | None = None) -> tuple[ToolSpec, ...]:
        """Specs in definition order, of the offered tools only."""
        return tuple(t.spec for name, t in cls.tools.items() if offered is None or name in offered)
