"""The text of an HTML page, as a reader of the page would take it down: blocks on lines of their own, table rows with
` | ` between cells, links as their text, no scripts, styles or navigation.

The tree comes from lexbor (the HTML5 algorithm, so unclosed tags end where a browser would end them) and is walked
without recursion: real pages nest thousands deep. White space is folded as a browser folds it, outside `<pre>`; a
no-break space becomes a space. Empty table cells leave nothing behind: filings are full of spacer cells (our choice).
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# fmt: off
_DROPPED = frozenset([
    "script", "style", "nav", "noscript", "template", "head", "svg", "math", "iframe", "object", "embed", "canvas",
    "audio", "video", "select", "datalist",
])
_BLOCKS = frozenset([
    "address", "article", "aside", "body", "br", "caption", "center", "dd", "details", "dialog", "div", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "section", "summary",
    "tbody", "textarea", "tfoot", "thead", "tr",
])
_PARAGRAPHS = frozenset([
    "blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hgroup", "ol", "p", "pre", "table", "ul",
])
# fmt: on
_CELLS = frozenset(["td", "th"])
_WHITE = " \t\n\r\f\v\xa0"
_FOLD = re.compile(f"[{_WHITE}]+")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# Python also knows codecs that are no character sets, such as base64 and unicode_escape.
_WEB_CODECS = ("big5", "cp", "euc", "gb", "hz", "iso2022", "iso8859", "johab", "koi8", "mac", "shift", "tis")
_NOTHING, _SPACE, _CELL, _LINE, _PARAGRAPH = range(5)  # what stands before the next text; the stronger one wins
_BREAKS = ("", " ", " | ", "\n", "\n\n")


class Page(NamedTuple):
    """Title (of `<title>`, else of the first `<h1>`, else empty) and text of a page."""

    title: str
    text: str


def read_page(data: bytes | str) -> Page:
    """Title and text of an HTML page; bytes are decoded by `decode_page`. Never fails on markup, however broken."""
    from selectolax.lexbor import LexborHTMLParser

    markup = data.removeprefix("\ufeff") if isinstance(data, str) else decode_page(data)
    tree = LexborHTMLParser(markup.encode("utf-8", "replace").decode("utf-8"))
    titles = (tree.css_first("head title"), tree.css_first("h1"))
    title = next((text for node in titles if node is not None and (text := _fold(node.text()))), "")
    return Page(title, _text(tree.body))


def decode_page(data: bytes) -> str:
    """Text of a page's bytes: by byte order mark; else as UTF-8 if it is valid; else by the charset that a `<meta>`
    in the first 2,048 bytes declares; else as windows-1252. What is no character becomes U+FFFD.

    UTF-8 stands before the declaration because pages that lie about it are common, and text in another encoding that
    happens to be valid UTF-8 is not (pages of pure ASCII follow the declaration: ISO-2022-JP is such).
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    declared = _CHARSET.search(data[:2048])
    encoding = _codec(declared.group(1).decode("ascii")) if declared else "cp1252"
    for candidate in [encoding, "utf-8"] if data.isascii() else ["utf-8", encoding]:
        try:
            return data.decode(candidate)
        except UnicodeDecodeError:
            continue
    return data.decode(encoding, "replace")


def _codec(label: str) -> str:
    """Python's name of a declared charset. As in browsers, Latin-1 means its superset windows-1252, and a page whose
    declaration could be read byte by byte is not UTF-16."""
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return "cp1252"
    if name.startswith("utf"):
        return "utf-8"
    return name if name != "iso8859-1" and name.startswith(_WEB_CODECS) else "cp1252"


def _fold(text: str) -> str:
    return _FOLD.sub(" ", text).strip()


def _text(body: LexborNode | None) -> str:
    """Text of a tree in document order, by its child, next and parent links: no recursion."""
    writer = _Writer()
    node = body
    top = None if body is None else body.mem_id  # `==` would compare the nodes' whole HTML
    while node is not None:
        if node.is_text_node:
            writer.text(node.text_content or "")
        elif (tag := node.tag or "") not in _DROPPED:
            writer.enter(tag)
            if node.child is not None:
                node = node.child
                continue
            writer.leave(tag)
        while node is not None and node.next is None:
            node = node.parent
            if node is None or node.mem_id == top:
                return "".join(writer.pieces).strip()
            writer.leave(node.tag or "")
        node = None if node is None else node.next
    return ""


class _Writer:
    """Collects text; remembers the strongest break asked for since the last piece, and where the current row began."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.pending = _NOTHING
        self.rows: list[int] = []
        self.cell_began: int = -1  # len(pieces) when the innermost cell was entered
        self.pre = 0

    def text(self, raw: str) -> None:
        text = raw if self.pre else _FOLD.sub(" ", raw).strip(" ")
        spaced = not self.pre and text != raw
        if spaced and raw[0] in _WHITE:
            self.ask(_SPACE)
        if not text:
            return
        if self.pieces:
            self.pieces.append(_BREAKS[self.pending])
        self.pieces.append(text)
        self.pending = _SPACE if spaced and raw[-1] in _WHITE else _NOTHING

    def ask(self, strength: int) -> None:
        if len(self.pieces) != self.cell_began:  # a break before the first text of a cell would tear the row
            self.pending = max(self.pending, strength)

    def enter(self, tag: str) -> None:
        if tag in _CELLS:
            if self.rows and len(self.pieces) > self.rows[-1]:
                self.pending = _CELL  # also over the breaks that the cell before ended with
            self.cell_began = len(self.pieces)
            return
        self._block(tag)
        if tag == "tr":
            self.rows.append(len(self.pieces))
        elif tag == "pre":
            self.pre += 1

    def leave(self, tag: str) -> None:
        if tag in _CELLS:
            self.pending = min(self.pending, _LINE)  # a paragraph that ends the row's last cell is no blank line
            return
        if tag == "tr" and self.rows:
            self.rows.pop()
            self.cell_began = -1
        elif tag == "pre":
            self.pre -= 1
        self._block(tag)

    def _block(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self.ask(_PARAGRAPH)
        elif tag in _BLOCKS:
            self.ask(_LINE)
