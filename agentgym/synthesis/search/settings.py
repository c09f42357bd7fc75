"""What decides a generated task set besides its seed. All values are our choice, tuned on measured agents."""

from __future__ import annotations

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record


class Settings(Record, frozen=True):
    """Frozen settings of a build; they are written into the manifest.

    `regions`: parts of the world, within which most relations stay; also the tasks' clusters.
    `hops`: hop counts that tasks are spread over evenly.
    `distractors`, `survivors`: pages asked for a task, and how many must pass verification (Context-1: 10 and 8).
    `decoys`: entities made for each task to be distractors; the rest are found in the world.
    `gloss`: chance that a page explains a value in words that a clue may use; `chain_gloss`: the same where the value is
    a clue's, or a decoy's like it.
    `echo`: chance that a relation of a chain is told in the words nearest to those of the question.
    `plain`: chance that texture says `the next village` where it could name something; `walk_ons`: chance that a name in
    texture is nobody's: it leads to no page.
    `recur`: chance that a fact of a chain is told in a second document.
    `page_tokens`: length of pages, roughly (shortest, longest).
    `dated`: share of tasks whose answer is a date.
    """

    split: str = "dev"
    regions: int = 8
    scale: float = 1.0
    hops: tuple[int, ...] = (1, 2, 3, 4)
    distractors: int = 10
    decoys: int = 4
    survivors: int = 8
    gloss: float = 0.3
    chain_gloss: float = 0.95
    echo: float = 0.8
    plain: float = 0.4
    walk_ons: float = 0.6
    recur: float = 0.35
    dated: float = 0.15
    page_tokens: tuple[int, int] = (500, 2000)
    counter: str = "o200k"
    max_tokens: int = 512
    slack: int = 100

    def __post_init__(self) -> None:
        if self.regions < 1 or self.scale <= 0:
            raise ConfigError(f"regions={self.regions}, scale={self.scale}: both must be positive")
        if not self.hops or not set(self.hops) <= {1, 2, 3, 4}:
            raise ConfigError(f"hops={self.hops}: one or more of 1, 2, 3, 4 are possible")
        if not 0 <= self.survivors <= self.distractors:
            raise ConfigError(f"survivors={self.survivors} must lie in [0, distractors={self.distractors}]")
