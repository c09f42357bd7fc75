"""The lexical leg: BM25 over stemmed words.

Three engines stand behind one interface. `bm25s` (default) keeps every term's weight in every chunk ready in a sparse
matrix, memory-mapped; a query is a few column sums and one pass for the best k, compiled by numba and cached on disk
(0.3 ms at 100,000 chunks; the same in NumPy takes 3 ms, and bm25s's own retriever breaks ties by chance and compiles
for 5 s in every process). `rank-bm25` is the slow reference that parity tests hold it to. `tantivy` is for corpora
beyond some 300,000 chunks.
"""

from __future__ import annotations

import collections
import functools
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import MissingExtra
from agentgym.retrieval.files import map_array, write_array, write_json
from agentgym.retrieval.settings import DENSE_ONLY

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Mask = NDArray[np.bool_]

K1, B = 1.5, 0.75  # rank-bm25's defaults

_WORD = re.compile(r"\w\w+")
# Lucene's English list, as bm25s ships it; kept here because an index is only as stable as its stop words.
_STOP_LIST = """a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with"""
_STOP = frozenset(_STOP_LIST.split())
# Weight, relative to Lucene's idf, of a term in half of the chunks or more, whose idf would be nought or negative.
_COMMON = 0.01
_THREAD = threading.local()


