"""World, chains, distractors and prose, below the level of task sets."""

from __future__ import annotations

import itertools
import re

import pytest

from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.chain import conditions, meets, plan_chains, unique
from agentgym.synthesis.search.clues import broken_rules, write_clues
from agentgym.synthesis.search.distract import add_decoys, similar
from agentgym.synthesis.search.names import Namer
from agentgym.synthesis.search.schema import load_schema
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.tell import Teller
from agentgym.synthesis.search.world import Fact, World, build_world
from agentgym.synthesis.splits import SPLITS, owner


def make_world(seed: int = 1, split: str = "train", regions: int = 4) -> tuple[World, Namer]:
    schema = load_schema()
    namer = Namer(split, Dice(seed, "names"), schema.words)
    return build_world(schema, regions, 1.0, namer, Dice(seed, "world")), namer


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()[0]


def test_names_are_unique_owned_and_no_words_of_the_prose(world: World) -> None:
    cores = [entity.core.lower() for entity in world.entities]
    assert len(set(cores)) == len(cores)
    assert {owner(entity.core) for entity in world.entities} == {"train"}
    assert not set(cores) & load_schema().words
    assert len({entity.type for entity in world.entities}) >= 12


def test_every_name_has_one_owner() -> None:
    counts = dict.fromkeys(SPLITS, 0)
    for a, b in itertools.product("bdfgklmnprst", "aeiou"):
        counts[owner(f"{a}{b}lmar")] += 1
    assert sum(counts.values()) == 60
    assert owner("Marbrook") == owner("MARBROOK")


def test_relations_lead_to_the_right_type(world: World) -> None:
    for entity in world.entities:
        for relation in world.schema.types[entity.type].rel:
            if relation.name in entity.rels:
                target = world.entities[entity.rels[relation.name]]
                assert target.type == relation.object
                assert target.id != entity.id


def test_chains_are_walks_with_distinct_entities_and_a_unique_start(world: World) -> None:
    plans = plan_chains(world, {1: 3, 4: 3}, 0.3, Dice(1, "chains"))
    assert sorted(plan.hops for plan in plans) == [1, 1, 1, 4, 4, 4]
    assert len({plan.start for plan in plans}) == len(plans)
    for plan in plans:
        assert len(set(plan.entities)) == len(plan.entities)
        assert unique(world, plan)
        for link in plan.links:
            if link.object is not None:
                assert world.entities[link.subject].rels[link.relation] == link.object
        assert world.entities[plan.start].rels[plan.support_relation] == plan.support


def test_a_second_match_makes_a_plan_ambiguous() -> None:
    world, namer = make_world()
    plan = plan_chains(world, {2: 1}, 0.0, Dice(1, "chains"))[0]
    start = world.entities[plan.start]
    twin = world.add(start.type, start.region, namer, Dice(1, "twin"))
    twin.attrs, twin.rels = dict(start.attrs), dict(start.rels)
    assert not unique(world, plan)


def test_decoys_meet_part_and_never_all_conditions() -> None:
    world, namer = make_world()
    plans = plan_chains(world, {1: 4, 3: 4}, 0.0, Dice(1, "chains"))
    for plan in plans:
        decoys = add_decoys(world, plan, 6, plans, namer, Dice(1, "decoys", plan.start))
        assert len(decoys) == 6
        for decoy in decoys:
            assert not set(decoy.rels.values()) & set(plan.entities)
            if decoy.type == world.entities[plan.start].type:
                assert not all(meets(world, decoy, condition) for condition in conditions(world, plan))
        assert all(unique(world, other) for other in plans)
        partial = similar(world, plan, Dice(1, "similar"))
        assert not set(partial) & set(plan.entities)
        assert len(partial) >= 6


def test_clues_keep_their_rules_and_never_quote_the_pages(world: World) -> None:
    cores = {entity.core.lower() for entity in world.entities}
    plans = plan_chains(world, {1: 5, 2: 5, 3: 5, 4: 5}, 0.3, Dice(1, "chains"))
    for plan in plans:
        clues = write_clues(world, plan, Dice(1, "clues", plan.start))
        assert broken_rules(clues.levels, clues.question, cores) == []
        assert len(clues.levels) == plan.hops
        assert len(clues.prompt.split()) < 160
        for fact in plan.facts:
            assert clues.quotes[fact] in clues.prompt or clues.quotes[fact].capitalize()[0] in clues.prompt
            entity = world.entities[fact.subject]
            if fact.kind == "attr":
                attribute = world.schema.types[entity.type].attribute(fact.name)
                assert world.value(entity, attribute).lower() not in clues.quotes[fact].lower()


def test_a_fact_is_told_in_many_ways(world: World) -> None:
    entity = next(entity for entity in world.entities if entity.type == "bridge" and "designer" in entity.rels)
    fact = Fact("rel", entity.id, "designer")
    designer = world.entities[entity.rels["designer"]]
    told = set()
    for i in range(200):
        teller = Teller(world, entity.region, Dice(i, "tell"), Settings(), frozenset(), frozenset())
        sentence = teller.fact(fact, back=i % 2 == 0)
        assert re.search(rf"\b{entity.core}\b", sentence)
        assert designer.core in sentence
        told.add(sentence)
    assert len(told) > 60


def test_texture_names_nobody_that_it_must_avoid(world: World) -> None:
    everyone = world.in_region(0)
    avoid = frozenset(everyone[::2])
    teller = Teller(world, 0, Dice(1, "texture"), Settings(walk_ons=0.0, plain=0.0), frozenset(), avoid)
    text = " ".join(teller.texture(None) for _ in range(300))
    named = {id for id in everyone if re.search(rf"\b{re.escape(world.entities[id].core)}\b", text)}
    assert named
    assert not named & avoid


def test_data_tables_are_sound() -> None:
    schema = load_schema()
    for name, domain in schema.domains.items():
        assert len(domain) >= 6, name
        for group in domain.values():
            assert len(group.clue) == len(group.gloss) == 2  # `Entity.side` chooses between two wordings
            assert len(group.values) >= 3
    for name, entity_type in schema.types.items():
        assert len(entity_type.attr) >= 3, name
        assert len(entity_type.rel) >= 3, name
        for relation in entity_type.rel:
            assert all("{o}" in text for text in (*relation.say, *relation.clue)), relation
            assert all("{s}" in text for text in (*relation.back, *relation.ask)), relation
