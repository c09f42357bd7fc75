"""Calls of one turn overlap where they wait, keep their order, and stop together; proved by events, not by clocks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentgym.core.errors import InfraError, ToolError
from agentgym.core.records import Turn
from agentgym.harness.episode import Episode
from agentgym.harness.loop import on_private_loop
from agentgym.harness.tool import Output, Toolset, tool
from tests.harness.toolkit import SMALL, call, calls, episode, errors, results

WAIT_S = 20  # a test that fails would wait for ever


class Waiting(Toolset):
    """Each `meet` returns only once all parties are inside one, so one after the other would never end."""

    def __init__(self, parties: int = 2) -> None:
        self.barrier = threading.Barrier(parties, timeout=WAIT_S)
        self.parties, self.inside, self.all_inside = parties, 0, asyncio.Event()
        self.order: list[str] = []
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.stopped: list[str] = []

    @tool
    async def meet(self, name: str) -> str:
        """Wait for the others, asynchronously."""
        self.loops.append(asyncio.get_running_loop())
        self.inside += 1
        if self.inside == self.parties:
            self.all_inside.set()
        await asyncio.wait_for(self.all_inside.wait(), WAIT_S)
        self.order.append(name)
        return name

    @tool(blocking=True)
    def block(self, name: str) -> str:
        """Wait for the others on a thread."""
        self.barrier.wait()
        return f"{name} {threading.current_thread() is threading.main_thread()}"

    @tool
    async def hang(self, name: str) -> str:
        """Never return."""
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.append(name)
        return name

    @tool
    async def fail(self, infra: bool) -> str:
        """Fail after a while."""
        await asyncio.sleep(0.01)
        raise InfraError("down") if infra else ToolError("sorry", "sorry")

    @tool
    def plain(self, text: str) -> str:
        """The text."""
        return text

    @tool
    async def show(self) -> Output:
        """An output."""
        return Output((self.context.part("shown"),))

    @tool
    async def race(self, name: str, before: int) -> str:
        """Ask the world; those with a higher `before` ask first."""
        for _ in range(10 - before):
            await asyncio.sleep(0)
        self.order.append(name)
        return str(self.effects.call("recorded-only", "same", lambda: name))


def step(e: Episode, turn: Turn, mode: str) -> None:
    if mode == "loop":
        asyncio.run(e.step(turn))
    else:
        e.step_sync(turn)


@pytest.mark.parametrize("mode", ["sync", "loop"])
@pytest.mark.parametrize("name", ["meet", "block"])
def test_waiting_calls_overlap_and_answer_in_call_order(mode: str, name: str) -> None:
    e = episode(tools=Waiting(3))
    step(e, calls(*[call(name, name=n) for n in "abc"]), mode)
    assert [text[0] for text in results(e)] == ["a", "b", "c"]
    assert errors(e) == [None] * 3


def test_blocking_calls_leave_the_loop_free() -> None:
    """A single blocking call under the runner runs beside others' coroutines."""

    async def both() -> None:
        e = episode(tools=Waiting(2))
        mine = asyncio.create_task(e.step(calls(call("block", name="a"))))
        await asyncio.to_thread(e.toolset.barrier.wait)  # type: ignore[attr-defined]
        await mine
        assert results(e) == ["a False"]

    asyncio.run(both())


def test_a_single_blocking_call_from_synchronous_code_needs_no_thread() -> None:
    e = episode(tools=Waiting(1))
    e.step_sync(calls(call("block", name="a")))
    assert results(e) == ["a True"]


@pytest.mark.parametrize("mode", ["sync", "loop"])
def test_all_kinds_of_calls_in_one_turn(mode: str) -> None:
    e = episode(SMALL, tools=Waiting(1))
    step(e, calls(call("meet", name="a"), call("plain", text="b"), call("show"), call("fail", infra=False)), mode)
    assert [text.partition("\n")[0] for text in results(e)] == ["a", "b", "shown", "error: sorry"]
    assert errors(e) == [None, None, None, "sorry"]


def test_step_works_inside_a_running_loop() -> None:
    async def notebook() -> None:
        e = episode(tools=Waiting(2))
        e.step_sync(calls(call("meet", name="a"), call("meet", name="b")))
        assert results(e) == ["a", "b"]
        assert all(loop is not asyncio.get_running_loop() for loop in e.toolset.loops)  # type: ignore[attr-defined]

    asyncio.run(notebook())


def test_the_private_loop_stays_the_same_between_turns() -> None:
    """So that a client that a tool keeps open stays usable."""
    tools = Waiting(1)
    e = episode(tools=tools)
    e.step_sync(calls(call("meet", name="a")))
    e.step_sync(calls(call("meet", name="b")))
    assert tools.loops[0] is tools.loops[1]
    assert not tools.loops[0].is_closed()


def test_the_private_loop_hands_errors_over() -> None:
    async def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        on_private_loop(broken())


@pytest.mark.parametrize("mode", ["sync", "loop"])
def test_an_error_stops_the_other_calls_and_the_turn_is_not_taken(mode: str) -> None:
    tools = Waiting()
    e = episode(tools=tools)
    with pytest.raises(InfraError):
        step(e, calls(call("hang", name="a"), call("fail", infra=True), call("hang", name="b")), mode)
    step(e, calls(call("plain", text="x")), mode)
    assert sorted(tools.stopped) == ["a", "b"]
    assert e.turns == 1


def test_a_cancelled_turn_leaves_the_episode_as_it_was() -> None:
    async def cut() -> None:
        tools = Waiting()
        e = episode(SMALL, tools=tools)
        before = e.view
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await e.step(calls(call("hang", name="a"), call("hang", name="b")))
        await asyncio.sleep(0)
        assert sorted(tools.stopped) == ["a", "b"]
        assert e.view is before
        assert e.turns == 0
        e.cancel()
        assert e.trajectory().steps == ()

    asyncio.run(cut())


def test_effects_are_recorded_in_call_order_whoever_is_first() -> None:
    tools = Waiting()
    e = episode(tools=tools)
    e.step_sync(calls(*[call("race", name=n, before=i) for i, n in enumerate("abc")]))
    assert tools.order == ["c", "b", "a"]
    assert [effect.value for effect in e.last_step.effects] == ["a", "b", "c"]
    assert len({effect.request for effect in e.last_step.effects}) == 3
    assert results(e) == ["a", "b", "c"]