class Leg(Protocol):
    """One way of ranking chunks. Rows are chunk numbers in index order."""

    def top(self, query: str, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """The best `k` rows among the allowed (all for None), best first, ties by row; fewer where fewer match."""

    def score(self, query: str, rows: Rows) -> Scores:
        """This leg's own score of each given row, in the order given."""


def tokenise(text: str) -> list[str]:
    """Lower-cased words of two characters and more without stop words, stemmed by Snowball English."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _STOP]
    stemmed: list[str] = _stemmer().stemWords(words)
    return stemmed


def _stemmer() -> Any:
    """One stemmer a thread: they cache words and are not safe to share."""
    if not hasattr(_THREAD, "stemmer"):
        try:
            import Stemmer
        except ImportError as error:
            raise MissingExtra("PyStemmer", "search", instead=DENSE_ONLY) from error
        _THREAD.stemmer = Stemmer.Stemmer("english", 100_000)
    return _THREAD.stemmer


def best_rows(scores: NDArray[Any], k: int, allowed: Mask | None) -> Rows:
    """Rows of the `k` highest scores among the allowed, best first, ties by row."""
    rows = np.flatnonzero(allowed) if allowed is not None else np.arange(len(scores))
    values = scores[rows]
    if len(rows) > k > 0:
        bound = np.partition(values, len(values) - k)[len(values) - k]
        rows, values = rows[values >= bound], values[values >= bound]
    return rows[np.lexsort((rows, -values))[: max(k, 0)]]


class Bm25s:
    """bm25s's matrix with the weights of `BM25Okapi`: equal to rank-bm25 to 1e-5 where every query term stands in fewer
    than half of the chunks.

    Our choice: a commoner term keeps a hundredth of Lucene's weight instead of none, so that two chunks that differ in
    nothing else are still found in a corpus of a few pages (rank-bm25 gives such terms a quarter of the mean idf, which
    lets stop words decide).
    """

    FILES = ("bm25.data.npy", "bm25.indices.npy", "bm25.indptr.npy", "bm25.vocabulary.json")

    def __init__(self, folder: Path, chunks: int) -> None:
        self._data, self._indices, self._indptr = (map_array(folder / name) for name in self.FILES[:3])
        self._vocabulary: dict[str, int] = msgspec.json.decode((folder / self.FILES[3]).read_bytes())
        self._chunks = chunks
        self._all = np.ones(chunks, dtype=np.bool_)
        self._scratch = threading.local()

    @classmethod
    def build(cls, texts: Iterable[str], folder: Path) -> None:
        """Write the matrix of these texts, in row order."""
        try:
            import bm25s
        except ImportError as error:
            raise MissingExtra("bm25s", "search", instead=DENSE_ONLY) from error
        vocabulary: dict[str, int] = {}
        rows = [[vocabulary.setdefault(word, len(vocabulary)) for word in tokenise(text)] for text in texts]
        data = np.zeros(0, dtype=np.float32)
        indices, indptr = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        if vocabulary:
            engine = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene")
            engine.index((rows, vocabulary), show_progress=False, create_empty_token=False)
            data, indices, indptr = (engine.scores[key] for key in ("data", "indices", "indptr"))
            data = (data * _okapi_ratio(np.diff(indptr), len(rows))).astype(np.float32)
        write_array(folder / cls.FILES[0], data)
        write_array(folder / cls.FILES[1], indices)
        write_array(folder / cls.FILES[2], indptr)
        write_json(folder / cls.FILES[3], vocabulary)

    def top(self, query: str, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        terms, weights = self._terms(query)
        if not len(terms) or k <= 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        scratch = self._scratch
        if not hasattr(scratch, "scores"):
            scratch.scores, scratch.touched = np.zeros(self._chunks), np.empty(self._chunks, dtype=np.int32)
        mask = self._all if allowed is None else np.ascontiguousarray(allowed, dtype=np.bool_)
        matrix = self._data, self._indices, self._indptr
        return _kernel()(*matrix, terms, weights, mask, min(k, self._chunks), scratch.scores, scratch.touched)

    def score(self, query: str, rows: Rows) -> Scores:
        scores = np.zeros(self._chunks)
        for term, weight in zip(*self._terms(query), strict=True):
            column = slice(self._indptr[term], self._indptr[term + 1])
            scores[self._indices[column]] += weight * self._data[column]
        return scores[rows]

    def _terms(self, query: str) -> tuple[Rows, Scores]:
        """Column and count of each known term, once each: a megabyte of one word costs no more than the word."""
        counts = collections.Counter(tokenise(query))
        known = [(self._vocabulary[word], count) for word, count in counts.items() if word in self._vocabulary]
        return np.array([c for c, _ in known], dtype=np.int64), np.array([n for _, n in known], dtype=np.float64)


def _okapi_ratio(frequencies: NDArray[np.int64], chunks: int) -> NDArray[np.float64]:
    """What turns Lucene's idf, log(1 + (N - df + .5) / (df + .5)), into Okapi's, without the 1, per matrix entry."""
    odds = (chunks - frequencies + 0.5) / (frequencies + 0.5)
    ratio = np.where(odds > 1, np.log(np.maximum(odds, 1)) / np.log1p(odds), _COMMON)
    return np.repeat(ratio, frequencies)


def _best_columns_sum(
    data: Any, indices: Any, indptr: Any, terms: Any, weights: Any, allowed: Any, k: int, scores: Any, touched: Any
) -> tuple[Any, Any]:
    """Sum the weighted columns and keep the k best allowed rows in order, ties by row. Compiled; see `_kernel`.

    Work grows with the postings of the query's terms alone: `scores` (chunks,) is nought before and after, `touched`
    (chunks,) lists the rows that were met. Every weight in the matrix is above nought.
    """
    count = 0
    for i in range(len(terms)):
        for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
            row = indices[j]
            if scores[row] == 0:
                touched[count] = row
                count += 1
            scores[row] += weights[i] * data[j]
    rows, best, found = np.empty(k, dtype=np.int64), np.empty(k), 0
    for i in range(count):
        row = touched[i]
        value = scores[row]
        scores[row] = 0
        if not allowed[row]:
            continue
        if found == k and (value < best[k - 1] or (value == best[k - 1] and row > rows[k - 1])):
            continue
        found = min(found + 1, k)
        slot = found - 1
        while slot > 0 and (best[slot - 1] < value or (best[slot - 1] == value and rows[slot - 1] > row)):
            best[slot], rows[slot] = best[slot - 1], rows[slot - 1]
            slot -= 1
        best[slot], rows[slot] = value, row
    return rows[:found], best[:found]


@functools.cache
def _kernel() -> Callable[..., tuple[Any, Any]]:
    """The compiled kernel: a second at the very first use on a machine, then loaded from numba's cache on disk."""
    try:
        import numba
    except ImportError as error:
        raise MissingExtra("numba", "search", instead="lexical='rank-bm25'") from error

    def array(kind: Any, readonly: bool = True) -> Any:
        return numba.types.Array(kind, 1, "C", readonly=readonly)

    signature = (
        *(array(numba.float32), array(numba.int32), array(numba.int64)),
        *(array(numba.int64), array(numba.float64), array(numba.bool_), numba.int64),
        *(array(numba.float64, readonly=False), array(numba.int32, readonly=False)),
    )
    try:
        compiled: Callable[..., tuple[Any, Any]] = numba.njit(signature, cache=True, nogil=True)(_best_columns_sum)
    except (RuntimeError, OSError):  # no cache folder can be written, or the disk is full: compile in each process
        compiled = numba.njit(signature, nogil=True)(_best_columns_sum)
    return compiled


class RankBm25:
    """rank-bm25's `BM25Okapi`, unaltered, over the same words: the reference. Tokenises the corpus at first use."""

    FILES: tuple[str, ...] = ()

    def __init__(self, texts: Callable[[], Iterable[str]]) -> None:
        self._texts = texts

    @functools.cached_property
    def _engine(self) -> Any:
        try:
            from rank_bm25 import BM25Okapi
        except ImportError as error:
            raise MissingExtra("rank-bm25", "engines", instead="lexical='bm25s'") from error
        words = [tokenise(text) for text in self._texts()]
        return BM25Okapi(words, k1=K1, b=B) if any(words) else None

    def _scores(self, query: str) -> Scores | None:
        words = tokenise(query)
        if self._engine is None or not words:
            return None
        scores: Scores = self._engine.get_scores(words)
        return scores

    def top(self, query: str, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        scores = self._scores(query)
        if scores is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        matching = scores > 0 if allowed is None else (scores > 0) & allowed
        rows = best_rows(scores, k, matching)
        return rows, scores[rows]

    def score(self, query: str, rows: Rows) -> Scores:
        scores = self._scores(query)
        return np.zeros(len(rows)) if scores is None else scores[rows]


class Tantivy:
    """tantivy over the same words, for corpora whose matrix would not fit: its own index files, its own BM25 (k1 1.2,
    lengths rounded)."""

    FOLDER = "tantivy"

    def __init__(self, folder: Path, chunks: int) -> None:
        self._engine = _tantivy().Index.open(str(folder / self.FOLDER))
        self._register(self._engine)
        self._searcher = self._engine.searcher()
        self._chunks = chunks

    @staticmethod
    def _register(engine: Any) -> None:
        tantivy = _tantivy()
        engine.register_tokenizer("words", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())

    @classmethod
    def build(cls, texts: Iterable[str], folder: Path) -> None:
        """Write the engine's files for these texts, in row order."""
        tantivy = _tantivy()
        shutil.rmtree(folder / cls.FOLDER, ignore_errors=True)  # what a killed build left
        (folder / cls.FOLDER).mkdir()
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name="words", index_option="freq")
        schema.add_unsigned_field("row", fast=True)
        engine = tantivy.Index(schema.build(), path=str(folder / cls.FOLDER), reuse=False)
        cls._register(engine)
        writer = engine.writer(num_threads=1)
        for row, text in enumerate(texts):
            document = tantivy.Document(text=" ".join(tokenise(text)))
            document.add_unsigned("row", row)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    def _hits(self, query: str, limit: int) -> tuple[Rows, Scores]:
        """The best `limit` rows and scores, best first, ties in the engine's order."""
        tantivy = _tantivy()
        terms = [
            (
                tantivy.Occur.Should,
                tantivy.Query.boost_query(tantivy.Query.term_query(self._engine.schema, "text", word), count),
            )
            for word, count in collections.Counter(tokenise(query)).items()
        ]
        if not terms or limit <= 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        hits = self._searcher.search(tantivy.Query.boolean_query(terms), limit, count=False).hits
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        return np.array(rows, dtype=np.int64), np.array([score for score, _ in hits], dtype=np.float64)

    def top(self, query: str, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        limit = min(k + 50, self._chunks)
        while True:
            rows, scores = self._hits(query, limit)
            if allowed is not None:
                kept = allowed[rows]
                rows, scores = rows[kept], scores[kept]
            # Complete when nothing is left, or when the last hit scores below the k-th: ties are then all in hand.
            if limit >= self._chunks or (len(rows) > k and scores[-1] < scores[k - 1]):
                order = np.lexsort((rows, -scores))[: max(k, 0)]
                return rows[order], scores[order]
            limit = min(4 * limit, self._chunks)

    def score(self, query: str, rows: Rows) -> Scores:
        scores = np.zeros(self._chunks)
        hits, values = self._hits(query, self._chunks)
        scores[hits] = values
        return scores[rows]


def _tantivy() -> Any:
    try:
        import tantivy
    except ImportError as error:
        raise MissingExtra("tantivy", "engines", instead="lexical='bm25s'") from error
    return tantivy


def build_lexical(engine: str, texts: Callable[[], Iterable[str]], folder: Path) -> None:
    """Write what an engine keeps on disk."""
    if engine == "bm25s":
        Bm25s.build(texts(), folder)
    elif engine == "tantivy":
        Tantivy.build(texts(), folder)


def open_lexical(engine: str, texts: Callable[[], Iterable[str]], folder: Path, chunks: int) -> Leg:
    """The leg over what `build_lexical` wrote."""
    if engine == "bm25s":
        return Bm25s(folder, chunks)
    return Tantivy(folder, chunks) if engine == "tantivy" else RankBm25(texts)
