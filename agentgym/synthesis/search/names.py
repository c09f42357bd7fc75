"""Invented names: unique within a world, owned by one split, and never a word that pages or clues use.

Each name holds a *core*, the part that no other entity shares: an invented word, or for some titles the whole phrase.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources

import msgspec

from agentgym.core.records import Record
from agentgym.synthesis.dice import Dice, capital
from agentgym.synthesis.splits import owner

_TITLED = {"book", "album", "film"}


class NameTables(Record, frozen=True):
    """The file `data/names.toml`."""

    given: str
    adjectives: str
    nouns: str
    styles: tuple[tuple[str, str, str], ...]
    patterns: dict[str, tuple[str, ...]]


@functools.lru_cache(maxsize=1)
def load_names() -> NameTables:
    """What names are made of."""
    text = resources.files(__package__).joinpath("data", "names.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), NameTables)


class Namer:
    """Gives out names of one split."""

    def __init__(self, split: str, dice: Dice, reserved: frozenset[str]) -> None:
        """`reserved` are lower-case words that no invented word may equal."""
        tables = load_names()
        self._given, self._nouns = tables.given.split(), tables.nouns.split()
        self._adjectives, self._patterns = tables.adjectives.split(), tables.patterns
        self._styles = [[part.split() for part in style] for style in tables.styles]
        self._split = split
        self._dice = dice
        self._taken: set[str] = set(reserved) | {name.lower() for name in self._given}

    def name(self, type_name: str) -> tuple[str, str]:
        """A new name and its core."""
        if type_name == "person":
            core = self._word()
            return f"{self._dice.pick(self._given)} {core}", core
        if type_name in _TITLED:
            return self._title()
        core = self._word()
        return self._dice.pick(self._patterns[type_name]).format(core), core

    def _word(self) -> str:
        while True:
            onsets, vowels, codas = self._dice.pick(self._styles)
            syllables = [self._dice.pick(onsets) + self._dice.pick(vowels) for _ in range(self._dice.between(1, 2))]
            word = "".join(syllables) + self._dice.pick(onsets) + self._dice.pick(vowels) + self._dice.pick(codas)
            if 6 <= len(word) <= 11 and self._claim(word):
                return capital(word)

    def _title(self) -> tuple[str, str]:
        while True:
            noun = self._dice.pick(self._nouns)
            if self._dice.chance(0.5):
                core = self._word()
                pattern = self._dice.pick(("The {} of {}", "One {} for {}", "{} and {}"))
                return pattern.format(noun, core), core
            title = f"{self._dice.pick(('The', 'One', 'No', 'Another'))} {self._dice.pick(self._adjectives)} {noun}"
            core = title.split(" ", 1)[1]  # articles do not keep two titles apart
            if self._claim(core):
                return title, core

    def _claim(self, core: str) -> bool:
        if core.lower() in self._taken or owner(core) != self._split:
            return False
        self._taken.add(core.lower())
        return True
