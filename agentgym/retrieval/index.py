"""The index: hybrid search, grep and read over a corpus, built once and memory-mapped by every process.

A search runs its legs (BM25 and vectors, in each source that is asked for), fuses their rankings by RRF, and lets the
reranker order the best 50 (MaxSim's order is fused in its turn). Each ranking that comes of floating-point scores can be
recorded as an effect and is judged in a replay by the verifier's own scores; all between them is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import IndexDamaged, IndexMismatch, ReplayMismatch, ToolError
from agentgym.corpus.document import Chunk, Document
from agentgym.retrieval import build as builder
from agentgym.retrieval import files
from agentgym.retrieval.chunks import Chunks
from agentgym.retrieval.dense import Dense
from agentgym.retrieval.embedder import Embedder, load_embedder
from agentgym.retrieval.files import MANIFEST, Manifest, Progress
from agentgym.retrieval.fusion import DEPTH, rrf
from agentgym.retrieval.lexical import Leg, Mask, open_lexical
from agentgym.retrieval.rerank import CrossEncoder, MaxSim, Reranker
from agentgym.retrieval.settings import BUNDLED, require, settle

Recorder = Callable[[dict[str, Any], Callable[[], list[int]], Callable[[Any], str | None]], list[int]]
"""Called as `record(request, compute, check)` for every ranking; returns `compute()`, or in a replay the recorded rows.
`request` is JSON that says what was ranked; `check(rows)` judges recorded rows and returns None or what is wrong."""

TOLERANCE = 1e-5
"""Largest inversion, by the verifier's own scores, that a recorded ranking may show (DESIGN §2)."""

QUERY_CHARS = 10_000
"""Longer queries are cut here (our choice): the embedder reads 256 word pieces, and agents do paste whole pages."""

_OPENED: dict[Path, tuple[int, Index]] = {}


