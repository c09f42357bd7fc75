"""Small corpora whose truth is known by construction, and turns to play over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentgym.core.graph import View
from agentgym.core.records import Part, Task, ToolCall, Truth, Turn
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet
from agentgym.envs.prune_search.env import PruneSearchEnv

MAX_TOKENS, SLACK = 64, 16
_BRIDGES = ("Ardle", "Brenk", "Corvane", "Dusmore", "Elwick", "Farrow")
_PEOPLE = ("Ilse Marden", "Otto Quill", "Runa Sveld", "Pia Tolland", "Jon Weir", "Vera Yost")
_TOWNS = ("Ganmouth", "Hallin", "Isker", "Jorvale", "Kestow", "Lumbry")
_RIVERS = ("Nessel", "Orrin", "Pelm", "Quist", "Ruhn", "Sarn")
_FILLER = (
    "The parish records list eleven mills, two of them driven by wind and the rest by water. "
    "A market was held every second Thursday until the road was moved. "
    "Visitors praised the orchards, the long harbour wall and the brass band. "
)


def small_taskset() -> TaskSet:
    """Six tasks of three hops (bridge → designer → town → river); the middle fact stands in two chunks."""
    documents: list[Document] = []
    for i, (bridge, person, town, river) in enumerate(zip(_BRIDGES, _PEOPLE, _TOWNS, _RIVERS, strict=True)):
        documents += [
            Document(
                f"b{i}", f"{_FILLER}The {bridge} bridge was designed by {person} in a dry summer. {_FILLER}", bridge
            ),
            Document(f"p{i}", f"{person} was born in {town}, the third of five children. {_FILLER}{_FILLER}", person),
            Document(f"t{i}", f"{_FILLER}{_FILLER}The town of {town} lies on the river {river}, below a weir.", town),
            Document(
                f"g{i}", f"Gazette, page {i}. {person} was born in {town}, we are told. {_FILLER}", f"Gazette {i}"
            ),
        ]
    documents += [Document(f"x{i}", f"Almanac {i}. {_FILLER * 3}", f"Almanac {i}") for i in range(6)]
    tasks, truths = [], []
    for i, (bridge, person, town, river) in enumerate(zip(_BRIDGES, _PEOPLE, _TOWNS, _RIVERS, strict=True)):
        quotes = [f"designed by {person}", f"{person} was born in {town}", f"{town} lies on the river {river}"]
        facts = [holders(documents, quote) for quote in quotes]
        payload = {
            "level": "chunk",
            "relevant": [chunk for fact in facts for chunk in fact],
            "answer": river,
            "answer_ids": facts[-1],
            "facts": facts,
            "quotes": quotes,
            "entities": [bridge, person, town],
        }
        question = f"Which river flows past the birthplace of the designer of the {bridge} bridge?"
        tasks.append(Task(f"s{i}", "prune-search", question, f"c{i // 2}", {"hops": 3}))
        truths.append(Truth(f"s{i}", "prune-search", payload))
    cut = {"counter": "o200k", "max_tokens": MAX_TOKENS, "slack": SLACK}
    return TaskSet("small", tuple(documents), tuple(tasks), tuple(truths), {"chunking": cut})


def plain_taskset() -> TaskSet:
    """The small set judged by document: nothing in it says how it is cut, so every profile can play it."""
    small = small_taskset()
    truths = []
    for truth in small.truths:
        facts = [[chunk.rpartition("_")[0] for chunk in fact] for fact in truth.payload["facts"]]
        payload = {"level": "document", "relevant": [doc for fact in facts for doc in fact], "facts": facts}
        truths.append(Truth(truth.id, truth.family, {**payload, "answer_ids": facts[-1]}))
    return TaskSet("plain", small.documents, small.tasks, tuple(truths))


def holders(documents: Iterable[Document], quote: str) -> list[str]:
    """Chunks that hold a quote."""
    tokens = counter("o200k")
    chunks = [chunk for d in documents for chunk in chunk_document(d, tokens, MAX_TOKENS, SLACK)]
    return [chunk.id for chunk in chunks if quote in chunk.text]


def sources_taskset() -> TaskSet:
    """One task over three named sources, judged by document."""
    texts = {
        "web": ["The comet Halvard was first seen in May.", "A comet is a ball of ice.", "Tides follow the moon."],
        "news": ["Comet Halvard returns, the observatory says.", "Harbour closed by ice.", "Band plays in the park."],
        "mail": [
            "Did you see the comet from the roof?",
            "Please bring the ice.",
            "Minutes of the meeting about tides.",
        ],
    }
    documents = [
        Document(f"{source}{i}", f"{text} It is told here as {source} item {i}.", f"{source} {i}", source)
        for source, items in texts.items()
        for i, text in enumerate(items)
    ]
    task = Task("m0", "prune-search", "When was the comet Halvard first seen?")
    truth = Truth("m0", "prune-search", {"level": "document", "relevant": ["web0"], "answer_ids": ["web0"]})
    return TaskSet("sources", tuple(documents), (task,), (truth,))


def search(query: str, **more: Any) -> ToolCall:
    return call("search_corpus", query=query, **more)


def grep(pattern: str) -> ToolCall:
    return call("grep_corpus", pattern=pattern)


def read(doc_id: str) -> ToolCall:
    return call("read_document", doc_id=doc_id)


def prune(*chunk_ids: str) -> ToolCall:
    return call("prune_chunks", chunk_ids=list(chunk_ids))


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c0", name, json.dumps(arguments))


def turn(*calls: ToolCall) -> Turn:
    return Turn(tool_calls=tuple(ToolCall(f"c{i}", c.name, c.arguments) for i, c in enumerate(calls)))


def answer(*chunk_ids: str) -> Turn:
    return Turn("\n".join(f'<Document id="{chunk_id}">' for chunk_id in chunk_ids))


def live(view: View) -> list[str]:
    """Ids of the chunks in view, in order."""
    return [part.chunk for part in parts(view) if part.chunk is not None]


def parts(view: View) -> list[Part]:
    return [part for message in view.messages for part in message.parts]


def last(view: View) -> str:
    """Text of the last message."""
    return view.messages[-1].text


def play(env: PruneSearchEnv, task: str, turns: Sequence[Turn], seed: int = 0) -> tuple[View, float, dict[str, Any]]:
    """Play turns; returns the last view, the reward and the info."""
    view, info = env.reset(seed=seed, options={"task": task})
    reward = 0.0
    for action in turns:
        view, reward, _, _, info = env.step(action)
    return view, reward, info
