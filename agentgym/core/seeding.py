"""Seeds derived by name, so that adding a consumer never shifts the numbers of another."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the named purpose: stable across machines, processes and Python's hash seed."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """A NumPy generator for the named purpose."""
    return np.random.default_rng(derive(seed, *names))
