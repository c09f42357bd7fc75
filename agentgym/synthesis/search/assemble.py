"""From written pages to tasks with truth: documents get ids that say nothing, facts are looked up in their chunks, and each
plan becomes a task, or is dropped when its verifier objects."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from agentgym.core.records import Task, Truth
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Chunk, Document
from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.chain import Plan
from agentgym.synthesis.search.clues import Clues, write_clues
from agentgym.synthesis.search.distract import similar
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.verify import Item, SearchTruth, clean_distractors
from agentgym.synthesis.search.world import Fact, World, day_text
from agentgym.synthesis.search.writers import Page

Places = dict[Fact, list[tuple[str, str]]]
"""Fact → (chunk id, sentence) for each time a page tells it within one chunk."""


class Library:
    """The corpus with all that is known of it: chunks by id, texts by document, where facts stand."""

    def __init__(self, world: World, pages: list[Page], settings: Settings, dice: Dice) -> None:
        self.world = world
        self.documents: list[Document] = []
        self.chunks: dict[str, Chunk] = {}
        self.texts: dict[str, str] = {}
        self.places: Places = {}
        self.profiles: dict[int, str] = {}
        tokens = counter(settings.counter)
        for number, page in enumerate(dice.shuffled(pages)):
            document = Document(id=f"w{number:05d}", text=page.text, title=page.title, source="web")
            chunks = chunk_document(document, tokens, settings.max_tokens, settings.slack)
            self.documents.append(document)
            self.texts[document.id] = page.text
            self.chunks.update((chunk.id, chunk) for chunk in chunks)
            self._mark(page, chunks)
            if page.order.kind == "profile" and page.order.subject is not None:
                self.profiles[page.order.subject] = document.id

    def _mark(self, page: Page, chunks: list[Chunk]) -> None:
        for mark in page.marks:
            for chunk in chunks:
                if chunk.start <= mark.start and mark.end <= chunk.end:
                    self.places.setdefault(mark.fact, []).append((chunk.id, page.text[mark.start : mark.end]))

    def ids(self, fact: Fact) -> tuple[str, ...]:
        """Chunks that tell the fact."""
        return tuple(dict.fromkeys(chunk for chunk, _ in self.places.get(fact, ())))

    def together(self, facts: tuple[Fact, ...], taken: Collection[str]) -> tuple[str, list[str]] | None:
        """A chunk, not among `taken`, that tells all the facts, with their sentences; None if a cut parted them."""
        for chunk in self.ids(facts[0]):
            if chunk in taken:
                continue
            sentences = [s for fact in facts for s in [self._sentence(fact, chunk)] if s is not None]
            if len(sentences) == len(facts):
                return chunk, sentences
        return None

    def _sentence(self, fact: Fact, chunk: str) -> str | None:
        return next((text for id, text in self.places.get(fact, ()) if id == chunk), None)


def make_task(
    library: Library, plan: Plan, decoys: list[int], asked: int, task_id: str, dice: Dice
) -> tuple[Task, Truth] | None:
    """Task and truth of a plan; None when its facts came to stand apart. Not yet verified.

    Distractors are the plan's own decoys and, up to `asked`, other entities of the world that meet part of its conditions.
    """
    world = library.world
    clues = write_clues(world, plan, dice)
    items = _items(library, plan, clues)
    if items is None:
        return None
    link = plan.links[-1]
    answers = [_answer(world, link.subject, link.object) for link in plan.links]
    known = SearchTruth(
        level="chunk",
        answer=answers[-1][0],
        answer_ids=library.ids(link.fact),
        relevant=tuple(dict.fromkeys(id for fact in plan.facts for id in library.ids(fact))),
        facts=tuple(library.ids(fact) for fact in plan.facts),
        entities=_names(world, plan),
        quotes=tuple(quote for item in items for quote in item.item_quotes),
        items=tuple(items),
        truths=tuple(answer for answer, _ in answers),
        cores=tuple(core for _, core in answers),
        distractors=tuple(
            library.profiles[id] for id in [*decoys, *similar(world, plan, dice)] if id in library.profiles
        ),
        clues=clues.levels,
        question=clues.question,
    )
    kept = clean_distractors(known.distractors, known, library.texts)
    known = msgspec.structs.replace(known, distractors=tuple(dict.fromkeys(kept))[:asked])
    region = world.entities[plan.start].region
    task = Task(
        id=task_id,
        family="prune-search",
        prompt=clues.prompt,
        cluster=f"region-{region:03d}",
        payload={"hops": plan.hops, "domain": "web"},
    )
    payload = msgspec.json.decode(msgspec.json.encode(known))  # lists, as when read from disk
    return task, Truth(task_id, "prune-search", payload)


def _answer(world: World, subject: int, target: int | None) -> tuple[str, str]:
    if target is None:
        return day_text(world.entities[subject].day), ""
    return world.entities[target].name, world.entities[target].core


def _items(library: Library, plan: Plan, clues: Clues) -> list[Item] | None:
    """The plan's items in the order of its hops, each on a chunk of its own; None if some facts stand nowhere together."""
    wanted: list[tuple[int, tuple[Fact, ...], bool]] = []
    for level, link in enumerate(plan.links):
        more = (Fact("attr", plan.start, plan.second),) if level == 0 else ()
        end = (plan.told_last,) if level == plan.hops - 1 else ()
        wanted.append((level, (link.described, *more), False))
        wanted += [(0, plan.aside, False)] if level == 0 else []
        wanted.append((level, (link.fact, *end), True))
    found: dict[int, tuple[str, list[str]]] = {}
    for i in sorted(
        range(len(wanted)), key=lambda i: not wanted[i][2]
    ):  # truths choose first: they stand in fewest places
        place = library.together(wanted[i][1], {chunk for chunk, _ in found.values()})
        if place is None:
            return None
        found[i] = place
    holder = {wanted[i][0]: chunk for i, (chunk, _) in found.items() if wanted[i][2]}
    items = []
    for i, (level, facts, is_truth) in enumerate(wanted):
        chunk, sentences = found[i]
        quotes = tuple(clues.quotes[fact] for fact in facts)
        truth_quotes = (sentences[0],) if is_truth else ()
        items.append(Item(chunk, level, quotes, tuple(sentences), truth_quotes, holder.get(level - 1)))
    return items


def _names(world: World, plan: Plan) -> tuple[str, ...]:
    """Names in the order in which the chain meets them."""
    path = [plan.start, plan.support, *[link.object for link in plan.links if link.object is not None]]
    return tuple(world.entities[id].name for id in path)
