"""Which split a name belongs to: decided by the name's own hash, so that splits built apart, on any machine, from any
seeds, can never share an entity. A generator draws names and keeps those that its split owns."""

from __future__ import annotations

import hashlib

from agentgym.core.errors import UnknownName

_SHARES = {"sample": 1, "dev": 3, "test": 5, "train": 7}  # sixteenths of all names (our choice)
_OWNERS = [split for split, share in _SHARES.items() for _ in range(share)]
SPLITS = tuple(_SHARES)


def owner(name: str) -> str:
    """The split that owns a name; case does not matter."""
    return _OWNERS[hashlib.sha256(name.casefold().encode()).digest()[0] % len(_OWNERS)]


def check_split(split: str) -> str:
    """Return `split`, or raise UnknownName."""
    if split not in _SHARES:
        raise UnknownName("split", split, SPLITS)
    return split
