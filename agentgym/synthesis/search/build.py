"""Builds task sets: `generate` from any seed and settings, and the pinned sets `sample`, `prune-search-0` and `tiny`.

`python -m agentgym.synthesis.search.build NAME SPLIT FOLDER` writes one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from agentgym.core.errors import ConfigError, UnknownName
from agentgym.core.records import Task, Truth
from agentgym.corpus.tasks import TaskSet, write_taskset
from agentgym.synthesis.dice import Dice
from agentgym.synthesis.search.assemble import Library, make_task
from agentgym.synthesis.search.chain import Plan, plan_chains, unique
from agentgym.synthesis.search.distract import add_decoys, alike_attributes
from agentgym.synthesis.search.layout import lay_out
from agentgym.synthesis.search.names import Namer
from agentgym.synthesis.search.schema import load_schema
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.tiny import generate_tiny
from agentgym.synthesis.search.verify import verify
from agentgym.synthesis.search.world import Fact, World, build_world
from agentgym.synthesis.search.writers import PageWriter
from agentgym.synthesis.splits import check_split

GENERATOR = "search-web/1"
_SURPLUS, _SPARE = 1.15, 2  # chains planned a task, and besides: some are parted by a chunk's end or lose a distractor

SAMPLE = Settings(split="sample", regions=4, scale=0.8, decoys=3, page_tokens=(260, 520))
RECIPES: dict[tuple[str, str], tuple[int, int, Settings | None]] = {
    ("sample", "dev"): (8, 24, SAMPLE),
    ("prune-search-0", "dev"): (11, 60, Settings(split="dev", regions=6)),
    ("prune-search-0", "test"): (12, 240, Settings(split="test", regions=16)),
    ("tiny", "dev"): (5, 64, None),
    ("tiny", "test"): (5, 64, None),
    ("tiny", "train"): (5, 320, None),
}
"""Suite and split → seed, number of tasks, settings (None: `generate_tiny`). A change here is a change of pinned hashes:
raise the suite's number instead, once it has been used."""

_SHIPPED = {"sample", "tiny"}  # in the wheel, compressed


def generate(seed: int, n_tasks: int, settings: Settings, name: str = "generated") -> TaskSet:
    """A task set: equal arguments give equal bytes on every machine.

    Tasks are spread evenly over `settings.hops`, every one passes `verify`, and their order mixes hop counts.
    Raises ConfigError when the world is too small for so many tasks.
    """
    check_split(settings.split)
    schema = load_schema()
    namer = Namer(settings.split, Dice(seed, "names"), schema.words)
    world = build_world(schema, settings.regions, settings.scale, namer, Dice(seed, "world"))
    wanted = {hops: -(-n_tasks // len(settings.hops)) for hops in settings.hops}
    surplus = {hops: int(count * _SURPLUS) + _SPARE for hops, count in wanted.items()}
    plans = plan_chains(world, surplus, settings.dated, Dice(seed, "chains"))
    decoys: dict[Plan, list[int]] = {}
    for number, plan in enumerate(plans):
        dice = Dice(seed, "decoys", number)
        decoys[plan] = [decoy.id for decoy in add_decoys(world, plan, settings.decoys, plans, namer, dice)]
    plans = [plan for plan in plans if unique(world, plan)]
    library = _write(seed, world, plans, decoys, settings)
    made = _tasks(seed, name, library, plans, decoys, wanted, settings)
    if len(made) < n_tasks:
        raise ConfigError(
            f"{len(made)} of {n_tasks} tasks stand in this world: raise settings.regions ({settings.regions})"
        )
    made = made[:n_tasks]
    manifest = {
        "generator": GENERATOR,
        "seed": seed,
        "settings": msgspec.to_builtins(settings),
        "chunking": {"counter": settings.counter, "max_tokens": settings.max_tokens, "slack": settings.slack},
    }
    tasks, truths = tuple(task for task, _ in made), tuple(truth for _, truth in made)
    return TaskSet(name, tuple(library.documents), tasks, truths, manifest)


def _write(seed: int, world: World, plans: list[Plan], decoys: dict[Plan, list[int]], settings: Settings) -> Library:
    secret = frozenset(fact for plan in plans for fact in plan.secret)
    owners = {decoy: plan for plan, ids in decoys.items() for decoy in ids}
    orders = lay_out(world, plans, owners, settings, Dice(seed, "layout"))
    alike = (
        Fact("attr", decoy, name) for decoy, plan in owners.items() for name in alike_attributes(world, decoy, plan)
    )
    writer = PageWriter(world, settings, secret, secret | frozenset(alike))
    pages = [writer.write(order, Dice(seed, "page", number)) for number, order in enumerate(orders)]
    return Library(world, pages, settings, Dice(seed, "ids"))


def _tasks(
    seed: int,
    name: str,
    library: Library,
    plans: list[Plan],
    decoys: dict[Plan, list[int]],
    wanted: dict[int, int],
    settings: Settings,
) -> list[tuple[Task, Truth]]:
    """The first accepted tasks of each hop count, hop counts in turn."""
    cores = frozenset(entity.core.lower() for entity in library.world.entities)
    accepted: dict[int, list[tuple[Task, Truth]]] = {hops: [] for hops in wanted}
    for number, plan in enumerate(plans):
        if len(accepted[plan.hops]) == wanted[plan.hops]:
            continue
        made = make_task(
            library, plan, decoys[plan], settings.distractors, f"{name}-{number:04d}", Dice(seed, "clues", number)
        )
        if made and not verify(*made, library.chunks, library.texts, settings.survivors, cores):
            accepted[plan.hops].append(made)
    rounds = max(wanted.values())
    return [accepted[hops][i] for i in range(rounds) for hops in wanted if i < len(accepted[hops])]


def build_suite(suite: str, split: str, folder: Path) -> None:
    """Write a pinned set into a folder; those that ship in the wheel are compressed. Raises UnknownName."""
    if (suite, split) not in RECIPES:
        raise UnknownName("generated set", f"{suite}/{split}", [f"{s}/{p}" for s, p in RECIPES])
    seed, count, settings = RECIPES[suite, split]
    name = f"{suite}-{split}"
    made = generate_tiny(seed, count, split, name) if settings is None else generate(seed, count, settings, name)
    write_taskset(made, folder, compress=suite in _SHIPPED)


def build_sample(folder: Path) -> None:
    """Write the set that `PruneSearch-v0` plays without arguments."""
    build_suite("sample", "dev", folder)


def main(arguments: list[str]) -> int:
    """Command line: NAME SPLIT FOLDER."""
    if len(arguments) != 3:
        sys.stderr.write((__doc__ or "") + f"\nSets: {', '.join(f'{s}/{p}' for s, p in RECIPES)}\n")
        return 2
    build_suite(arguments[0], arguments[1], Path(arguments[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
