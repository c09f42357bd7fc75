"""Clues and questions: what a chain's facts become when names, years and wording are taken away.

Rules (report §1): at most three sentences a level, no proper nouns, no specific years, abstract rather than paraphrased. A
clue knows only the group of a value (`a clockmaker` → "the repair of small mechanisms") and only the kind of an entity.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agentgym.synthesis.dice import Dice, capital
from agentgym.synthesis.search.chain import Link, Plan
from agentgym.synthesis.search.world import Fact, World

MAX_SENTENCES = 3
_NEAR = (0.95, 0.85, 0.8, 0.75)  # chance by level (our choice, tuned on measured agents)
_SENTENCE = re.compile(r"[.!?]+(?:\s+|$)")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_ENTITY_ASKS = ("What is the name of {}?", "Name {}.", "Which name belongs to {}?", "Find {}.")
_DATE_ASKS = ("What was {}?", "Find {}.", "Give {}.")


@dataclass(frozen=True, slots=True)
class Clues:
    """A prompt and its parts: `levels` are the clue sentences of each level, `question` the last sentence; `quotes` tell for
    each fact which words of the prompt speak of it."""

    prompt: str
    levels: tuple[str, ...]
    question: str
    quotes: dict[Fact, str]


def write_clues(world: World, plan: Plan, dice: Dice) -> Clues:
    """Clues for a plan: three sentences about e0, one about each later subject, and the question."""
    quotes: dict[Fact, str] = {}
    levels = [_opening(world, plan, quotes, dice)]
    asked = _ask(world, plan.links[0], quotes, dice)
    for level, link in enumerate(plan.links[1:], start=1):
        phrase = _attribute_clue(world, link.described, level, quotes, dice)
        levels.append(f"{capital(asked)} {phrase}.")
        asked = _ask(world, link, quotes, dice)
    last = _attribute_clue(world, plan.told_last, plan.hops - 1, quotes, dice)
    target = plan.links[-1].object
    if target is None:
        levels[-1] = f"{levels[-1][:-1]} and {last}."
        question = dice.pick(_DATE_ASKS).format(asked)
    else:
        question = dice.pick(_ENTITY_ASKS).format(f"{asked}, {_some(world, target, dice)} {last}")
    return Clues(" ".join([*levels, question]), tuple(levels), question, quotes)


def _some(world: World, id: int, dice: Dice) -> str:
    """`someone who`, `a settlement that`."""
    entity_type = world.entities[id].type
    return f"{dice.pick(world.schema.types[entity_type].kind)} {'who' if entity_type == 'person' else 'that'}"


def _opening(world: World, plan: Plan, quotes: dict[Fact, str], dice: Dice) -> str:
    start = world.entities[plan.start]
    entity_type = world.schema.types[start.type]
    relation, described = plan.aside
    first = _attribute_clue(world, plan.links[0].described, 0, quotes, dice)
    second = _attribute_clue(world, Fact("attr", start.id, plan.second), 0, quotes, dice)
    other = f"{_some(world, plan.support, dice)} {_attribute_clue(world, described, 0, quotes, dice)}"
    related = dice.pick(entity_type.relation(relation.name).clue).format(o=other)
    quotes[relation] = related
    again = dice.pick(entity_type.again)
    later = dice.shuffled([f"{again} {second}.", f"{again} {related}."])
    # The last sentence may be continued by what stands beside a date, so it must be about e0 itself.
    if plan.hops == 1 and plan.links[0].object is None:
        later = [f"{again} {related}.", f"{again} {second}."]
    return " ".join([f"{capital(dice.pick(entity_type.kind))} {first}.", *later])


def _ask(world: World, link: Link, quotes: dict[Fact, str], dice: Dice) -> str:
    entity_type = world.schema.types[world.entities[link.subject].type]
    asks = entity_type.date.ask if link.object is None else entity_type.relation(link.relation).ask
    phrase = dice.pick(asks).format(s=dice.pick(entity_type.ref))
    quotes[link.fact] = phrase
    return phrase


def _attribute_clue(world: World, fact: Fact, level: int, quotes: dict[Fact, str], dice: Dice) -> str:
    """A verb phrase that tells an attribute by its group alone. The deeper the level, the less often in the wording that
    pages prefer: else the last clue would lead to the answer without the chain."""
    entity = world.entities[fact.subject]
    attribute = world.schema.types[entity.type].attribute(fact.name)
    side = entity.side if dice.chance(_NEAR[level]) else 1 - entity.side
    quotes[fact] = dice.pick(attribute.clue).format(c=world.group(entity, attribute).clue[side])
    return quotes[fact]


def broken_rules(levels: Collection[str], question: str, cores: Collection[str]) -> list[str]:
    """Which clue rules a text breaks, in words; empty when none. `cores` are the names' own parts, lower case."""
    problems = []
    for level in levels:
        count = len([part for part in _SENTENCE.split(level) if part.strip()])
        if count > MAX_SENTENCES:
            problems.append(f"{count} sentences in a level, more than {MAX_SENTENCES}")
    text = " ".join([*levels, question])
    if _YEAR.search(text):
        problems.append(f"names the year {_YEAR.findall(text)[0]}")
    lowered = text.lower()
    words = set(re.findall(r"\w+", lowered))
    named = [core for core in cores if (core in words if " " not in core else core in lowered)]
    problems += [f"names {core!r}" for core in sorted(named)[:3]]
    for sentence in _SENTENCE.split(text):
        inner = re.findall(r"(?<=\s)[A-ZÀ-Þ]\w+", sentence.strip())
        problems += [f"holds the proper noun {word!r}" for word in inner[:1]]
    return problems
