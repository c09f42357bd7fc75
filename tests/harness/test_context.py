"""The context window: what it costs, what is kept, and how chunks leave it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.graph import View
from agentgym.core.records import Message, Part, ToolCall
from agentgym.core.tokens import counter
from agentgym.harness.context import ContextWindow
from tests.harness.toolkit import tokens

WORDS = counter("words")
chunk_ids = st.sampled_from([None, "a_0", "a_1", "b_0", "c_0"])
parts = st.builds(
    lambda chunk, words: Part(" ".join(["w"] * words), chunk, words), chunk=chunk_ids, words=st.integers(1, 5)
)
messages = st.builds(Message, role=st.just("tool"), parts=st.lists(parts, max_size=3).map(tuple))
moves = st.one_of(
    st.lists(messages, min_size=1, max_size=2),
    st.sets(st.sampled_from(["a_0", "a_1", "b_0", "c_0", "nowhere_0"]), max_size=3),
)


def add(context: ContextWindow, made: list[Message]) -> View:
    for message in made:
        context.show(message.parts)
    return context.extend(made, tokens(made))


def common(first: View, second: View) -> int:
    pairs = zip(first.messages, second.messages, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def test_counts_are_made_here_whatever_the_opening_claims() -> None:
    opening = [Message("user", (Part("one two", None, 99),), (ToolCall("c", "f", "{}", 99),))]
    context = ContextWindow(opening, WORDS)
    assert context.used == context.view.tokens == 2 + 1 + 2
    assert ContextWindow(opening, None).used == 0


def test_a_prune_leaves_a_tombstone_and_all_else() -> None:
    context = ContextWindow([Message("user", (Part("question"),))], WORDS)
    first = add(context, [Message("tool", (Part("w w w", "a_0", 3), Part("w w", "b_0", 2)))])
    second = add(context, [Message("tool", (Part("w", None, 1),))])
    assert context.prune(["b_0", "nowhere_0", "b_0"]) == ("b_0",)
    assert context.live == {"a_0": 3}
    assert list(context.seen) == ["a_0", "b_0"]
    third = add(context, [Message("tool", (Part("w", None, 1),))])
    assert [part.text for part in third.messages[1].parts] == ["w w w", "[b_0 pruned]"]
    assert third.messages[2] == second.messages[2]
    assert (first.kept, second.kept, third.kept) == (1, 2, 1)
    assert second.messages[1].parts[1].chunk == "b_0"  # the record keeps what the view lost


def test_a_chunk_shown_twice_is_pruned_in_both_places_and_may_come_back() -> None:
    context = ContextWindow([], WORDS)
    shown = Message("tool", (Part("w w", "a_0", 2),))
    add(context, [shown, shown])
    assert context.live == {"a_0": 4}
    context.prune(["a_0"])
    view = add(context, [shown])
    assert [message.text for message in view.messages] == ["[a_0 pruned]", "[a_0 pruned]", "w w"]
    assert context.live == {"a_0": 2}
    assert view.kept == 0


def test_pruning_nothing_changes_nothing() -> None:
    context = ContextWindow([Message("user", (Part("q"),))], WORDS)
    before = context.view
    assert context.prune([]) == context.prune(["nowhere_0"]) == ()
    assert add(context, []) == View(before.leaf, kept=1)


@given(st.lists(messages, max_size=2), st.lists(moves, max_size=8))
def test_after_any_moves_sizes_and_kept_are_true(opening: list[Message], made: list[list[Message] | set[str]]) -> None:
    context = ContextWindow(opening, WORDS)
    previous = context.view
    assert previous.kept == 0
    for move in made:
        if isinstance(move, set):
            context.prune(sorted(move))
            continue
        view = add(context, move)
        assert context.used == view.tokens == tokens(view.messages)
        assert view.kept <= common(previous, view)
        assert view.messages[: view.kept] == previous.messages[: view.kept]
        shown: dict[str, int] = {}
        for message in view.messages:
            for part in message.parts:
                if part.chunk is not None:
                    shown[part.chunk] = shown.get(part.chunk, 0) + part.tokens
        assert shown == context.live
        assert set(context.live) <= set(context.seen)
        previous = view
