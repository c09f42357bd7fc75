"""Pages: profiles, notes, lists and chronicles. A page is mostly texture; the facts it tells stand scattered through it, and
where each stands is recorded, so that truth is known and not searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentgym.synthesis.dice import Dice, capital
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.tell import Teller
from agentgym.synthesis.search.world import Entity, Fact, World

PageKind = Literal["profile", "note", "list", "chronicle"]
_SENTENCE_TOKENS = 20  # of this prose, by o200k


@dataclass(slots=True)
class Order:
    """A page to be written. `groups` are facts that must stand together in one paragraph; `avoid` are entities never named;
    `listed` are the entities of a list or chronicle."""

    kind: PageKind
    region: int
    subject: int | None = None
    groups: list[tuple[Fact, ...]] = field(default_factory=list)
    avoid: frozenset[int] = frozenset()
    listed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a page tells a fact: characters [start, end) of its text."""

    fact: Fact
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """A written page."""

    order: Order
    title: str
    text: str
    marks: tuple[Mark, ...]


Unit = list[tuple[str, Fact | None]]
"""Sentences that stay together, each with the fact it tells."""


class PageWriter:
    """Writes pages of a world. Facts in `secret` are told only where an order asks for them; `clued` ones are explained."""

    def __init__(self, world: World, settings: Settings, secret: frozenset[Fact], clued: frozenset[Fact]) -> None:
        self._clued = clued
        self._world = world
        self._settings = settings
        self._secret = secret
        self._pointing: dict[int, list[Fact]] = {}
        for entity in world.entities:
            for name, target in entity.rels.items():
                self._pointing.setdefault(target, []).append(Fact("rel", entity.id, name))

    def write(self, order: Order, dice: Dice) -> Page:
        """Write one page."""
        teller = Teller(self._world, order.region, dice, self._settings, self._clued, order.avoid)
        subject = None if order.subject is None else self._world.entities[order.subject]
        if order.kind == "profile" and subject is not None:
            return self._profile(order, subject, teller, dice)
        if order.kind == "note":
            return self._note(order, teller, dice)
        return self._catalogue(order, teller, dice)

    def _profile(self, order: Order, subject: Entity, teller: Teller, dice: Dice) -> Page:
        texture = self._world.schema.texture
        intro = texture.intro_person if subject.type == "person" else texture.intro_thing
        plural = self._world.schema.types[subject.type].plural
        units = [self._unit(order, teller, group) for group in order.groups]
        for fact in self._profile_facts(subject, order.avoid, dice):
            units.append([(self._sentence(order, teller, fact, dice), fact)])
        first: Unit = [(teller.line(intro, subject, plural), None), (teller.texture(subject), None)]
        paragraphs = self._paragraphs(units, subject, teller, dice)
        return _compose(order, capital(subject.name), [first, *paragraphs], dice, texture.heading)

    def _profile_facts(self, subject: Entity, avoid: frozenset[int], dice: Dice) -> list[Fact]:
        """What a profile tells besides what it must: most of the subject's own facts, some of those that point to it, and
        facts of its neighbours, which recur on their own pages."""
        own = [Fact("attr", subject.id, name) for name in subject.attrs]
        own += [Fact("rel", subject.id, name) for name in subject.rels] + [Fact("date", subject.id, "date")]
        facts = [fact for fact in own if dice.chance(0.8)]
        facts += dice.sample(self._pointing.get(subject.id, []), 4)
        for neighbour in dice.sample(sorted(set(subject.rels.values())), 2):
            entity = self._world.entities[neighbour]
            facts.append(Fact("attr", neighbour, dice.pick(list(entity.attrs))))
        return [fact for fact in facts if self._open(fact, avoid)]

    def _note(self, order: Order, teller: Teller, dice: Dice) -> Page:
        note = dice.pick(self._world.schema.texture.note)
        units = [self._unit(order, teller, group) for group in order.groups]
        for id in dice.sample(self._world.in_region(order.region), dice.between(4, 7)):
            for fact in self._profile_facts(self._world.entities[id], order.avoid, dice)[: dice.between(1, 2)]:
                units.append([(teller.fact(fact), fact)])
        first: Unit = [(teller.line(note.opening, None), None), (teller.texture(None), None)]
        paragraphs = self._paragraphs(units, None, teller, dice)
        return _compose(order, teller.line(note.titles, None), [first, *paragraphs], dice, ())

    def _catalogue(self, order: Order, teller: Teller, dice: Dice) -> Page:
        texture = self._world.schema.texture
        entities = [self._world.entities[id] for id in order.listed]
        is_list = order.kind == "list"
        plural = self._world.schema.types[entities[0].type].plural if is_list else ""
        opening = texture.list_opening if is_list else texture.chronicle_opening
        blocks: list[Unit] = [[(teller.line(opening, None, plural), None), (teller.texture(None), None)]]
        if not is_list:
            entities.sort(key=lambda entity: (entity.day, entity.id))
        for entity in entities:
            forced = [group for group in order.groups if group[0].subject == entity.id]
            units: Unit = [item for group in forced for item in self._unit(order, teller, group)]
            facts = [Fact("date", entity.id, "date")] if not is_list else self._profile_facts(entity, order.avoid, dice)
            for fact in [fact for fact in facts if self._open(fact, order.avoid)][: dice.between(1, 2)]:
                units.append((teller.fact(fact), fact))
            head = f"**{capital(entity.name)}.**" if is_list else f"**{entity.day[0]}.**"
            blocks.append([(head, None), *units, *[(teller.texture(entity), None)] * dice.below(2)])
        title = teller.line(texture.list_title if is_list else texture.chronicle_title, None, plural)
        return _compose(order, title, blocks, dice, ())

    def _open(self, fact: Fact, avoid: frozenset[int]) -> bool:
        target = self._world.entities[fact.subject].rels.get(fact.name)
        return fact not in self._secret and fact.subject not in avoid and target not in avoid

    def _unit(self, order: Order, teller: Teller, group: Sequence[Fact]) -> Unit:
        return [(teller.fact(fact, back=self._points_here(order, fact)), fact) for fact in group]

    def _sentence(self, order: Order, teller: Teller, fact: Fact, dice: Dice) -> str:
        """A fact on a page about its subject or its object: the subject's name may give way to a noun."""
        back = self._points_here(order, fact)
        called = None
        if not back and fact.subject == order.subject and dice.chance(0.4):
            subject = self._world.entities[fact.subject]
            nouns = self._world.schema.types[subject.type].noun
            called = dice.pick(nouns) if nouns else subject.core
        return teller.fact(fact, back=back, called=called)

    def _points_here(self, order: Order, fact: Fact) -> bool:
        target = self._world.entities[fact.subject].rels.get(fact.name) if fact.kind == "rel" else None
        return order.kind == "profile" and target is not None and target == order.subject

    def _paragraphs(self, units: list[Unit], subject: Entity | None, teller: Teller, dice: Dice) -> list[Unit]:
        """Spread units over paragraphs and fill with texture up to a length drawn from the settings."""
        low, high = self._settings.page_tokens
        share = (dice.between(0, 1000) + dice.between(0, 1000)) / 2000  # most pages are of middling length
        wanted = int((low + (high - low) * share) / _SENTENCE_TOKENS)
        told = sum(len(unit) for unit in units)
        fill: list[Unit] = [[(teller.texture(subject), None)] for _ in range(max(len(units), wanted - told))]
        everything = dice.shuffled([*units, *fill])
        paragraphs: list[Unit] = []
        while everything:
            size = dice.between(3, 7)
            paragraphs.append([sentence for unit in everything[:size] for sentence in unit])
            everything = everything[size:]
        return paragraphs


def _compose(order: Order, title: str, blocks: list[Unit], dice: Dice, headings: Sequence[str]) -> Page:
    """Join paragraphs below the title and note where each fact came to stand."""
    text = f"{title}\n"
    marks: list[Mark] = []
    heads = dice.shuffled(headings) if headings and dice.chance(0.6) else []
    for i, block in enumerate(blocks):
        text += "\n"
        if heads and i and i % 3 == 1:
            text += f"## {heads.pop()}\n\n"
        for sentence, fact in block:
            if fact is not None:
                marks.append(Mark(fact, len(text), len(text) + len(sentence)))
            text += sentence + " "
        text = text[:-1] + "\n"
    return Page(order, title, text, tuple(marks))
