"""Seeds by name: stable, apart from each other, and no consumer shifts another."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.seeding import derive, generator


def test_seeds_are_pinned() -> None:
    assert derive(0, "tasks") == 186666201410113005
    assert generator(0, "tasks").integers(1000, size=3).tolist() == [347, 915, 481]


@given(st.integers(), st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=3))
def test_seeds_fit_63_bits_and_repeat(seed: int, names: list[str]) -> None:
    assert 0 <= derive(seed, *names) < 2**63
    assert derive(seed, *names) == derive(seed, *names)


def test_names_and_their_limits_tell_seeds_apart() -> None:
    seeds = [
        derive(0),
        derive(1),
        derive(0, "a"),
        derive(0, "b"),
        derive(0, "a", "b"),
        derive(0, "ab"),
        derive(0, "a", 1),
    ]
    assert len(set(seeds)) == len(seeds)


def test_the_global_generators_are_not_touched() -> None:
    random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    generator(5, "x").random(10)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]  # noqa: NPY002
