"""One trajectory as a file: JSON Lines, hash-chained, zstd-compressed.

Every line is `["<link>",<record>]`, where the record is canonical JSON and its link is SHA-256(previous link ‖ record).
Line 1 is a header (`"schema":"trajectory/1"` and all of the trajectory but its steps), then one line a turn, then a
footer (stop reason, usage, number of steps). The last link names the file. Whoever alters a byte breaks the chain in
the line where it stands; whoever recomputes the chain ends at another name.

A message part that shows a corpus chunk holds `"text":"sha256:<hash>"` in place of a long text: the text itself is kept
once for the whole run. Only parts with a `chunk` are ever references, and a chunk text that itself begins with
`sha256:` is always stored as one, so a reader cannot mistake the two.

Each line ends a zstd block: a damaged file can be read up to the line that is damaged, and that line named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import zstandard

from agentgym.core import hashing, records
from agentgym.core.errors import DataError, Tampered
from agentgym.core.records import Message, Part, Record, Step, StopReason, Trajectory, Usage

SCHEMA = "trajectory/1"
_REFERENCE = "sha256:"
_INLINE_CHARS = 128  # below this a reference (71 characters) and its entry would not be shorter
_LINK_CHARS = 64
_BODY = len('["') + _LINK_CHARS + len('",')
_LEVEL = 3


R = TypeVar("R", bound=Record)


class _Header(Record, frozen=True):
    schema: str
    env: str
    fingerprint: str
    task: str
    task_hash: str
    seed: int
    opening: tuple[Message, ...]
    opening_leaf: str = ""
    parent: str | None = None
    reward: dict[str, Any] = {}


class _Schema(msgspec.Struct):
    """The one field of a header that every version has."""

    schema: str


class _Footer(Record, frozen=True):
    stop: StopReason | None
    usage: Usage
    steps: int


def encode(trajectory: Trajectory) -> tuple[str, bytes, dict[str, str]]:
    """Final link, compressed bytes, and the chunk texts (by hash) they refer to. `ext` is left out: it has no hash."""
    texts: dict[str, str] = {}
    header = _Header(
        SCHEMA,
        trajectory.env,
        trajectory.fingerprint,
        trajectory.task,
        trajectory.task_hash,
        trajectory.seed,
        _map_parts(trajectory.opening, lambda part: _refer(part, texts)),
        trajectory.opening_leaf,
        trajectory.parent,
        trajectory.reward,
    )
    bodies = [hashing.canonical(header)]
    for step in trajectory.steps:
        stored = _map_parts(step.messages, lambda part: _refer(part, texts))
        bodies.append(
            hashing.canonical(step if stored is step.messages else msgspec.structs.replace(step, messages=stored))
        )
    bodies.append(hashing.canonical(_Footer(trajectory.stop, trajectory.usage, len(trajectory.steps))))
    stream, blocks, link = zstandard.ZstdCompressor(level=_LEVEL).compressobj(), [], ""
    for body in bodies:
        link = hashing.chain(link, body)
        blocks.append(stream.compress(b'["%b",%b]\n' % (link.encode(), body)))
        blocks.append(stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    blocks.append(stream.flush())
    return link, b"".join(blocks), texts


def decode(data: bytes, name: str, link: str, resolve: Callable[[str], str]) -> Trajectory:
    """The trajectory in compressed bytes, every line checked against its link and the last against `link`.

    `name` is what errors call the file; `resolve` gives a chunk text by its hash. Raises Tampered, naming the line.
    """
    lines = _checked_lines(data, name, link)
    try:
        records.upgrade(msgspec.json.decode(lines[0][_BODY:-1], type=_Schema).schema, SCHEMA)
    except (msgspec.DecodeError, DataError) as error:
        raise DataError(f"{name}: {error}") from error
    header = _parse(lines[0], _Header, name, 1)
    footer = _parse(lines[-1], _Footer, name, len(lines))
    steps = [_parse(line, Step, name, i) for i, line in enumerate(lines[1:-1], 2)]
    if footer.steps != len(steps):
        raise Tampered(f"{name}: the footer counts {footer.steps} turns, the file holds {len(steps)}")
    return Trajectory(
        env=header.env,
        fingerprint=header.fingerprint,
        task=header.task,
        task_hash=header.task_hash,
        seed=header.seed,
        opening=_map_parts(header.opening, lambda part: _resolve(part, resolve)),
        steps=tuple(_resolved_step(step, resolve) for step in steps),
        stop=footer.stop,
        usage=footer.usage,
        opening_leaf=header.opening_leaf,
        parent=header.parent,
        reward=header.reward,
    )


def _checked_lines(data: bytes, name: str, link: str) -> list[bytes]:
    text, damaged = _decompress(data)
    lines = text.split(b"\n")
    rest = lines.pop()
    previous = ""
    for number, line in enumerate(lines, 1):
        body = line[_BODY:-1]
        previous = hashing.chain(previous, body)
        if line != b'["%b",%b]' % (previous.encode(), body):
            raise Tampered(f"{name} {_place(number)}: its content does not have its hash")
    if damaged or rest:
        raise Tampered(f"{name} {_place(len(lines) + 1)}: the compressed bytes are damaged or cut short")
    if previous != link:
        raise Tampered(f"{name}: the hash chain ends at {previous[:12]}… after {len(lines)} lines, not at its name")
    return lines


def _decompress(data: bytes) -> tuple[bytes, bool]:
    """As much text as the bytes give, and whether they are damaged or incomplete."""
    stream = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    try:
        text = stream.decompress(data)
        return text, not stream.eof or bool(stream.unused_data)
    except zstandard.ZstdError:
        return _salvage(data), True


def _salvage(data: bytes) -> bytes:
    """Text before the damage: byte by byte, since a failing call gives back none of what it had decoded."""
    stream = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    pieces = []
    try:
        for i in range(len(data)):
            pieces.append(stream.decompress(data[i : i + 1]))
    except zstandard.ZstdError:
        pass  # here is the damage; all before it is kept
    return b"".join(pieces)


def _place(number: int) -> str:
    return "line 1 (header)" if number == 1 else f"line {number} (turn {number - 1}, or footer after the last turn)"


def _parse(line: bytes, kind: type[R], name: str, number: int) -> R:
    try:
        return msgspec.json.decode(line[_BODY:-1], type=kind)
    except msgspec.DecodeError as error:
        what = kind.__name__.strip("_").lower()
        raise Tampered(f"{name} line {number} is no {what} of {SCHEMA}: {error}") from error


def _map_parts(messages: tuple[Message, ...], change: Callable[[Part], Part]) -> tuple[Message, ...]:
    """Messages with their chunk parts changed; the same tuple when none shows a chunk."""
    if not any(part.chunk is not None for message in messages for part in message.parts):
        return messages
    return tuple(
        msgspec.structs.replace(
            message, parts=tuple(part if part.chunk is None else change(part) for part in message.parts)
        )
        for message in messages
    )


def _refer(part: Part, texts: dict[str, str]) -> Part:
    if len(part.text) <= _INLINE_CHARS and not part.text.startswith(_REFERENCE):
        return part
    key = hashing.text_digest(part.text)
    texts[key] = part.text
    return Part(_REFERENCE + key, part.chunk, part.tokens)


def _resolve(part: Part, resolve: Callable[[str], str]) -> Part:
    if not part.text.startswith(_REFERENCE):
        return part
    return Part(resolve(part.text.removeprefix(_REFERENCE)), part.chunk, part.tokens)


def _resolved_step(step: Step, resolve: Callable[[str], str]) -> Step:
    messages = _map_parts(step.messages, lambda part: _resolve(part, resolve))
    return step if messages is step.messages else msgspec.structs.replace(step, messages=messages)
