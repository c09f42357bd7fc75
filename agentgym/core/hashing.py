"""Canonical JSON and the hashes built on it.

Canonical JSON = keys sorted, no spaces, UTF-8, NaN and infinities refused. Struct fields at their default are left
out, so that a field added later with a default does not change old hashes.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import msgspec

from agentgym.core.errors import ConfigError

_ENCODER = msgspec.json.Encoder(order="sorted")
canonical = _ENCODER.encode
"""Canonical JSON bytes of records, builtins and containers of them. Trusts floats to be finite; see `canonical_strict`."""


def canonical_strict(value: Any) -> bytes:
    """Canonical JSON of outside data; refuses NaN and infinities (JSON has neither; msgspec would write `null`)."""
    _refuse_non_finite(msgspec.to_builtins(value), "$")
    return canonical(value)


def _refuse_non_finite(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{value!r} at {path} cannot be hashed: JSON has no NaN or infinity")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{i}]")


def sha256(data: bytes) -> str:
    """Hex SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()


def bare(settings: msgspec.Struct) -> dict[str, Any]:
    """A flat record of settings as a dict without the fields that equal their defaults.

    Hash this, not the record: msgspec leaves out a default by *identity*, so that a number or a string that was read from
    a file, and equals the default, would be written and change the hash.
    """
    fields = msgspec.structs.fields(settings)
    values = {field.name: getattr(settings, field.name) for field in fields}
    return {field.name: values[field.name] for field in fields if values[field.name] != field.default}


def text_digest(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes; lone surrogates (an agent can send them) are kept apart, not refused."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def chain(previous: str, line: bytes) -> str:
    """Next link of a hash chain: SHA-256 over the previous link and the line."""
    return hashlib.sha256(previous.encode() + line).hexdigest()


def taskset_digest(task_hashes: dict[str, str]) -> str:
    """Hash of a task set: over its sorted `id hash` lines, so that order does not matter and content does."""
    return sha256("\n".join(f"{key} {task_hashes[key]}" for key in sorted(task_hashes)).encode())
