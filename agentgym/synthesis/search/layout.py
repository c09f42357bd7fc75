"""Which pages a world gets, and which page tells which fact of a chain."""

from __future__ import annotations

from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.chain import Plan
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.world import Fact, World
from agentgym.synthesis.search.writers import Order

_NOTES = 5  # notes a region that serve no task
_LIST_LENGTH = 9


def lay_out(world: World, plans: list[Plan], decoys: dict[int, Plan], settings: Settings, dice: Dice) -> list[Order]:
    """Orders for all pages: a profile an entity, notes, lists and chronicles a region; `decoys` maps a decoy to its plan."""
    profiles = {entity.id: Order("profile", entity.region, entity.id) for entity in world.entities}
    for decoy, plan in decoys.items():
        profiles[decoy].avoid = frozenset(plan.entities)
    loose = [order for region in range(len(world.regions)) for order in _loose_pages(world, region, settings, dice)]
    notes: list[Order] = []
    for plan in plans:
        _place(world, plan, profiles, notes, dice)
        for fact in plan.facts:
            if dice.chance(settings.recur):
                _retell(world, fact, loose, dice)
    return [*profiles.values(), *notes, *loose]


def _place(world: World, plan: Plan, profiles: dict[int, Order], notes: list[Order], dice: Dice) -> None:
    """Give each fact of the chain its page; `chain.py` says which and why."""
    profiles[plan.support].groups.append(plan.aside)
    taken: set[int] = set()  # profiles that hold a truth: what comes next is told elsewhere, so that items differ
    for level, link in enumerate(plan.links):
        region = world.entities[link.subject].region
        described = (link.described, *([Fact("attr", plan.start, plan.second)] if level == 0 else []))
        if link.subject in taken:
            notes.append(Order("note", region, groups=[described]))
        else:
            profiles[link.subject].groups.append(described)
        truth = (link.fact, plan.told_last) if level == plan.hops - 1 else (link.fact,)
        if plan.hops == 1 and dice.chance(0.4):  # the answer's page recalls its subject: short chains are to be easier
            truth = (*described, *truth)
        if link.object is None or dice.chance(0.5):
            notes.append(Order("note", region, groups=[truth]))
        else:
            profiles[link.object].groups.append(truth)
            taken.add(link.object)


def _loose_pages(world: World, region: int, settings: Settings, dice: Dice) -> list[Order]:
    """Pages of a region that stand for themselves."""
    orders = [Order("note", region) for _ in range(max(1, round(_NOTES * settings.scale)))]
    for type_name in world.schema.types:
        members = dice.shuffled(world.of(region, type_name))
        for start in range(0, len(members), _LIST_LENGTH):
            listed = tuple(members[start : start + _LIST_LENGTH])
            if len(listed) > 2:
                orders.append(Order("list", region, listed=listed))
    everyone = dice.shuffled(world.in_region(region))
    orders += [Order("chronicle", region, listed=tuple(everyone[i : i + 20])) for i in range(0, len(everyone) // 2, 20)]
    return orders


def _retell(world: World, fact: Fact, loose: list[Order], dice: Dice) -> None:
    """Have a second page tell the fact: the list that names its subject, or a note of the region."""
    region = world.entities[fact.subject].region
    lists = [order for order in loose if order.kind == "list" and fact.subject in order.listed]
    notes = [order for order in loose if order.kind == "note" and order.region == region]
    order = dice.pick(lists if lists and dice.chance(0.5) else notes)
    order.groups.append((fact,))
