"""The set `tiny`: the same kind of search in a closed vocabulary of a few hundred words, for policies small enough to train
on a laptop.

Every page is one chunk of at most 32 words and marks, every question has at most 24, so that an episode fits into 256. A
task has one or two hops: a page found by two described values, then the page of a name read there. Each value has two words,
and page and question choose independently, so that half of what is asked stands in other words.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, field
from importlib import resources

import msgspec

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record, Task, Truth
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet
from agentgym.synthesis.dice import Dice, expand
from agentgym.synthesis.splits import check_split, owner

GENERATOR = "search-tiny/1"
CHUNK_TOKENS, CHUNK_SLACK, QUESTION_TOKENS = 24, 8, 24
_VALUES = {"person": ("good", "pet"), "town": ("water", "sight"), "ship": ("cargo", "sail")}
_RELATIONS = {"person": {"home": "town"}, "town": {"mayor": "person"}, "ship": {"captain": "person"}}
_NAME_PARTS = {"person": ("given", "family"), "town": ("town", "place"), "ship": ("ship", "bird")}


class Question(Record, frozen=True):
    """`path`: relations followed from the start; its last step is what is asked for, a relation or a value."""

    start: str
    path: tuple[str, ...]
    ask: str


class Tables(Record, frozen=True):
    """The file `data/tiny.toml`."""

    parts: dict[str, str]
    values: dict[str, tuple[str, ...]]
    page: dict[str, tuple[str, ...]]
    question: tuple[Question, ...]


@dataclass(slots=True)
class Thing:
    """An entity with the page that tells all about it. `said` are the words its page uses for its values."""

    type: str
    name: str
    values: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    rels: dict[str, Thing] = field(default_factory=dict)
    doc: str = ""
    text: str = ""


@functools.lru_cache(maxsize=1)
def tables() -> Tables:
    """The closed vocabulary and its templates."""
    text = resources.files(__package__).joinpath("data", "tiny.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Tables)


def generate_tiny(seed: int, n_tasks: int, split: str, name: str = "tiny") -> TaskSet:
    """A tiny task set over all names that the split owns. Raises ConfigError when those do not suffice."""
    check_split(split)
    dice = Dice(seed, "tiny")
    things = _things(split, dice)
    for number, thing in enumerate(dice.shuffled(things)):
        thing.doc = f"p{number:03d}"
    things.sort(key=lambda thing: thing.doc)
    for thing in things:
        _write(thing, dice)
    documents = tuple(Document(id=t.doc, text=t.text, title=t.name, source="tiny") for t in things)
    made = _tasks(things, n_tasks, name, dice)
    if len(made) < n_tasks:
        raise ConfigError(f"{len(made)} of {n_tasks} tiny tasks stand in the {split} split")
    manifest = {
        "generator": GENERATOR,
        "seed": seed,
        "settings": {"split": split},
        "chunking": {"counter": "words", "max_tokens": CHUNK_TOKENS, "slack": CHUNK_SLACK},
    }
    return TaskSet(name, documents, tuple(t for t, _ in made), tuple(t for _, t in made), manifest)


def verify_tiny(task: Task, truth: Truth, documents: dict[str, Document]) -> list[str]:
    """What is wrong with a task, in words: sizes, and that each fact and the answer stand where the truth says."""
    words = counter("words")
    problems = []
    if words.count(task.prompt) > QUESTION_TOKENS:
        problems.append(f"question of {words.count(task.prompt)} words and marks")
    for quote, chunk in zip(truth.payload["quotes"], truth.payload["relevant"], strict=True):
        document = documents[chunk.rpartition("_")[0]]
        if len(chunk_document(document, words, CHUNK_TOKENS, CHUNK_SLACK)) != 1:
            problems.append(f"page {document.id} is not one chunk")
        if quote not in document.text:
            problems.append(f"{document.id} does not say {quote!r}")
    if not all(truth.payload["answer"] in documents[c.rpartition("_")[0]].text for c in truth.payload["answer_ids"]):
        problems.append(f"answer {truth.payload['answer']!r} stands elsewhere")
    return problems


def _things(split: str, dice: Dice) -> list[Thing]:
    """All entities of a split: as many as there are names, with values and relations drawn."""
    parts = {key: text.split() for key, text in tables().parts.items()}
    pools: dict[str, list[Thing]] = {}
    for type_name, (first, second) in _NAME_PARTS.items():
        names = [f"{a} {b}" for a in parts[first] for b in parts[second]]
        owned = [name for name in names if owner(name) == split]
        pools[type_name] = [Thing(type_name, name) for name in dice.sample(owned, 150)]
    for pool in pools.values():
        for thing in pool:
            for value in _VALUES[thing.type]:
                thing.values[value] = dice.pick(tables().values[value])
                thing.said[value] = dice.pick(thing.values[value].split())
            for relation, target in _RELATIONS[thing.type].items():
                thing.rels[relation] = dice.pick(pools[target])
    return [thing for pool in pools.values() for thing in pool]


def _write(thing: Thing, dice: Dice) -> None:
    words = {"S": thing.name, **thing.said, **{key: other.name for key, other in thing.rels.items()}}
    text = expand(dice.pick(tables().page[thing.type]), dice, words.__getitem__)
    thing.text = text.replace(" .", ".")


def _tasks(things: list[Thing], n_tasks: int, name: str, dice: Dice) -> list[tuple[Task, Truth]]:
    """Questions in turn, each over its own starts; a start serves another question only when all have served one."""
    documents = {thing.doc: Document(id=thing.doc, text=thing.text) for thing in things}
    starts = dice.shuffled([thing for thing in things if _alone(thing, things)])
    pairs: list[tuple[int, int, Thing]] = []
    for kind in _VALUES:
        asked = [i for i, question in enumerate(tables().question) if question.start == kind]
        own = [thing for thing in starts if thing.type == kind]
        pairs += [
            (r * len(own) + i, asked[(i + r) % len(asked)], s) for r in range(len(asked)) for i, s in enumerate(own)
        ]
    made: list[tuple[Task, Truth]] = []
    for _, number, start in sorted(pairs, key=lambda pair: pair[:2]):
        task, truth = _task(tables().question[number], start, f"{name}-{len(made):04d}", dice)
        if len(made) < n_tasks and not verify_tiny(task, truth, documents):
            made.append((task, truth))
    return made


def _alone(thing: Thing, things: list[Thing]) -> bool:
    """Does no other entity have both its values?"""
    return sum(other.type == thing.type and other.values == thing.values for other in things) == 1


def _task(question: Question, start: Thing, task_id: str, dice: Dice) -> tuple[Task, Truth]:
    prompt = expand(question.ask, dice, lambda value: dice.pick(start.values[value].split()))
    path = [start]
    for step in question.path[:-1]:
        path.append(path[-1].rels[step])
    last, end = question.path[-1], path[-1]
    answer = end.said[last] if last in end.said else end.rels[last].name
    chunks = [f"{thing.doc}_0" for thing in path]
    payload = {
        "level": "chunk",
        "relevant": chunks,
        "answer": answer,
        "answer_ids": chunks[-1:],
        "facts": [[chunk] for chunk in chunks],
        "entities": [thing.name for thing in path],
        "quotes": [thing.text for thing in path],
    }
    hops = {"hops": len(question.path), "domain": "tiny"}
    task = Task(task_id, "prune-search", prompt.replace(" ?", "?"), start.doc, hops)
    return task, Truth(task_id, "prune-search", payload)