class Index(Chunks):
    """An opened index, from `Index.open` or `Index.build`. Immutable; rows number its chunks in corpus order."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        require(manifest.settings)
        self.manifest = manifest
        self.hash = manifest.hash
        self.settings = manifest.settings
        super().__init__(folder, manifest.sources)
        self._legs = self._open_legs()

    @classmethod
    def build(
        cls,
        corpus: Iterable[Document] | Iterable[Chunk],
        path: str | Path,
        *,
        retrieval: str = "hybrid",
        lexical: str = "bm25s",
        rerank: bool | str | None = None,
        embedder: str | Callable[[list[str]], Any] = BUNDLED,
        precision: str = "fp32",
        counter: str = "o200k",
        chunk_tokens: int = 512,
        slack: int = 100,
        progress: Progress | None = None,
    ) -> Index:
        """Build an index in a folder of its own, or open the same one if it is there; a killed build resumes.

        Args:
            corpus: documents, or chunks already cut; `source` names the collection of each. Ids are unique over all.
            retrieval: `hybrid`, `lexical` (needs no torch) or `dense`.
            lexical: `bm25s`, `rank-bm25` or `tantivy`.
            rerank: None decides by size (MaxSim up to 10,000 chunks), a bool forces it, a string names a cross-encoder.
            embedder, precision: see `Settings`.
            counter, chunk_tokens, slack: how documents are cut.
            progress: told `(stage, done, total)`.

        Raises:
            CorpusError: no text, or an id that occurs twice.
            MissingExtra: a part that the settings need is not installed; never a silent fallback.
            IndexMismatch: the folder holds another index.
            InfraError: the disk is full or refuses; build again to resume.
        """
        settings = settle(retrieval, lexical, rerank, embedder, precision, counter, chunk_tokens, slack)
        builder.build(corpus, Path(path), settings, progress)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, expect_hash: str | None = None) -> Index:
        """The index at a folder, one object a process while its manifest stays the same.

        Raises IndexMismatch when its hash is not `expect_hash`, IndexDamaged when a file is missing, cut or altered.
        """
        folder = Path(path).resolve()
        try:
            stamp = (folder / MANIFEST).stat().st_mtime_ns
        except OSError:
            stamp = -1
        cached = _OPENED.get(folder)
        if cached is None or cached[0] != stamp:
            manifest = files.read_manifest(folder)
            files.check_files(folder, manifest, whole=False)
            try:
                cached = stamp, cls(folder, manifest)
            except (ValueError, EOFError, msgspec.DecodeError) as error:
                raise IndexDamaged(f"index {folder}: {error}; build it again") from error
            _OPENED[folder] = cached
        index = cached[1]
        if expect_hash is not None and index.hash != expect_hash:
            raise IndexMismatch(
                f"the index at {folder} has hash {index.hash[:12]}, not {expect_hash[:12]}: it was built from another "
                "corpus or with other settings; build it again from the right ones"
            )
        return index

    def verify(self) -> None:
        """Read every file and compare its SHA-256 with the manifest; raises IndexDamaged."""
        files.check_files(self.folder, files.read_manifest(self.folder), whole=True)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self):,} chunks, {self.settings.retrieval}, hash={self.hash[:12]})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # another process maps the same files
        return Index.open, (str(self.folder), self.hash)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        allowed: Mask | None = None,
        exclude: Collection[str] = (),
        sources: Iterable[str] | None = None,
        record: Recorder | None = None,
    ) -> list[int]:
        """Rows of the best chunks for a query, best first; at most `k`, and at most 50.

        Args:
            query: any text; an empty one finds nothing.
            allowed: bool (chunks,), True where a chunk may be returned; None for everywhere.
            exclude: chunk ids left out besides.
            sources: names of sources to search, None for all; ToolError for an unknown one.
            record: hook through which every ranking goes.
        """
        query = clean_query(query)
        if not query.strip():
            return []
        rankings = self.rankings(query, self.mask(allowed, exclude), sources=sources, record=record)
        rows = rrf(rankings.values())[:DEPTH]
        if self._reranker is not None:
            reranked = self.rerank(query, rows, record=record)
            rows = rrf([*rankings.values(), reranked])[:DEPTH] if self.manifest.rerank == "maxsim" else reranked
        return rows[: max(k, 0)]

    def rankings(
        self,
        query: str,
        allowed: Mask | None = None,
        *,
        sources: Iterable[str] | None = None,
        record: Recorder | None = None,
    ) -> dict[str, list[int]]:
        """The best 50 rows by each leg, in each source where there are several: `{"lexical/web": …}`."""
        excluded = [] if allowed is None else np.flatnonzero(~allowed).tolist()
        rankings = {}
        for source in self._chosen(sources):
            for leg in self._legs:
                name = leg if source is None else f"{leg}/{source}"
                request = {"leg": name, "query": query, "depth": DEPTH, "excluded": excluded}
                rankings[name] = self._ranked(
                    request,
                    functools.partial(self._top, name, query, allowed),
                    functools.partial(self.check_ranking, name, query, allowed=allowed),
                    record,
                )
        return rankings

    def rerank(self, query: str, rows: Sequence[int], *, record: Recorder | None = None) -> list[int]:
        """The given rows ordered by the reranker, or where there is none by vectors, or else by BM25; ties by row."""
        query, rows = clean_query(query), list(dict.fromkeys(rows))
        if len(rows) < 2:
            return rows
        request = {"leg": "rerank", "query": query, "rows": rows}
        compute = functools.partial(self._reranked, query, rows)
        return self._ranked(request, compute, functools.partial(self.check_rerank, query, rows), record)

    def check_ranking(self, leg: str, query: str, rows: Any, allowed: Mask | None = None) -> str | None:
        """None if `rows` can stand as this leg's ranking, else what is wrong (see `largest_inversion`)."""
        return _complaint(leg, self.largest_inversion(leg, query, rows, allowed))

    def check_rerank(self, query: str, candidates: Sequence[int], rows: Any) -> str | None:
        """None if `rows` can stand as the reranked candidates, else what is wrong."""
        if not _is_rows(rows, len(self)) or sorted(rows) != sorted(candidates):
            return "leg rerank: the recorded rows are not the rows it was given"
        return _complaint("rerank", _inversion(self._ranker.score(query, np.array(rows, dtype=np.int64))))

    def largest_inversion(self, leg: str, query: str, rows: Any, allowed: Mask | None = None) -> float:
        """How wrong a recorded ranking is at its worst place, in this leg's own scores; infinity if it is no ranking.

        Counts a row that scores above one ranked before it, and a row left out that scores above the last one ranked.
        """
        name, _, source = leg.partition("/")
        if name not in self._legs or not _is_rows(rows, len(self)) or len(rows) > DEPTH:
            return float("inf")
        mask = self.restricted(allowed, source if "/" in leg else None)
        given = np.array(rows, dtype=np.int64)
        if mask is not None and not mask[given].all():
            return float("inf")
        best, best_scores = self._legs[name].top(query, DEPTH, mask)
        if len(best) != len(given):  # every match is ranked, up to 50
            return float("inf")
        if not len(given):
            return 0.0
        own = self._legs[name].score(query, given)
        left_out = best_scores[~np.isin(best, given)]
        missing = float(left_out.max() - own.min()) if len(left_out) else 0.0
        return max(_inversion(own), missing)

    def _open_legs(self) -> dict[str, Leg]:
        legs: dict[str, Leg] = {}
        if self.settings.lexical:
            legs["lexical"] = open_lexical(self.settings.lexical, self._indexed_texts, self.folder, len(self))
        if self.settings.embedder:
            legs["dense"] = Dense(self.folder, self._embedder)
        return legs

    def _embedder(self) -> Embedder:
        return load_embedder(self.settings.embedder, self.settings.precision)

    def _indexed_texts(self) -> Iterable[str]:
        return builder.stored_texts(self.folder)

    @functools.cached_property
    def _reranker(self) -> Reranker | None:
        name = self.manifest.rerank
        if name == "none":
            return None
        if name == "maxsim":
            return MaxSim(self.folder, self._embedder)
        return CrossEncoder(name, self.text)

    @property
    def _ranker(self) -> Reranker:
        return self._reranker or self._legs.get("dense") or self._legs["lexical"]

    def _chosen(self, sources: Iterable[str] | None) -> list[str | None]:
        """Sources to search; `[None]` where there is only one."""
        names = list(self.sources) if sources is None else sorted({str(name) for name in sources})
        unknown = [name for name in names if name not in self.sources]
        if unknown:
            known = ", ".join(name or "''" for name in self.sources)
            raise ToolError(f"unknown source {unknown[0][:80]!r}; known sources: {known}", "unknown_source")
        if not names:
            raise ToolError("no source was named: leave sources out to search all", "unknown_source")
        return [None] if len(self.sources) == 1 else list(names)

    def _top(self, leg: str, query: str, allowed: Mask | None) -> list[int]:
        name, slash, source = leg.partition("/")
        rows, _ = self._legs[name].top(query, DEPTH, self.restricted(allowed, source if slash else None))
        ranked: list[int] = rows.tolist()
        return ranked

    def _reranked(self, query: str, rows: Sequence[int]) -> list[int]:
        candidates = np.array(sorted(rows), dtype=np.int64)
        scores = self._ranker.score(query, candidates)
        ranked: list[int] = candidates[np.lexsort((candidates, -scores))].tolist()
        return ranked

    def _ranked(
        self,
        request: dict[str, Any],
        compute: Callable[[], list[int]],
        check: Callable[[Any], str | None],
        record: Recorder | None,
    ) -> list[int]:
        if record is None:
            return compute()
        rows = record(request, compute, check)
        if not _is_rows(rows, len(self)):
            raise ReplayMismatch(
                f"the recorded ranking of leg {request['leg']} names rows that this index does not have"
            )
        return rows


def clean_query(query: str) -> str:
    """A query as it is searched and recorded: lone surrogates replaced, cut at `QUERY_CHARS`."""
    return query[:QUERY_CHARS].encode("utf-8", "replace").decode()


def _is_rows(rows: Any, chunks: int) -> bool:
    """Whether a value is a list of distinct rows."""
    return (
        isinstance(rows, list)
        and all(type(row) is int and 0 <= row < chunks for row in rows)
        and len(set(rows)) == len(rows)
    )


def _inversion(scores: NDArray[np.float64]) -> float:
    """Largest amount by which a score exceeds one before it."""
    return float((scores - np.minimum.accumulate(scores)).max()) if len(scores) else 0.0


def _complaint(leg: str, inversion: float) -> str | None:
    if inversion <= TOLERANCE:
        return None
    if inversion == float("inf"):
        return f"leg {leg}: the recorded rows cannot be its ranking (unknown, excluded or repeated rows, or too few)"
    return f"leg {leg}: the recorded ranking is inverted by {inversion:.2g} of its own scores"
