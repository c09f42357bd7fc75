"""What a corpus is made of: documents, and the chunks that search returns."""

from __future__ import annotations

from agentgym.core.records import Record


class Document(Record, frozen=True):
    """A text with an id. `source` names the collection it belongs to; `meta` holds what its reader knew (date, form, …)."""

    id: str
    text: str
    title: str = ""
    source: str = ""
    meta: dict[str, str] = {}


class Chunk(Record, frozen=True):
    """A piece `text = document.text[start:end]` of a document, id `<doc>_<i>`; `tokens` by the index's counter."""

    id: str
    doc: str
    text: str
    start: int
    end: int
    tokens: int
    title: str = ""
    source: str = ""
