"""Verification by code (report §1): quotes are extracted verbatim and looked up; nothing here asks for an opinion.

A task is accepted when at least ceil(2/3) of the clue quotes stand in the clues and of the item quotes in their item, *all*
truth quotes stand in their item, some item holds the truth, each level's bridge holds the truth before it, no two items are
the same chunk, the clues keep their rules, and enough distractors hold no truth of the chain in any form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec

from agentgym.core.records import Record, Task, Truth
from agentgym.corpus.document import Chunk
from agentgym.corpus.quotes import find_quote
from agentgym.synthesis.search.clues import broken_rules
from agentgym.synthesis.search.world import MONTHS


class Item(Record, frozen=True):
    """A supporting item: a chunk, what the clues say of it and what it says itself. `truth_quotes` are words of the chunk
    that hold its level's truth; `bridge`: of a level above 0, the earlier item that leads to it."""

    chunk: str
    level: int
    clue_quotes: tuple[str, ...]
    item_quotes: tuple[str, ...]
    truth_quotes: tuple[str, ...] = ()
    bridge: str | None = None


class SearchTruth(Record, frozen=True):
    """The payload of a search task's truth. `truths` are the levels' answers, `cores` the part of each that no
    other name shares (empty for a date). `entities` and `quotes`, in the order of
    the chain, are what an agent searches for that knows the facts but no ids."""

    level: str
    answer: str
    answer_ids: tuple[str, ...]
    relevant: tuple[str, ...]
    facts: tuple[tuple[str, ...], ...]
    entities: tuple[str, ...]
    quotes: tuple[str, ...]
    items: tuple[Item, ...]
    truths: tuple[str, ...]
    cores: tuple[str, ...]
    distractors: tuple[str, ...]
    clues: tuple[str, ...]
    question: str


class Kind(StrEnum):
    """What can be wrong with a task."""

    CLUE_QUOTE = "clue quote not in the clues"
    ITEM_QUOTE = "item quote not in its item"
    TRUTH_QUOTE = "truth quote not in its item"
    NO_TRUTH = "no item holds the truth"
    BRIDGE = "bridge does not hold the truth before it"
    DUPLICATE = "two items are the same chunk"
    RULE = "a clue rule is broken"
    PROMPT = "the prompt is not its clues and question"
    DISTRACTORS = "too few distractors without truth"
    UNKNOWN_CHUNK = "a chunk that the corpus does not have"
    SUPPORT = "wrong number of items for the hops"


class Problem(Record, frozen=True):
    """A reason to reject a task."""

    kind: Kind
    detail: str


def verify(
    task: Task, truth: Truth, chunks: Mapping[str, Chunk], documents: Mapping[str, str], survivors: int,
    cores: Collection[str],
) -> list[Problem]:  # fmt: skip
    """All reasons to reject a task; empty when it stands.

    `chunks` by id, `documents` id → text; at least `survivors` distractors must be clean; `cores` are the parts of names
    that no clue may hold, lower case.
    """
    known = msgspec.convert(truth.payload, SearchTruth)
    missing = sorted({*known.relevant, *known.answer_ids, *(item.chunk for item in known.items)} - chunks.keys())
    if missing:
        return [Problem(Kind.UNKNOWN_CHUNK, missing[0])]
    problems = _quotes(task, known, chunks) + _structure(task, known, chunks)
    if " ".join([*known.clues, known.question]) != task.prompt:
        problems.append(Problem(Kind.PROMPT, task.prompt[:80]))
    problems += [Problem(Kind.RULE, text) for text in broken_rules(known.clues, known.question, cores)]
    clean = clean_distractors(known.distractors, known, documents)
    if len(clean) < survivors:
        problems.append(Problem(Kind.DISTRACTORS, f"{len(clean)} clean, {survivors} needed"))
    return problems


def clean_distractors(distractors: Sequence[str], known: SearchTruth, documents: Mapping[str, str]) -> list[str]:
    """Those distractors that hold no truth of the chain in any form."""
    truths = list(zip(known.truths, known.cores, strict=True))
    return [d for d in distractors if d in documents and not any(holds(t, core, documents[d]) for t, core in truths)]


def _quotes(task: Task, known: SearchTruth, chunks: Mapping[str, Chunk]) -> list[Problem]:
    problems = []
    for item in known.items:
        text = chunks[item.chunk].text
        for quotes, where, kind in (
            (item.clue_quotes, task.prompt, Kind.CLUE_QUOTE),
            (item.item_quotes, text, Kind.ITEM_QUOTE),
        ):
            found = sum(find_quote(quote, where) is not None for quote in quotes)
            if not quotes or found < math.ceil(len(quotes) * 2 / 3):
                problems.append(Problem(kind, f"{item.chunk}: {found} of {len(quotes)}"))
        lost = [quote for quote in item.truth_quotes if find_quote(quote, text) is None]
        if lost:
            problems.append(Problem(Kind.TRUTH_QUOTE, f"{item.chunk}: {lost[0]!r}"))
    return problems


def _structure(task: Task, known: SearchTruth, chunks: Mapping[str, Chunk]) -> list[Problem]:
    problems = []
    hops = len(known.truths)
    ids = [item.chunk for item in known.items]
    if len(ids) != 3 + 2 * (hops - 1) or task.payload.get("hops") != hops:
        problems.append(Problem(Kind.SUPPORT, f"{len(ids)} items for {hops} hops"))
    if len(set(ids)) != len(ids):
        problems.append(Problem(Kind.DUPLICATE, next(id for id in ids if ids.count(id) > 1)))
    for level, (answer, core) in enumerate(zip(known.truths, known.cores, strict=True)):
        holders = [
            i.chunk for i in known.items if i.level == level and any(holds(answer, core, q) for q in i.truth_quotes)
        ]
        if not holders:
            problems.append(Problem(Kind.NO_TRUTH, f"level {level}"))
        for item in known.items:
            if item.level == level + 1 and item.bridge not in holders:
                problems.append(Problem(Kind.BRIDGE, f"{item.chunk} at level {level + 1}"))
    wrong = [id for id in known.answer_ids if not holds(known.answer, known.cores[-1], chunks[id].text)]
    if wrong or known.truths[-1:] != (known.answer,):
        problems.append(Problem(Kind.NO_TRUTH, f"answer {known.answer!r}"))
    return problems


def holds(answer: str, core: str, text: str) -> bool:
    """Does the text hold the answer in any form: a name's own part, with initials, in other case; a date in any notation?"""
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in forms(answer, core))


def forms(answer: str, core: str) -> Sequence[str]:
    """Patterns of the forms that an answer takes; `core` is the part of a name that no other name shares."""
    date = re.fullmatch(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})", answer)
    if date is None or date.group(2) not in MONTHS:
        return (rf"(?<!\w){re.escape(core or answer)}(?!\w)",)
    day, month, year = int(date.group(1)), date.group(2), date.group(3)
    number = MONTHS.index(month) + 1
    words = rf"(?:{month}|{month[:3]}\.?)"
    return (
        rf"\b{day}(?:st|nd|rd|th)?(?: of)? {words},? {year}\b",
        rf"\b{words} {day}(?:st|nd|rd|th)?,? {year}\b",
        rf"\b{year}-0?{number}-0?{day}\b",
        rf"\b0?{day}[./]0?{number}[./]{year}\b",
    )
