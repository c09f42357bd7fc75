"""Plans of chains. A task of h hops walks e0 → e1 → … → eh along functional relations.

Level 0 hides e0 behind three items: its own page with two attributes, another entity's page (which names e0 and has an
attribute of its own), and a page that tells e1, the level's truth. Each extension makes the item that holds the last truth
the bridge, and adds two items: one that describes the new subject, and one that holds the next truth (Context-1: 3
supporting items, then 1 bridging + 2 supporting; report §1).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.world import Entity, Fact, World

_USES = 2  # chains that an entity may serve; more would make a region's tasks resemble each other
Condition = tuple[str, str, str]
"""(relation or "", attribute, group): the subject's own attribute, or that of the relation's object."""


@dataclass(frozen=True, slots=True)
class Link:
    """A step of the chain: subject, relation (or `date`), object (None for a date), and the subject's described attribute."""

    subject: int
    relation: str
    object: int | None
    attribute: str

    @property
    def fact(self) -> Fact:
        return Fact("date" if self.object is None else "rel", self.subject, self.relation)

    @property
    def described(self) -> Fact:
        return Fact("attr", self.subject, self.attribute)


@dataclass(frozen=True, slots=True)
class Plan:
    """A chain to be asked about. `second` is e0's other described attribute; the support is what leads to e0 from aside;
    `last` is an attribute that stands beside the answer: the answer's own, or that of the subject whose date is asked for."""

    links: tuple[Link, ...]
    second: str
    last: str
    support: int
    support_relation: str
    support_attribute: str

    @property
    def hops(self) -> int:
        return len(self.links)

    @property
    def start(self) -> int:
        return self.links[0].subject

    @property
    def entities(self) -> tuple[int, ...]:
        """All entities that the task stands on, the start first, the support last."""
        path = [link.subject for link in self.links]
        last = self.links[-1].object
        return (*path, *([] if last is None else [last]), self.support)

    @property
    def told_last(self) -> Fact:
        """What stands beside the answer."""
        end = self.links[-1]
        return Fact("attr", end.subject if end.object is None else end.object, self.last)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the task stands on, in the order of its hops."""
        first = self.links[0]
        start = (first.described, Fact("attr", first.subject, self.second), *self.aside, first.fact)
        later = (fact for link in self.links[1:] for fact in (link.described, link.fact))
        return (*start, *later, self.told_last)

    @property
    def aside(self) -> tuple[Fact, Fact]:
        """The support's relation to e0, and its described attribute."""
        return (
            Fact("rel", self.start, self.support_relation),
            Fact("attr", self.support, self.support_attribute),
        )

    @property
    def secret(self) -> frozenset[Fact]:
        """Facts that pages may tell only where the plan wants them."""
        return frozenset(self.facts)


def conditions(world: World, plan: Plan) -> tuple[Condition, Condition, Condition]:
    """What the clues say of e0: its two attributes and its support's, each as a group."""
    start, support = world.entities[plan.start], world.entities[plan.support]
    first = plan.links[0].attribute
    return (
        ("", first, start.attrs[first][0]),
        ("", plan.second, start.attrs[plan.second][0]),
        (plan.support_relation, plan.support_attribute, support.attrs[plan.support_attribute][0]),
    )


def meets(world: World, entity: Entity, condition: Condition) -> bool:
    """Does the entity meet the condition?"""
    relation, attribute, group = condition
    if relation:
        if relation not in entity.rels:
            return False
        entity = world.entities[entity.rels[relation]]
    return attribute in entity.attrs and entity.attrs[attribute][0] == group


def unique(world: World, plan: Plan) -> bool:
    """Is e0 the only entity of its type that meets all conditions of the clues?"""
    type_name = world.entities[plan.start].type
    wanted = conditions(world, plan)
    matches = (e.id for e in world.every(type_name) if all(meets(world, e, c) for c in wanted))
    return list(matches) == [plan.start]


def plan_chains(world: World, wanted: dict[int, int], dated: float, dice: Dice) -> list[Plan]:
    """Up to `wanted[h]` chains of each hop count h. An entity starts at most one chain and serves at most `_USES`. Longer
    chains are drawn first, and regions in turn, so that none runs dry early."""
    used: Counter[int] = Counter()
    plans: list[Plan] = []
    for hops in sorted(wanted, reverse=True):
        missing, failures, turn = wanted[hops], 0, 0
        while missing and failures < 4 * len(world.regions):
            region = turn % len(world.regions)
            turn += 1
            plan = _draw(world, region, hops, dice.chance(dated), used, dice)
            if plan is None:
                failures += 1
                continue
            failures = 0
            missing -= 1
            used.update({**dict.fromkeys(plan.entities, 1), plan.start: _USES})
            plans.append(plan)
    return plans


def _draw(world: World, region: int, hops: int, dated: bool, used: Counter[int], dice: Dice) -> Plan | None:
    free = [id for id in world.in_region(region) if not used[id]]
    for start in dice.sample(free, 40):
        plan = _grow(world, world.entities[start], hops, dated, used, dice)
        if plan is not None and unique(world, plan):
            return plan
    return None


def _grow(world: World, start: Entity, hops: int, dated: bool, used: Counter[int], dice: Dice) -> Plan | None:
    busy = {start.id, *(id for id, uses in used.items() if uses >= _USES)}
    links: list[Link] = []
    current = start
    for level in range(hops):
        attribute = dice.pick(list(current.attrs))
        if dated and level == hops - 1:
            links.append(Link(current.id, "date", None, attribute))
            break
        open_ends = [(name, id) for name, id in current.rels.items() if id not in busy]
        if not open_ends:
            return None
        relation, target = dice.pick(open_ends)
        links.append(Link(current.id, relation, target, attribute))
        busy.add(target)
        current = world.entities[target]
    asides = [(name, id) for name, id in start.rels.items() if id not in busy and name != links[0].relation]
    if not asides:
        return None
    relation, support = dice.pick(asides)
    second = dice.pick([name for name in start.attrs if name != links[0].attribute])
    spoken = {links[-1].attribute, second} if links[-1].object is None else set()
    last = dice.pick([name for name in current.attrs if name not in spoken])
    return Plan(tuple(links), second, last, support, relation, dice.pick(list(world.entities[support].attrs)))
