"""How pages put things: a fact as a sentence in one of many ways, and texture, which names other entities of the region
without saying anything that a task could ask."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentgym.synthesis.dice import Dice, capital, expand
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.world import Entity, Fact, World, day_text


class Teller:
    """Writes the sentences of one page. Entities in `avoid` are never named; facts in `clued` are what clues speak of."""

    def __init__(
        self, world: World, region: int, dice: Dice, settings: Settings, clued: Collection[Fact], avoid: Collection[int]
    ) -> None:
        self.world = world
        self.region = region
        self.dice = dice
        self._settings = settings
        self._clued = clued
        self._avoid = avoid
        self._everyone = world.in_region(region)
        self._texture = world.schema.texture

    def fact(self, fact: Fact, *, back: bool = False, called: str | None = None) -> str:
        """A sentence that tells the fact; `back`: with the relation's object as its subject. `called` replaces the subject's
        name (on its own page)."""
        subject = self.world.entities[fact.subject]
        named = [subject.id, *([subject.rels[fact.name]] if fact.kind == "rel" else [])]
        subject_name = self.world.entities[named[-1] if back else named[0]].name
        phrase = self._phrase(subject, fact, back)

        def slot(name: str) -> str:
            if name == "S":
                return called or subject_name
            return phrase if name == "vp" else self._slot(name, None, named)

        return capital(expand(self.dice.pick(self._texture.wrap), self.dice, slot))

    def _phrase(self, subject: Entity, fact: Fact, back: bool) -> str:
        entity_type = self.world.schema.types[subject.type]
        if fact.kind == "date":
            return self.dice.pick(entity_type.date.say).format(d=day_text(subject.day, self.dice.below(3)))
        if fact.kind == "attr":
            attribute = entity_type.attribute(fact.name)
            phrase = self.dice.pick(attribute.say).format(v=self.world.value(subject, attribute))
            glosses = self.world.group(subject, attribute).gloss
            if fact not in self._clued:
                return f"{phrase}, {self.dice.pick(glosses)}" if self.dice.chance(self._settings.gloss) else phrase
            return f"{phrase}, {glosses[subject.side]}" if self.dice.chance(self._settings.chain_gloss) else phrase
        relation = entity_type.relation(fact.name)
        templates = relation.back if back else relation.say
        near = fact in self._clued and self.dice.chance(self._settings.echo)
        template = relation.nearest(templates) if near else self.dice.pick(templates)
        return template.format(s=subject.name, o=self.world.entities[subject.rels[fact.name]].name)

    def texture(self, about: Entity | None) -> str:
        """A sentence without facts, at times about `about`."""
        own = about is not None and self.dice.chance(0.35)
        pool: Sequence[str] = self._texture.about(about.type) if about is not None and own else self._texture.general
        return self.line(pool, about)

    def line(self, templates: Sequence[str], about: Entity | None, plural: str = "") -> str:
        """One of the templates, filled; `plural` fills the slot of that name."""
        text = expand(
            self.dice.pick(templates), self.dice, lambda name: plural if name == "plural" else self._slot(name, about)
        )
        return capital(text)

    def _slot(self, name: str, about: Entity | None, named: Collection[int] = ()) -> str:
        if name in "SN":
            return self._subject(name, about)
        if name == "r":
            return self.world.regions[self.region]
        if name == "n":
            return str(self.dice.between(3, 97))
        if name == "w":
            return str(self.dice.between(1861, 1994))
        if name == "g":
            return self.dice.pick(self.world.schema.glosses)
        if self.dice.chance(self._settings.plain):
            return self.dice.pick(
                {"p": self._texture.plain_p, "t": self._texture.plain_t}.get(name, self._texture.plain_x)
            )
        type_name = {"p": "person", "t": "town"}.get(name) or self.dice.pick(list(self.world.schema.types))
        if self.dice.chance(self._settings.walk_ons):
            return self.dice.pick(self.world.walk_ons[self.region, type_name])
        return self._someone(self.world.of(self.region, type_name), named)

    def _subject(self, slot: str, about: Entity | None) -> str:
        if about is None:
            return "the matter" if slot == "N" else self._someone(self._everyone)
        nouns = self.world.schema.types[about.type].noun
        if slot == "N" and nouns:
            return self.dice.pick(nouns)
        return about.core if about.type == "person" and self.dice.chance(0.6) else about.name

    def _someone(self, pool: Sequence[int], named: Collection[int] = ()) -> str:
        for _ in range(20):
            id = self.dice.pick(pool)
            if id not in self._avoid and id not in named:
                return self.world.entities[id].name
        return self.dice.pick(self._texture.plain_x)
