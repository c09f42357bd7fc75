"""Episodes: turns go in, views come out, whatever the agent sends; budgets hold."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from agentgym.core.errors import ConfigError, EpisodeOver, InfraError
from agentgym.core.records import Message, Part, StopReason, ToolCall, Turn
from agentgym.harness.episode import Episode
from agentgym.harness.tool import Output, Toolset, tool
from tests.harness.toolkit import FREE, SMALL, TASK, Tools, call, calls, episode, errors, results, small, tokens

replaced = msgspec.structs.replace

# -- calls and their results ------------------------------------------------------------------------------------------


def test_results_come_in_call_order_under_their_ids() -> None:
    e = episode(SMALL)
    view = e.step_sync(calls(call("say", text="one"), call("nosuch"), call("say", text="two"), content="Now."))
    said, *answers = view.messages[1:]
    assert said.text == "Now."
    assert [(m.call_id, m.error) for m in answers] == [("c0", None), ("c1", "unknown_tool"), ("c2", None)]
    assert results(e)[0] == "one"
    assert "there is no tool 'nosuch'; tools: say, show" in results(e)[1]
    assert results(e)[2].startswith("two\n[Token usage: ")


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        (call("say"), "bad_arguments", "say: Object missing required field `text`; expected text, times"),
        (call("say", text="x", times=-1), "bad_arguments", "times"),
        (call("say", text=1), "bad_arguments", "Expected `str`"),
        (ToolCall("c0", "say", "{"), "bad_json", "no JSON object"),
        (call("fail", how="tool"), "missing", "error: no such thing"),
        (ToolCall("c0", "x" * 1000, "{}"), "unknown_tool", "x" * 80 + "'"),
        (ToolCall("c0", "", ""), "unknown_tool", "no tool ''"),
    ],
)
def test_what_an_agent_gets_wrong_is_an_error_result(made: ToolCall, kind: str, says: str) -> None:
    e = episode()
    e.step_sync(calls(made))
    assert errors(e) == [kind]
    assert says in results(e)[0]
    assert len(results(e)[0]) < 600
    assert e.stop is None


@pytest.mark.parametrize(("how", "error"), [("infra", InfraError), ("bug", KeyError)])
def test_what_a_tool_gets_wrong_is_raised_and_the_turn_not_taken(how: str, error: type[Exception]) -> None:
    e = episode(SMALL)
    e.step_sync(calls(call("say", text="before")))
    before, used = e.view, e.context.used
    turn = calls(call("note", text="lost"), call("ask", question="q"), call("fail", how=how))
    with pytest.raises(error):
        e.step_sync(turn)
    with pytest.raises(error):
        asyncio.run(e.step(turn))
    assert (e.view, e.context.used, e.turns, e.toolset.done) == (before, used, 1, [])
    e.step_sync(calls(call("say", text="after")))
    assert e.last_step.effects == ()


def test_a_tool_that_returns_something_else_is_named() -> None:
    class Odd(Toolset):
        @tool
        def number(self) -> str:
            """A number."""
            return 5  # type: ignore[return-value]

    with pytest.raises(ConfigError, match="'number' returned a int"):
        episode(tools=Odd()).step_sync(calls(call("number")))


def test_tools_that_are_not_offered_are_unknown() -> None:
    e = episode(offered=["say"])
    e.step_sync(calls(call("end")))
    assert results(e) == ["error: there is no tool 'end'; tools: say"]


def test_ten_thousand_calls_in_a_turn() -> None:
    e = episode(SMALL)
    view = e.step_sync(calls(*[call("say", text=str(i)) for i in range(10_000)]))
    assert results(e)[:4] == ["0", "1", "2", "3"]
    assert results(e)[4].startswith("error: 9,996 further calls refused: at most 4 a turn\n[Token usage: ")
    assert len(view.messages[1].tool_calls) == 4
    assert len(e.last_step.turn.tool_calls) == 10_000
    assert errors(e) == [None] * 4 + ["too_many_calls"]
    assert e.usage.calls == 4
    many = episode(msgspec.structs.replace(FREE, max_calls=10_000))
    many.step_sync(calls(*[call("say", text=str(i)) for i in range(10_000)]))
    assert results(many) == [str(i) for i in range(10_000)]


def test_ten_megabytes_end_the_episode_or_are_just_text() -> None:
    text = "word " * 2_000_000
    e = episode(SMALL)
    e.step_sync(Turn(text))
    assert e.stop is StopReason.CONTEXT_EXHAUSTED
    e = episode(SMALL)
    e.step_sync(calls(call("say", text="word", times=2_000_000)))
    assert e.stop is None
    assert e.last_step.results[0].tokens <= 200
    e = episode()
    assert len(e.step_sync(Turn(text)).messages[-1].text) == len(text)


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "\udfff\ud800", "\u202e", "😀" * 1000])
def test_odd_characters_are_answered_and_recorded(text: str) -> None:
    e = episode()
    view = e.step_sync(
        Turn(text, tool_calls=(ToolCall(text, "say", json.dumps({"text": text})), ToolCall("", text, text)))
    )
    assert len(view.id) == 64
    assert errors(e)[1] == "unknown_tool"
    assert len(e.step_sync(Turn(text)).id) == 64
    assert msgspec.json.decode(msgspec.json.encode(e.trajectory()), type=type(e.trajectory())) == e.trajectory()


def test_a_turn_of_wrong_types_is_answered() -> None:
    e = episode(SMALL)
    view = e.step_sync(Turn(5, tool_calls=[None]))  # type: ignore[arg-type]
    assert errors(e) == ["malformed"]
    assert view.messages[-1].role == "user"
    assert "no valid Turn" in view.messages[-1].text
    e.step_sync(Turn("half a call", malformed="tool call 0 cannot be read" + "!" * 5000))
    assert e.stop is None
    assert len(results(e)[0]) < 600


def test_a_text_is_the_same_as_an_output_of_one_part() -> None:
    """The most frequent turn has a way of its own through the harness; it must come out where all others do."""

    class Texts(Toolset):
        @tool
        def get(self, key: str) -> str:
            """Something."""
            return f"value of {key}"

    class Outputs(Toolset):
        @tool
        def get(self, key: str) -> Output:
            """Something."""
            return Output((Part(f"value of {key}"),))

    one, other = episode(FREE, Texts()), episode(FREE, Outputs())
    for turn in (
        calls(call("get", key="a"), content="Look."),
        calls(call("get", key="b")),
        calls(call("get", key="c"), call("get", key="d")),
        replaced(calls(call("get", key="e")), malformed="cut"),
        Turn("done"),
    ):
        assert one.step_sync(turn) == other.step_sync(turn)
        assert one.last_step == other.last_step
    assert one.trajectory() == other.trajectory()
    short = episode(replaced(FREE, max_calls=1, max_turns=1), Texts())
    short.step_sync(calls(call("get", key="a"), call("get", key="b")))
    assert errors(short) == [None, "too_many_calls"]
    assert short.stop is StopReason.TURN_LIMIT


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_text_without_calls_is_the_answer() -> None:
    e = episode(SMALL)
    view = e.step_sync(Turn("The answer."))
    assert e.stop is StopReason.ANSWER
    assert e.trajectory().answer == "The answer."
    assert view.messages[-1].text == "The answer."
    with pytest.raises(EpisodeOver, match="task 't' ended"):
        e.step_sync(Turn("More."))
    with pytest.raises(EpisodeOver):
        asyncio.run(e.step(Turn("More.")))


def test_where_text_does_not_finish_a_call_is_asked_for() -> None:
    e = episode(finish_on_text=False)
    e.step_sync(Turn("The answer."))
    assert e.stop is None
    assert errors(e) == ["no_call"]
    assert results(e)[0].startswith("error: call a tool; tools: say, ")
    e.step_sync(calls(call("end")))
    assert e.stop is StopReason.ANSWER


def test_the_turn_limit() -> None:
    e = episode(small(max_turns=2))
    e.step_sync(calls(call("say", text="x")))
    assert e.stop is None
    view = e.step_sync(calls(call("say", text="x")))
    assert e.stop is StopReason.TURN_LIMIT
    assert view.messages[-1].text == "x"  # no usage line: no turn follows
    e = episode(small(max_turns=1))
    e.step_sync(Turn("answer"))
    assert e.stop is StopReason.ANSWER


def test_cancelling() -> None:
    e = episode()
    e.cancel()
    assert e.stop is StopReason.CANCELLED
    with pytest.raises(EpisodeOver):
        e.step_sync(Turn())
    e = episode()
    e.step_sync(Turn("answer"))
    e.cancel()
    assert e.stop is StopReason.ANSWER


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_trajectory_holds_everything_and_its_leaves() -> None:
    e = episode(SMALL, seed=7)
    first = e.step_sync(calls(call("show", chunks=["a_0"]), content="Look."))
    second = e.step_sync(calls(call("prune_chunks", chunk_ids=["a_0"])))
    e.step_sync(Turn("Done."))
    record = e.trajectory(env="Test-v0", fingerprint="f")
    assert (record.env, record.fingerprint, record.task, record.seed) == ("Test-v0", "f", "t", 7)
    assert [step.leaf for step in record.steps] == [first.id, second.id, e.view.id]
    assert record.task_hash == TASK.digest()
    assert record.opening_leaf == episode(SMALL).view.id
    assert record.steps[0].messages[0].parts[0].chunk == "a_0"  # kept, though the view lost it
    assert record.usage.turns == 3
    assert record.usage.calls == 2
    assert e.trajectory(sealed=False).steps[0].leaf == ""
    grown = e.trajectory(sealed=False)
    assert grown.usage.tokens_out == sum(m_tokens(step.turn) for step in grown.steps)


def m_tokens(turn: Turn) -> int:
    return tokens([Message("assistant", (Part(turn.content),), turn.tool_calls)])


def test_opening_messages_may_show_chunks() -> None:
    e = Episode(TASK, Tools(), SMALL, [Message("user", (Part("w w w", "a_0"),))])
    assert e.context.live == {"a_0": 3}
    e.step_sync(calls(call("prune_chunks", chunk_ids=["a_0"])))
    assert e.view.messages[0].text == "[a_0 pruned]"
    assert e.view.kept == 0
    assert e.trajectory().opening[0].text == "w w w"


def test_an_output_without_parts() -> None:
    class Quiet(Toolset):
        @tool
        def quiet(self) -> Output:
            """Say nothing."""
            return Output(())

    e = episode(SMALL, Quiet())
    e.step_sync(calls(call("quiet")))
    assert e.last_step.results[0].tokens == 0
