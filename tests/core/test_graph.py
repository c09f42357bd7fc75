"""The message graph: ids name whole conversations, views are shared and cheap."""

from __future__ import annotations

import copy
import hashlib
import pickle

from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.graph import Node, View, grow
from agentgym.core.hashing import canonical
from agentgym.core.records import Message, Part, ToolCall

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(st.builds(Part, text=text, tokens=st.integers(0, 9)), max_size=2).map(tuple),
    tool_calls=st.lists(st.builds(ToolCall, id=text, name=text, arguments=text), max_size=2).map(tuple),
)


def say(*texts: str) -> list[Message]:
    return [Message(role="user", parts=(Part(text=text, tokens=len(text)),)) for text in texts]


@given(st.lists(messages, max_size=6))
def test_an_id_is_the_chained_hash(conversation: list[Message]) -> None:
    expected = b""
    for message in conversation:
        expected = hashlib.sha256(expected + canonical(message)).digest()
    assert View(grow(None, conversation)).id == expected.hex()


@given(st.lists(messages, max_size=5), st.lists(messages, max_size=5))
def test_ids_are_equal_just_when_conversations_are(first: list[Message], second: list[Message]) -> None:
    one, two = View(grow(None, first)), View(grow(None, second))
    assert (one.id == two.id) == (first == second) == (one == two)
    assert one.messages == tuple(first)
    assert len(one) == len(first)


def test_a_branch_shares_its_beginning() -> None:
    trunk = grow(None, say("a", "b"))
    left, right = grow(trunk, say("c")), grow(trunk, say("d", "e"))
    assert left is not None
    assert right is not None
    assert left.parent is trunk
    assert left.id != right.id
    assert [node.message.text for node in right.path()] == ["e", "d", "b", "a"]
    assert (left.depth, right.depth) == (3, 4)
    assert grow(trunk, []) is trunk


def test_ids_do_not_depend_on_when_they_are_asked_for() -> None:
    early, late = None, grow(None, say("a", "b", "c"))
    for message in say("a", "b", "c"):
        early = Node(early, message)
        assert len(early.id) == 64
    assert late is not None
    assert early is not None
    assert early.id == late.id


def test_a_view() -> None:
    view = View(grow(None, say("abc", "de")), kept=1)
    assert view.tokens == 5
    assert view == View(grow(None, say("abc", "de")), kept=1)
    assert view != View(view.leaf, kept=0)
    assert view != "text"
    assert len({view, View(grow(None, say("abc", "de")), kept=1)}) == 1
    assert View(None) == View(None)
    assert (View(None).id, View(None).messages, View(None).tokens, len(View(None))) == ("", (), 0, 0)
    assert repr(view) == f"View(2 messages, kept=1, id={view.id[:12]})"


def test_copies_cost_nothing() -> None:
    view = View(grow(None, say(*map(str, range(128)))))
    assert copy.copy(view) is view
    assert copy.deepcopy({"observation": view})["observation"] is view


def test_a_long_conversation_hashes_and_pickles_without_recursion() -> None:
    view = View(grow(None, say(*map(str, range(20_000)))), kept=7)
    back = pickle.loads(pickle.dumps(view))
    assert back == view
    assert back.kept == 7
    del back, view  # the chain is freed without recursion, too
