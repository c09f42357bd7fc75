"""What the world is made of, read from the TOML tables in `data/`: domains of values in groups, types with attributes and
relations, and texture, the sentences that carry no fact. Adding a type or a value is a change of data, not of code."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

import msgspec

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record

_DOMAINS = ("domains_people", "domains_places", "domains_things", "domains_more")
_TYPES = ("types_people", "types_places", "types_things")


class Group(Record, frozen=True):
    """Values of a kind. A page states a value, perhaps with a gloss; a clue knows only the group."""

    clue: tuple[str, ...]
    gloss: tuple[str, ...]
    values: tuple[str, ...]


class Attribute(Record, frozen=True):
    """A property with a value from a domain. `say` and `clue` are verb phrases about the subject."""

    name: str
    domain: str
    say: tuple[str, ...]
    clue: tuple[str, ...]


class Relation(Record, frozen=True):
    """A functional relation to another entity. `back` has the object as its subject; `ask` is a noun phrase for the object."""

    name: str
    object: str
    say: tuple[str, ...]
    back: tuple[str, ...]
    clue: tuple[str, ...]
    ask: tuple[str, ...]

    def nearest(self, templates: Sequence[str]) -> str:
        """The one of the templates (of `say` or `back`) that shares most words with a question for the object."""
        asked = _roots(" ".join(self.ask))
        return max(templates, key=lambda template: len(_roots(template) & asked))


def _roots(text: str) -> set[str]:
    """Beginnings of the longer words: enough to see that `founded` and `founder` are akin."""
    return {word[:5] for word in re.findall(r"[a-z]{4,}", text)} - {"where", "which", "after", "place", "person"}


class Dated(Record, frozen=True):
    """The exact day that every entity has."""

    say: tuple[str, ...]
    ask: tuple[str, ...]


class EntityType(Record, frozen=True):
    """A type of entity: how pages (`noun`) and clues (`kind`, `ref`, `again`) call one, and what can be said of it."""

    plural: str
    kind: tuple[str, ...]
    ref: tuple[str, ...]
    again: tuple[str, ...]
    date: Dated
    attr: tuple[Attribute, ...]
    rel: tuple[Relation, ...]
    noun: tuple[str, ...] = ()

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name."""
        return next(item for item in self.attr if item.name == name)

    def relation(self, name: str) -> Relation:
        """The relation of that name."""
        return next(item for item in self.rel if item.name == name)


class Note(Record, frozen=True):
    """A kind of miscellaneous page: title and opening templates."""

    titles: tuple[str, ...]
    opening: tuple[str, ...]


class Texture(Record, frozen=True):
    """Sentences without facts, general and by type, and the kinds of notes."""

    general: tuple[str, ...]
    person: tuple[str, ...]
    company: tuple[str, ...]
    town: tuple[str, ...]
    river: tuple[str, ...]
    thing: tuple[str, ...]
    wrap: tuple[str, ...]
    intro_person: tuple[str, ...]
    intro_thing: tuple[str, ...]
    heading: tuple[str, ...]
    list_title: tuple[str, ...]
    list_opening: tuple[str, ...]
    chronicle_title: tuple[str, ...]
    chronicle_opening: tuple[str, ...]
    plain_p: tuple[str, ...]
    plain_t: tuple[str, ...]
    plain_x: tuple[str, ...]
    note: tuple[Note, ...]

    def about(self, type_name: str) -> tuple[str, ...]:
        """Texture for pages about an entity of that type."""
        special = {"person": self.person, "company": self.company, "town": self.town, "river": self.river}
        return special.get(type_name, self.thing)


class Schema(Record, frozen=True):
    """All tables. `glosses` lists every gloss, for texture that echoes the words of clues without meaning anything."""

    domains: dict[str, dict[str, Group]]
    types: dict[str, EntityType]
    texture: Texture
    glosses: tuple[str, ...]
    words: frozenset[str]


@functools.lru_cache(maxsize=1)
def load_schema() -> Schema:
    """The tables of this package, checked: every domain and object type that is named exists."""
    texts = {name: _text(name) for name in (*_DOMAINS, *_TYPES, "texture")}
    tables = {name: tomllib.loads(text) for name, text in texts.items()}
    domains = _merge(dict[str, dict[str, Group]], [tables[name] for name in _DOMAINS])
    types = _merge(dict[str, EntityType], [tables[name] for name in _TYPES])
    for type_name, entity_type in types.items():
        for attribute in entity_type.attr:
            if attribute.domain not in domains:
                raise ConfigError(
                    f"{type_name}.{attribute.name}: no domain {attribute.domain!r} in data/domains_*.toml"
                )
        for relation in entity_type.rel:
            if relation.object not in types:
                raise ConfigError(f"{type_name}.{relation.name}: no type {relation.object!r} in data/types_*.toml")
    return Schema(
        domains=domains,
        types=types,
        texture=msgspec.convert(tables["texture"], Texture),
        glosses=tuple(g for domain in domains.values() for group in domain.values() for g in group.gloss),
        words=frozenset(word for text in texts.values() for word in re.findall(r"[a-zà-ÿ]+", text.lower())),
    )


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("data", f"{name}.toml").read_text(encoding="utf-8")


def _merge(kind: Any, tables: list[dict[str, Any]]) -> Any:
    merged: dict[str, Any] = {}
    for table in tables:
        merged |= table
    return msgspec.convert(merged, kind)
