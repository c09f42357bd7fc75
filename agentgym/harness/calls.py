"""Running the calls of one turn: plain tools in order, asynchronous and blocking ones at the same time.

Whatever an agent gets wrong comes back as a `ToolError` in the place of an output; what goes wrong in a tool itself is
raised, for it is the tool author's to mend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentgym.core.errors import ConfigError, ToolError
from agentgym.core.records import ToolCall
from agentgym.harness.effects import call_place
from agentgym.harness.loop import on_private_loop
from agentgym.harness.tool import Output, Tool, Toolset

Result = Output | str | ToolError
"""What a call came to: an `Output`, its text alone, or why it was refused."""

Tools = Mapping[str, Tool]


def run_sync(toolset: Toolset, tools: Tools, calls: Sequence[ToolCall], only: Collection[str] | None) -> list[Result]:
    """`run` from synchronous code: without an event loop where none is needed, else on the private one."""
    if not toolset.plain and any(_needs_loop(tools.get(call.name), len(calls)) for call in calls):
        return on_private_loop(run(toolset, tools, calls, only))
    if len(calls) == 1:
        return [run_plain(toolset, tools, calls[0], only)]
    results = []
    try:
        for place, call in enumerate(calls):
            call_place.set(place)
            results.append(run_plain(toolset, tools, call, only))
    finally:
        call_place.set(0)
    return results


def run_plain(toolset: Toolset, tools: Tools, call: ToolCall, only: Collection[str] | None) -> Result:
    """Run one call of a tool that is not asynchronous."""
    try:
        tool = tools.get(call.name)
        if tool is None or (only is not None and call.name not in only):
            raise _refusal(tools, call, only)
        result = tool.function(toolset, *tool.parse(call.arguments))
    except ToolError as error:
        return error
    return result if type(result) is str else _checked(tool, result)


async def run(toolset: Toolset, tools: Tools, calls: Sequence[ToolCall], only: Collection[str] | None) -> list[Result]:
    """Run calls: they start in call order, and none waits for another. An error that escapes stops them all.

    Args:
        toolset: what the tools work on.
        tools: those offered.
        calls: of one turn.
        only: names of the tools that may be used now; None for all.
    """
    if toolset.plain or not any(_waits(tools.get(call.name)) for call in calls):
        return run_sync(toolset, tools, calls, only)
    tasks = [asyncio.create_task(_waiting(toolset, tools, call, place, only)) for place, call in enumerate(calls)]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _waits(tool: Tool | None) -> bool:
    return tool is not None and (tool.is_async or tool.blocking)


def _needs_loop(tool: Tool | None, calls: int) -> bool:
    return tool is not None and (tool.is_async or (tool.blocking and calls > 1))


async def _waiting(toolset: Toolset, tools: Tools, call: ToolCall, place: int, only: Collection[str] | None) -> Result:
    call_place.set(place)
    try:
        tool = tools.get(call.name)
        if tool is None or (only is not None and call.name not in only):
            raise _refusal(tools, call, only)
        arguments = tool.parse(call.arguments)
        if tool.blocking:
            return _checked(tool, await asyncio.to_thread(tool.function, toolset, *arguments))
        result = tool.function(toolset, *arguments)
        return _checked(tool, await result if tool.is_async else result)
    except ToolError as error:
        return error


def _refusal(tools: Tools, call: ToolCall, only: Collection[str] | None) -> ToolError:
    if call.name not in tools:
        return ToolError(f"there is no tool {call.name[:80]!r}; tools: {', '.join(tools)}", "unknown_tool")
    useful = " or ".join(name for name in only or () if name in tools)
    way_out = f"only {useful} is possible now; prune, or conclude" if useful else "conclude"
    return ToolError(f"token budget nearly used up: {way_out} with your answer", "over_budget")


def _checked(tool: Tool, result: Any) -> Output | str:
    if isinstance(result, str | Output):
        return result
    raise ConfigError(f"tool {tool.name!r} returned a {type(result).__name__}: it must return a str or an Output")
