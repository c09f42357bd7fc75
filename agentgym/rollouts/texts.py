"""Corpus texts of a run, each stored once: trajectories show the same chunks over and over, and refer by hash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from agentgym.core import hashing, records
from agentgym.core.errors import DataError, Tampered
from agentgym.rollouts.files import Appender, unreadable

SCHEMA = "texts/1"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_READ_BYTES = 16384


class Texts:
    """`texts.jsonl.zst`: a header line, then lines `{"sha256", "text"}`; a zstd frame an episode."""

    def __init__(self, path: Path, *, writer: bool) -> None:
        self._path = path
        self._texts: dict[str, tuple[str, int]] | None = None
        self._lines = 0
        self._file: Appender | None = None
        if writer:
            self._file = Appender(path, self._load())

    def add(self, texts: dict[str, str]) -> None:
        """Store those that are not there yet; all or none."""
        assert self._file is not None
        assert self._texts is not None
        new = {key: text for key, text in texts.items() if key not in self._texts}
        if not new:
            return
        lines = [hashing.canonical({"sha256": key, "text": text}) + b"\n" for key, text in new.items()]
        if not self._lines:
            lines.insert(0, hashing.canonical({"schema": SCHEMA}) + b"\n")
        self._file.append(zstandard.ZstdCompressor(level=3).compress(b"".join(lines)))
        self._enter(lines)

    def get(self, key: str, asked_by: str) -> str:
        """The text of a hash, checked against it; `asked_by` names the trajectory in errors."""
        if self._texts is None:
            self._load()
        assert self._texts is not None
        if key not in self._texts:
            raise Tampered(f"{self._path.name} lacks text {key}, which {asked_by} shows")
        text, line = self._texts[key]
        if hashing.text_digest(text) != key:
            raise Tampered(
                f"{self._path.name} line {line}: the text does not have its hash {key} ({asked_by} shows it)"
            )
        return text

    def problems(self) -> list[str]:
        """Every damaged text, with its line; read from disk again."""
        try:
            self._load()
        except DataError as error:
            return [str(error)]
        assert self._texts is not None
        bad = [(line, key) for key, (text, line) in self._texts.items() if hashing.text_digest(text) != key]
        return [f"{self._path.name} line {line}: the text does not have its hash {key}" for line, key in sorted(bad)]

    def close(self) -> None:
        """Close the file; what was read stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _load(self) -> int:
        """Read all texts; returns the length in bytes of the whole frames."""
        self._texts, self._lines, whole = {}, 0, 0
        try:
            data = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise unreadable(self._path, error) from error
        for frame, end in _frames(data, self._path.name):
            self._enter(frame.splitlines(keepends=True))
            whole = end
        return whole

    def _enter(self, lines: list[bytes]) -> None:
        assert self._texts is not None
        for line in lines:
            self._lines += 1
            try:
                entry = msgspec.json.decode(line, type=dict[str, str])
                if self._lines == 1:
                    records.upgrade(entry["schema"], SCHEMA)
                else:
                    self._texts[entry["sha256"]] = entry["text"], self._lines
            except (msgspec.DecodeError, KeyError) as error:
                raise Tampered(f"{self._path.name} line {self._lines} is damaged: {error}") from error


def _frames(data: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """Each whole zstd frame and where it ends. A torn last one is left out; damage anywhere else raises Tampered."""
    start = 0
    while start < len(data):
        stream, pieces, position = zstandard.ZstdDecompressor().decompressobj(), [], start
        try:
            while position < len(data) and not stream.eof:
                pieces.append(stream.decompress(data[position : position + _READ_BYTES]))
                position = min(position + _READ_BYTES, len(data))
        except zstandard.ZstdError as error:
            raise Tampered(f"{name}: the frame at byte {start} is damaged ({error})") from error
        if not stream.eof:
            if data.find(_ZSTD_MAGIC, start + 4) >= 0:  # a kill tears only the last frame
                raise Tampered(f"{name}: the frame at byte {start} is damaged (it runs into the next one)")
            return
        start = position - len(stream.unused_data)
        yield b"".join(pieces), start
