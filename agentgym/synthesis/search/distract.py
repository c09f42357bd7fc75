"""Distractors: entities that meet part of a task's conditions and lead to another answer; their pages hold no truth of the
chain in any form (report §1: 10 asked, at least 8 must survive)."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.chain import Plan, conditions, meets
from agentgym.synthesis.search.names import Namer
from agentgym.synthesis.search.world import Entity, World


def add_decoys(world: World, plan: Plan, count: int, plans: Sequence[Plan], namer: Namer, dice: Dice) -> list[Entity]:
    """Add `count` decoys of a plan to the world: half and more stand beside e0, the others beside the later subjects.

    A decoy of e0 shares one or two of the three conditions; one of a later subject shares its described group. None is
    related to an entity of the chain, and none fits the clues of any of `plans`.
    """
    decoys = []
    for i in range(count):
        level = 0 if i * 2 < count else i % plan.hops
        link = plan.links[level]
        original = world.entities[link.subject]
        decoy = world.add(original.type, original.region, namer, dice)
        world.relate(decoy, dice, avoid=plan.entities)
        _share(world, decoy, original, link.attribute, dice)
        if level == 0:
            _resemble(world, decoy, original, plan, i % 3, dice)
        _fit_nowhere(world, decoy, plans, dice)
        decoys.append(decoy)
    return decoys


def _fit_nowhere(world: World, decoy: Entity, plans: Sequence[Plan], dice: Dice) -> None:
    """Change the decoy until it meets all conditions of no plan."""
    rivals = [plan for plan in plans if world.entities[plan.start].type == decoy.type]
    while fitting := [plan for plan in rivals if all(meets(world, decoy, c) for c in conditions(world, plan))]:
        _differ(world, decoy, dice.pick((fitting[0].links[0].attribute, fitting[0].second)), dice)


def _share(world: World, decoy: Entity, original: Entity, attribute: str, dice: Dice) -> None:
    """Give the decoy a value of the original's group, rarely the same value."""
    group = original.attrs[attribute][0]
    domain = next(a.domain for a in world.schema.types[original.type].attr if a.name == attribute)
    decoy.attrs[attribute] = (group, dice.below(len(world.schema.domains[domain][group].values)))


def _resemble(world: World, decoy: Entity, start: Entity, plan: Plan, missing: int, dice: Dice) -> None:
    """Meet the conditions but for number `missing`."""
    first, second, aside = conditions(world, plan)
    for i, condition in enumerate((first, second)):
        if i != missing:
            _share(world, decoy, start, condition[1], dice)
        elif meets(world, decoy, condition):  # drawn by luck
            _differ(world, decoy, condition[1], dice)
    if missing != 2:
        kind = world.entities[plan.support].type
        others = [
            id
            for id in world.of(start.region, kind)
            if id not in plan.entities and id != decoy.id and world.entities[id].attrs[aside[1]][0] == aside[2]
        ]
        if others:
            decoy.rels[plan.support_relation] = dice.pick(others)
    elif meets(world, decoy, aside):
        decoy.rels.pop(plan.support_relation)


def _differ(world: World, decoy: Entity, attribute: str, dice: Dice) -> None:
    domain = next(a.domain for a in world.schema.types[decoy.type].attr if a.name == attribute)
    groups = [name for name in world.schema.domains[domain] if name != decoy.attrs[attribute][0]]
    decoy.attrs[attribute] = (dice.pick(groups), 0)


def similar(world: World, plan: Plan, dice: Dice) -> list[int]:
    """Entities outside the plan that meet part of its conditions: e0's type with one of its described groups or its
    support's, or a later subject's type and described group. In random order."""
    found: dict[int, None] = {}
    for level, link in enumerate(plan.links):
        original = world.entities[link.subject]
        wanted = conditions(world, plan) if level == 0 else (("", link.attribute, original.attrs[link.attribute][0]),)
        for entity in world.every(original.type):
            if entity.id not in plan.entities and any(meets(world, entity, condition) for condition in wanted):
                found[entity.id] = None
    return dice.shuffled(list(found))


def alike_attributes(world: World, decoy: int, plan: Plan) -> list[str]:
    """Attributes in which a decoy is like a described entity of the plan."""
    entity = world.entities[decoy]
    described = [(link.subject, link.attribute) for link in plan.links] + [(plan.start, plan.second)]
    pairs = [(world.entities[id], name) for id, name in described]
    return [n for e, n in pairs if e.type == entity.type and entity.attrs[n][0] == e.attrs[n][0]]
