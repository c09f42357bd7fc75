"""The world: regions full of typed entities with dated, functional relations between them, all invented from one seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.names import Namer
from agentgym.synthesis.search.schema import Attribute, Group, Schema

Kind = Literal["attr", "rel", "date"]
_CENSUS = {
    "person": 13, "town": 5, "river": 2, "company": 5, "bridge": 3, "museum": 3, "festival": 3, "ensemble": 3, "team": 3,
    "school": 3, "species": 2, "product": 3, "ship": 3, "book": 3, "album": 3, "film": 3, "award": 2,
}  # fmt: skip
_WALK_ONS = 5  # times as many names without an entity
_ABROAD = 0.08  # chance that a relation leaves the region
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is true of an entity: `name` is an attribute or relation, or `date`."""

    kind: Kind
    subject: int
    name: str


@dataclass(slots=True)
class Entity:
    """An entity. `attrs`: attribute → (group, value index). `rels`: relation → entity. `day`: (year, month, day)."""

    id: int
    type: str
    name: str
    core: str
    region: int
    day: tuple[int, int, int]
    attrs: dict[str, tuple[str, int]] = field(default_factory=dict)
    rels: dict[str, int] = field(default_factory=dict)

    @property
    def side(self) -> int:
        """0 or 1: which of a group's two wordings pages prefer for this entity."""
        return self.id % 2


@dataclass(slots=True)
class World:
    """All entities by id, the names of the regions, and by region and type names that belong to nobody."""

    schema: Schema
    regions: list[str]
    entities: list[Entity] = field(default_factory=list)
    pools: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    walk_ons: dict[tuple[int, str], list[str]] = field(default_factory=dict)

    def of(self, region: int, type_name: str) -> list[int]:
        """Ids of a region's entities of a type, ascending."""
        return self.pools.get((region, type_name), [])

    def in_region(self, region: int) -> list[int]:
        """Ids of all entities of a region, by type, then ascending."""
        return [id for type_name in self.schema.types for id in self.of(region, type_name)]

    def every(self, type_name: str) -> list[Entity]:
        """All entities of a type, region by region."""
        return [self.entities[id] for region in range(len(self.regions)) for id in self.of(region, type_name)]

    def add(self, type_name: str, region: int, namer: Namer, dice: Dice) -> Entity:
        """A new entity with a name, a day and attributes; relations come later."""
        name, core = namer.name(type_name)
        born = (1830, 1950) if type_name == "person" else (1855, 1988)
        day = (dice.between(*born), dice.between(1, 12), dice.between(1, 28))
        entity = Entity(len(self.entities), type_name, name, core, region, day)
        for attribute in self.schema.types[type_name].attr:
            domain = self.schema.domains[attribute.domain]
            group = dice.pick(list(domain))
            entity.attrs[attribute.name] = (group, dice.below(len(domain[group].values)))
        self.entities.append(entity)
        self.pools.setdefault((region, type_name), []).append(entity.id)
        return entity

    def relate(self, entity: Entity, dice: Dice, avoid: Iterable[int] = ()) -> None:
        """Draw all relations of an entity, to entities that are not in `avoid`."""
        banned = {entity.id, *avoid}
        for relation in self.schema.types[entity.type].rel:
            abroad = len(self.regions) > 1 and dice.chance(_ABROAD)
            region = dice.below(len(self.regions)) if abroad else entity.region
            candidates = [id for id in self.of(region, relation.object) if id not in banned]
            if relation.object == "person":
                candidates = [id for id in candidates if self._adult(id, entity)] or candidates
            if candidates:
                entity.rels[relation.name] = dice.pick(candidates)

    def _adult(self, person: int, thing: Entity) -> bool:
        age = thing.day[0] - self.entities[person].day[0]
        return 20 <= age <= 75

    def group(self, entity: Entity, attribute: Attribute) -> Group:
        """The group that an entity's value of an attribute belongs to."""
        return self.schema.domains[attribute.domain][entity.attrs[attribute.name][0]]

    def value(self, entity: Entity, attribute: Attribute) -> str:
        """What pages say for the value."""
        return self.group(entity, attribute).values[entity.attrs[attribute.name][1]]


def build_world(schema: Schema, regions: int, scale: float, namer: Namer, dice: Dice) -> World:
    """A world of `regions` regions of about `60 * scale` entities each."""
    world = World(schema, [namer.name("region")[0] for _ in range(regions)])
    for region in range(regions):
        for type_name in schema.types:
            count = max(2, round(_CENSUS[type_name] * scale))
            for _ in range(count + dice.below(2)):
                world.add(type_name, region, namer, dice)
            names = [namer.name(type_name)[0] for _ in range(_WALK_ONS * count)]
            world.walk_ons[region, type_name] = names
    for entity in list(world.entities):
        world.relate(entity, dice)
    return world


def day_text(day: tuple[int, int, int], style: int = 0) -> str:
    """A date as pages write it: `3 May 1921`, `May 3, 1921`, `the 3rd of May 1921`."""
    year, month, number = day
    name = MONTHS[month - 1]
    if style == 1:
        return f"{name} {number}, {year}"
    if style == 2:
        ending = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        return f"the {number}{ending} of {name} {year}"
    return f"{number} {name} {year}"
