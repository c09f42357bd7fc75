"""The texts of an index: chunks, documents, grep and read. Nothing is decoded before it is asked for."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import IndexDamaged, ToolError
from agentgym.corpus.document import Chunk
from agentgym.retrieval import files
from agentgym.retrieval.build import DOCUMENTS, IDS, OFFSETS, SPANS, TEXT, DocumentEntry
from agentgym.retrieval.grep import LIMIT, grep
from agentgym.retrieval.lexical import Mask


class Chunks:
    """What an index folder holds besides its legs. Rows number the chunks in corpus order."""

    def __init__(self, folder: Path, sources: tuple[str, ...]) -> None:
        self.folder = folder
        self.sources = sources
        self._offsets = files.map_array(folder / OFFSETS)
        self._spans = files.map_array(folder / SPANS)
        self._buffer = np.asarray(np.memmap(folder / TEXT, dtype=np.uint8, mode="r"))
        self._ids = msgspec.json.decode((folder / IDS).read_bytes(), type=list[str])
        self._documents = msgspec.json.decode((folder / DOCUMENTS).read_bytes(), type=list[DocumentEntry])
        lengths = np.array([entry.rows for entry in self._documents], dtype=np.int64)
        self._first_rows = np.concatenate([[0], np.cumsum(lengths)])
        self._document_of: NDArray[np.int64] = np.repeat(np.arange(len(lengths)), lengths)
        if not len(self._ids) == len(self._spans) == len(self._offsets) - 1 == len(self._document_of):
            raise IndexDamaged(f"index {folder}: its files disagree on the number of chunks; build it again")

    def __len__(self) -> int:
        return len(self._ids)

    def text(self, row: int) -> str:
        """Text of the chunk in a row."""
        return self._buffer[self._offsets[row] : self._offsets[row + 1] - 1].tobytes().decode()

    def chunk(self, row: int) -> Chunk:
        """The chunk in a row, decoded from the map each time."""
        entry = self.document(row)
        start, end, tokens = self._spans[row].tolist()
        return Chunk(self._ids[row], entry.id, self.text(row), start, end, tokens, entry.title, entry.source)

    def row(self, chunk_id: str) -> int:
        """Row of a chunk; ToolError with near misses for an unknown id."""
        found = self._rows.get(chunk_id)
        if found is None:
            raise _unknown("chunk", chunk_id, self._rows)
        return found

    def read(self, doc_id: str) -> range:
        """Rows of a document in order (none for an empty one); ToolError with near misses for an unknown id."""
        number = self._document_numbers.get(doc_id)
        if number is None:
            raise _unknown("document", doc_id, self._document_numbers)
        return range(int(self._first_rows[number]), int(self._first_rows[number + 1]))

    def document(self, row: int) -> DocumentEntry:
        """What is known of the document that a row's chunk belongs to."""
        return self._documents[int(self._document_of[row])]

    @property
    def documents(self) -> Sequence[DocumentEntry]:
        """All documents, empty ones included, in corpus order."""
        return self._documents

    def grep(self, pattern: str, *, allowed: Mask | None = None, limit: int = LIMIT) -> list[int]:
        """Rows of the first `limit` allowed chunks that match a regular expression (see `retrieval.grep`)."""
        return grep(pattern, self._buffer, self._offsets, allowed, limit)

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk_id: row for row, chunk_id in enumerate(self._ids)}

    @functools.cached_property
    def _document_numbers(self) -> dict[str, int]:
        return {entry.id: number for number, entry in enumerate(self._documents)}

    def mask(self, allowed: Mask | None, exclude: Collection[str]) -> Mask | None:
        """`allowed` without the excluded chunk ids; ids that the index does not hold exclude nothing."""
        rows = [self._rows[chunk_id] for chunk_id in exclude if chunk_id in self._rows]
        if not rows:
            return allowed
        mask = np.ones(len(self), dtype=np.bool_) if allowed is None else allowed.copy()
        mask[rows] = False
        return mask

    def restricted(self, allowed: Mask | None, source: str | None) -> Mask | None:
        """`allowed` inside one source; None for `source` means all."""
        if source is None:
            return allowed
        inside = self._source_masks.get(source)
        if inside is None:
            return np.zeros(len(self), dtype=np.bool_)
        return inside if allowed is None else inside & allowed

    @functools.cached_property
    def _source_masks(self) -> dict[str, Mask]:
        sources = np.array([entry.source for entry in self._documents], dtype=object)[self._document_of]
        return {name: np.asarray(sources == name, dtype=np.bool_) for name in self.sources}


def _unknown(kind: str, wanted: str, known: dict[str, int]) -> ToolError:
    """The error for an unknown id. Near misses are sought among ids that begin alike: all would take seconds."""
    start = wanted[:2].casefold()
    alike = [name for name in known if name[:2].casefold() == start][:2_000]
    near = difflib.get_close_matches(wanted[:200], alike, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "use ids as search shows them"
    return ToolError(f"unknown {kind} {wanted[:80]!r}; {hint}", f"unknown_{kind}")
