"""The agent's tools: search, grep, read, prune (report §1 Tools). One instance is one episode's state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from agentgym.core.errors import ToolError
from agentgym.core.hashing import canonical
from agentgym.core.records import Part
from agentgym.core.tokens import Counter
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.harness.tool import Output, Toolset, tool
from agentgym.retrieval.index import Index

Query = Annotated[str, "What to look for, in words."]


class Shelf:
    """Chunks of an index as message parts, each rendered and counted once an environment."""

    def __init__(self, index: Index, counter: Counter) -> None:
        self._index = index
        self._counter = counter
        self._parts: dict[int, Part] = {}

    def part(self, row: int) -> Part:
        """`[id] title`, then the text. Its size is the header's count plus the count that the index keeps."""
        part = self._parts.get(row)
        if part is None:
            chunk = self._index.chunk(row)
            header = f"[{chunk.id}] {chunk.title}".rstrip()
            part = Part(f"{header}\n{chunk.text}", chunk.id, self._counter.count(header) + chunk.tokens)
            self._parts[row] = part
        return part


class Rankings:
    """The `size` rankings asked for most recently, by what was asked."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def get(self, request: Any, compute: Callable[[], Any]) -> Any:
        """The ranking of a request (JSON), computed where it is not kept."""
        key = canonical(request)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        value = self._kept[key] = compute()
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return value


class SearchTools(Toolset):
    """Search tools over an index.

    Chunks shown before in the episode, pruned ones included, are left out of later searches (report: ids seen in earlier
    searches; ours counts what grep and read have shown too). Grep and read can bring a pruned chunk back, never show one
    that is in view. With `rankings`, one that is kept there is not computed again.
    """

    def __init__(
        self, index: Index, shelf: Shelf, profile: SearchProfile, question: str, rankings: Rankings | None = None
    ) -> None:
        self.index = index
        self.shelf = shelf
        self.profile = profile
        self.question = question
        self.rankings = rankings

    @tool
    def search_corpus(self, query: Query) -> Output:
        """Search the corpus by meaning and by words; returns the best chunks that you have not seen yet."""
        return self._search(query, None)

    @tool
    def grep_corpus(self, pattern: Annotated[str, "Regular expression (RE2), case-insensitive."]) -> Output:
        """Find chunks that match a regular expression; returns at most a handful."""
        rows = self.index.grep(
            pattern, allowed=self.index.mask(None, self.context.live), limit=self.profile.grep_chunks
        )
        return self._show(rows, "no chunk outside your view matches")

    @tool
    def read_document(
        self, doc_id: Annotated[str, "Id of a document: a chunk's id without its last _number."]
    ) -> Output:
        """Read a document's chunks, those closest to the question first, as far as the token budget allows."""
        rows = [row for row in self._document(doc_id) if self.index.chunk(row).id not in self.context.live]
        order = self.index.rerank(self.question, rows, record=self._record)
        return self._show(order, "all of this document is in your view")

    @tool
    def prune_chunks(self, chunk_ids: Annotated[list[str], "Ids of chunks to remove."]) -> Output:
        """Remove chunks from your view to free tokens; what you pruned can be read again by grep or read."""
        live = self.context.live
        gone = tuple(dict.fromkeys(chunk for chunk in chunk_ids if chunk in live))
        missing = [chunk for chunk in dict.fromkeys(chunk_ids) if chunk not in live]
        if not gone:
            raise ToolError(
                f"none of these chunks is in view: {_named(missing) or 'none named'}; "
                f"in view: {_named(list(live)) or 'no chunk'}",
                "unknown_chunk",
            )
        text = f"pruned {len(gone)} chunk{'s' * (len(gone) > 1)}, {sum(live[chunk] for chunk in gone):,} tokens"
        if missing:
            text += f"; not in view: {_named(missing)}"
        return Output((self.context.part(text),), prune=gone)

    def _search(self, query: str, sources: Iterable[str] | None) -> Output:
        rows = self.index.search(
            query, self.profile.candidates, exclude=self.context.seen, sources=sources, record=self._record
        )
        return self._show(rows[: self.profile.shown], "nothing new found")

    def _show(self, rows: Iterable[int], empty: str) -> Output:
        parts = tuple(self.shelf.part(int(row)) for row in rows)
        return Output(parts or (self.context.part(empty),))

    def _document(self, doc_id: str) -> list[int]:
        """Rows of a document; a chunk's id stands for its document, since models mix the two up."""
        try:
            return list(self.index.read(doc_id))
        except ToolError:
            document, _, number = doc_id.rpartition("_")
            if not (document and number.isdigit()):
                raise
            return list(self.index.read(document))

    def _record(self, request: Any, compute: Any, check: Any) -> Any:
        kept = self.rankings
        once = compute if kept is None else lambda: kept.get(request, compute)
        return self.effects.call("ranking", request, once, check)


def _named(chunks: Sequence[str]) -> str:
    """The first few ids of a list, each cut: an agent chooses what it sends."""
    return ", ".join(chunk[:60] for chunk in chunks[:5]) + (", …" if len(chunks) > 5 else "")


class MultiSourceTools(SearchTools):
    """`SearchTools` for profiles with named sources."""

    @tool
    def search_corpus(
        self,
        query: Query,
        sources: Annotated[list[str] | None, "Names of the sources to search; all by default."] = None,
    ) -> Output:
        """Search the corpus, or some of its sources, by meaning and by words; returns the best chunks not seen yet."""
        return self._search(query, sources)
