"""Budgets: the usage line, the soft and the hard line, caps and floors, prunes, and an account that is always true."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.records import StopReason, ToolCall, Turn
from agentgym.harness.episode import SOFT_MESSAGE
from agentgym.harness.profiles import Profile
from tests.harness.toolkit import SMALL, call, calls, episode, errors, results, small, tokens


def test_usage_line_and_soft_message_once_per_crossing() -> None:
    e = episode(small(call_tokens=300))
    e.step_sync(calls(call("show", chunks=["a_0"], words=280)))
    used = e.context.used
    line = e.view.messages[-1].parts[-1].text
    assert line == f"[Token usage: {used - e.view.messages[-1].parts[-1].tokens}/1,000]"
    e.step_sync(calls(call("show", chunks=["b_0"], words=280)))
    assert e.view.messages[-1].parts[-1].text == SOFT_MESSAGE
    e.step_sync(calls(call("say", text="x")))
    assert e.view.messages[-1].parts[-1].text.startswith("[Token usage: ")
    e.step_sync(calls(call("prune_chunks", chunk_ids=["a_0"])))
    e.step_sync(calls(call("show", chunks=["a_0"], words=250)))
    assert e.view.messages[-1].parts[-1].text == SOFT_MESSAGE
    texts = [part.text for message in e.view.messages for part in message.parts]
    assert texts.count(SOFT_MESSAGE) == 2


def test_past_the_hard_line_only_prune_works() -> None:
    e = episode(small(hard_tokens=150))
    e.step_sync(calls(call("show", chunks=["a_0"], words=150)))
    e.step_sync(calls(call("say", text="x"), call("nosuch"), call("prune_chunks", chunk_ids=["a_0"])))
    assert errors(e) == ["over_budget", "unknown_tool", None]
    assert "only prune_chunks is possible now" in results(e)[0]
    e.step_sync(calls(call("say", text="x")))
    assert errors(e) == [None]
    e = episode(small(hard_tokens=150), offered=["show"])
    e.step_sync(calls(call("show", chunks=["a_0"], words=150)))
    e.step_sync(calls(call("show", chunks=["b_0"])))
    assert results(e)[0].startswith("error: token budget nearly used up: conclude with your answer")


def test_the_cap_of_a_call_and_its_floor() -> None:
    e = episode(small(usage_line=False, hard_tokens=None))
    sizes = []
    while e.stop is None:
        e.step_sync(calls(call("say", text="x", times=400)))
        sizes.append(e.last_step.results[0].tokens)
    written = tokens(e.view.messages[1:2])
    left = 1000 - 100 - tokens(e.view.messages[:1]) - 3 * (200 + written) - written
    assert sizes[:3] == [200, 200, 200]  # the cap
    assert sizes[3] == (200 if left >= 200 else max(50, left // 2))
    left -= sizes[3] + written
    assert sizes[4] == min(left, max(50, left // 2))  # half of what is left, or the floor


def test_calls_of_a_turn_are_charged_together() -> None:
    e = episode(small(call_tokens=None, oversize="refuse"))
    e.step_sync(calls(call("show", chunks=["a_0"], words=500), call("show", chunks=["b_0"], words=500)))
    assert errors(e) == [None, "over_budget"]
    assert "needs 500 tokens, " in results(e)[1]
    assert " left: prune or conclude" in results(e)[1]


def test_truncation_keeps_whole_chunks_then_a_cut_one() -> None:
    e = episode(SMALL)
    e.step_sync(calls(call("show", chunks=["a_0", "b_0", "c_0"], words=90)))
    (message,) = e.last_step.messages
    assert e.last_step.shown == ("a_0", "b_0")  # not a line of the third would fit: its header is all of one line
    assert [part.tokens for part in message.parts][:2] == [90, 90]
    e = episode(SMALL)
    e.step_sync(calls(call("say", text="line\nline", times=300)))
    assert results(e)[0].partition("\n[Token")[0].endswith("\n[cut]")


def test_a_chunk_is_shown_once_a_turn() -> None:
    e = episode(SMALL)
    e.step_sync(
        calls(call("show", chunks=["a_0", "b_0"]), call("show", chunks=["b_0", "c_0"]), call("show", chunks=["a_0"]))
    )
    assert e.last_step.shown == ("a_0", "b_0", "c_0")
    assert results(e)[1].startswith("c_0")
    assert results(e)[2].startswith("nothing new")
    assert errors(e) == [None] * 3
    free = episode()
    free.step_sync(calls(call("show", chunks=["a_0"]), call("show", chunks=["a_0"])))
    assert free.last_step.shown == ("a_0",)


def test_prunes_see_the_state_at_the_start_of_the_turn() -> None:
    e = episode(SMALL)
    e.step_sync(calls(call("show", chunks=["a_0"])))
    view = e.step_sync(
        calls(
            call("show", chunks=["b_0"]), call("prune_chunks", chunk_ids=["a_0", "b_0"]), call("show", chunks=["c_0"])
        )
    )
    assert e.last_step.pruned == ("a_0",)
    assert list(e.context.live) == ["b_0", "c_0"]
    assert view.messages[2].text.startswith("[a_0 pruned]")
    assert view.kept == 2
    assert e.context.used == view.tokens == tokens(view.messages)


def test_state_changes_when_a_result_is_committed_not_when_it_is_refused() -> None:
    e = episode(small(call_tokens=None, oversize="refuse"))
    e.step_sync(calls(call("note", text="1"), call("show", chunks=["a_0"], words=890), call("note", text="2")))
    assert errors(e) == [None, None, "over_budget"] or errors(e) == [None, "over_budget", None]
    assert e.toolset.done == (["1"] if errors(e)[2] else ["1", "2"])


def test_without_a_usage_line_nothing_is_said_but_all_is_counted() -> None:
    e = episode(small(usage_line=False, soft_tokens=10))
    e.step_sync(calls(call("show", chunks=["a_0"], words=100)))
    assert len(e.view.messages[-1].parts) == 1
    assert e.context.used > 100


def test_an_episode_that_goes_on_is_within_its_budget() -> None:
    e = episode(small(call_floor_tokens=500, hard_tokens=1000))
    while e.stop is None:
        e.step_sync(calls(call("show", chunks=[f"a_{e.turns}"], words=190)))
        assert e.context.used <= 1000 or e.stop is StopReason.CONTEXT_EXHAUSTED


actions = st.one_of(
    st.builds(
        lambda ids, n: call("show", chunks=ids, words=n),
        st.lists(st.sampled_from("abcdef"), max_size=4),
        st.integers(1, 300),
    ),
    st.builds(lambda ids: call("prune_chunks", chunk_ids=ids), st.lists(st.sampled_from("abcdefg"), max_size=4)),
    st.builds(lambda n: call("say", text="a b", times=n), st.integers(0, 400)),
    st.builds(ToolCall, st.just("c"), st.text(max_size=5), st.text(max_size=20)),
    st.just(call("note", text="x")),
)
turns = st.lists(
    st.builds(
        lambda content, made: calls(*made, content=content),
        st.text("ab ", max_size=30),
        st.lists(actions, min_size=1, max_size=6),
    ),
    max_size=8,
)
profiles = st.builds(
    small,
    call_tokens=st.sampled_from([None, 50, 200]),
    oversize=st.sampled_from(["truncate", "refuse"]),
    usage_line=st.booleans(),
    hard_tokens=st.sampled_from([None, 300, 900]),
    reserve_tokens=st.sampled_from([0, 100]),
)


@settings(deadline=None)
@given(profiles, turns)
def test_whatever_is_done_the_account_is_true(profile: Profile, made: list[Turn]) -> None:
    e, again = episode(profile), episode(profile)
    for turn in made:
        if e.stop is not None:
            break
        previous, used = e.view, e.context.used
        view = e.step_sync(turn)
        assert e.context.used == view.tokens == tokens(view.messages) == e.last_step.used
        assert e.context.used <= 1000 or e.stop is StopReason.CONTEXT_EXHAUSTED
        assert view.messages[: view.kept] == previous.messages[: view.kept]
        assert view.kept == len(previous) or e.last_step.pruned
        assert len(e.last_step.results) == min(4, len(turn.tool_calls)) + (len(turn.tool_calls) > 4)
        if not e.last_step.pruned:
            written = tokens([view.messages[len(previous)]])
            brought = sum(result.tokens for result in e.last_step.results if result.error is None)
            assert brought <= max(0, 1000 - profile.reserve_tokens - used - written)
        assert asyncio.run(again.step(turn)).id == view.id
    assert again.stop == e.stop
    assert again.trajectory() == e.trajectory()
