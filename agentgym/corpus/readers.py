"""Reads documents from what people have: JSON Lines, the BEIR layout, folders of text, Markdown and HTML.

Every reader streams, so that memory holds one document at a time, and every error is a CorpusError that names the
file, the line (or byte) and the way out: a corpus that was read wrongly without a word costs days.
"""

from __future__ import annotations

import gzip
import io
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agentgym.core.errors import ConfigError, CorpusError, DataError
from agentgym.core.records import upgrade
from agentgym.corpus.document import Document
from agentgym.corpus.html import read_page

ID_KEYS = ("_id", "id", "doc_id")
TEXT_KEYS = ("text", "contents")
_JSON_ENDS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
_LOG = logging.getLogger("agentgym")
_TEXT_ENDS = (".txt", ".md", ".html", ".htm")
_PAGE_ENDS = (".html", ".htm")
_BEIR_NAMES = ("corpus.jsonl", "corpus.jsonl.gz")
_LATIN = "if it is in another encoding, name that, for instance encoding='latin-1'"


def read_corpus(path: str | os.PathLike[str], *, source: str = "", encoding: str | None = None) -> Iterator[Document]:
    """The documents of a corpus, one at a time, in a fixed order.

    Args:
        path: what to read; the shape decides how.
            - `.jsonl`, `.jsonl.gz`: an object a line. Id under `_id`, `id` or `doc_id` (a string or whole number),
              text under `text` or `contents`, `title` optional; other keys become `meta`, as JSON if not strings.
            - `.json`, `.json.gz`: a list of such objects (held in memory), or lines all the same.
            - a folder with `corpus.jsonl` or `corpus.jsonl.gz`: the BEIR layout.
            - another folder: all `.txt`, `.md`, `.html`, `.htm` in it and below, sorted; the id is the path inside the
              folder, with `/`. Names that begin with a dot and linked folders are passed over.
            - a single such file: one document, the file name as id.
        source: name of the collection, for `Document.source`.
        encoding: of text and JSON; UTF-8 (a byte order mark is skipped) when not given. HTML pages then follow
            their mark or declaration (`html.decode_page`).

    Raises:
        CorpusError: nothing there, nothing in it, damaged, not in the encoding, an id twice, a row without id or text.
        ConfigError: no such encoding.
    """
    root = Path(path)
    if encoding is not None:
        try:
            "a".encode(encoding)
        except LookupError:
            raise ConfigError(f"encoding={encoding!r} is unknown; for instance 'utf-8', 'latin-1', 'utf-16'") from None
    if root.is_dir():
        beir = next((root / name for name in _BEIR_NAMES if (root / name).is_file()), None)
        if beir is None:
            return _unique(_files(_find(root), source, encoding), root)
        return _unique(_rows_as_documents(beir, source, encoding), beir)
    if not root.exists():
        raise CorpusError(f"{root} does not exist")
    if root.name.lower().endswith(_JSON_ENDS):
        return _unique(_rows_as_documents(root, source, encoding), root)
    if root.name.lower().endswith(_TEXT_ENDS):
        return _unique(_files({root.name: root}, source, encoding), root)
    known = ", ".join((*_JSON_ENDS, *_TEXT_ENDS))
    raise CorpusError(f"{root} is of no kind that can be read: {known}, or a folder")


def json_rows(path: Path, encoding: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file or a JSON list, plain or gzip, each with its place `file:line` for messages.

    Blank lines are passed over. Raises CorpusError for what is not JSON, not an object, damaged or not in the encoding.
    """
    rows = _json_list(path, encoding) if _is_list(path, encoding) else _json_lines(path, encoding)
    for place, row in rows:
        if not isinstance(row, dict):
            raise CorpusError(f"{place}: expected an object {{…}}, found {_kind(row)}")
        yield place, row


def text_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, plain or gzip, without their ends."""
    offset = 0
    with open_bytes(path) as file:
        if encoding is not None:
            text = io.TextIOWrapper(file, encoding)
            number = 0
            try:
                for number, line in enumerate(text, start=1):
                    yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
            except UnicodeError as error:
                raise CorpusError(f"{path}: after line {number}: not {encoding}: {error}") from None
            return
        for number, raw in enumerate(file, start=1):
            yield number, _decode(raw, path, offset, f"line {number}, ").rstrip("\r\n")
            offset += len(raw)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, unpacking gzip by its first bytes; what then goes wrong in reading it becomes a CorpusError."""
    try:
        with path.open("rb") as raw:
            head = raw.peek(2)[:2]
            if head == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield io.BufferedReader(unpacked)
            elif head and path.name.lower().endswith(".gz"):
                raise CorpusError(f"{path} is named .gz but is not gzip; rename it if it is plain text")
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path} is damaged or cut short ({error}); fetch or pack it again") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error


def pick(row: dict[str, Any], keys: tuple[str, ...], place: str, what: str) -> tuple[str, Any]:
    """The first of `keys` that a row has, with its value; CorpusError when it has none."""
    for key in keys:
        if row.get(key) is not None:
            return key, row[key]
    raise CorpusError(f"{place}: no {what}; it must stand under {' or '.join(map(repr, keys))}, found {list(row)}")


def as_id(value: object, place: str, key: str) -> str:
    """An id as text: a string of one line, or a whole number. CorpusError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise CorpusError(f"{place}: {key!r} must be a string or a whole number, found {_kind(value)}")
    if not value.strip() or value.splitlines() != [value]:
        raise CorpusError(f"{place}: {key!r} is {value!r}; an id is one line of text and not blank")
    return value


def as_text(value: object, place: str, key: str) -> str:
    """A string, or CorpusError."""
    if not isinstance(value, str):
        raise CorpusError(f"{place}: {key!r} must be a string, found {_kind(value)}")
    return value


def _unique(found: Iterator[tuple[str, Document]], root: Path) -> Iterator[Document]:
    seen: dict[str, str] = {}
    for place, document in found:
        if document.id in seen:
            raise CorpusError(
                f"{place}: id {document.id!r} was used before, at {seen[document.id]}; ids must be unique"
            )
        seen[document.id] = place
        yield document
    if not seen:
        raise CorpusError(f"{root} holds no documents")


def _rows_as_documents(path: Path, source: str, encoding: str | None) -> Iterator[tuple[str, Document]]:
    ours = False
    for number, (place, row) in enumerate(json_rows(path, encoding)):
        if number == 0 and row.keys() == {"schema"}:  # the corpus of a task set
            try:
                upgrade(str(row["schema"]), "corpus/1")
            except DataError as error:
                raise CorpusError(f"{place}: {error}") from None
            ours = True
        elif ours:
            try:
                document = msgspec.convert(row, Document)
            except msgspec.ValidationError as error:
                raise CorpusError(f"{place}: {error}") from None
            yield place, msgspec.structs.replace(document, source=source or document.source)
        else:
            yield place, _document(place, row, source)


def _document(place: str, row: dict[str, Any], source: str) -> Document:
    id_key, id_value = pick(row, ID_KEYS, place, "id")
    text_key, text = pick(row, TEXT_KEYS, place, "text")
    title = row.get("title")
    rest = {key: value for key, value in row.items() if key not in (id_key, text_key, "title")}
    for key in ("metadata", "meta"):
        if isinstance(rest.get(key), dict):
            rest |= rest.pop(key)
    return Document(
        id=as_id(id_value, place, id_key),
        text=as_text(text, place, text_key),
        title="" if title is None else as_text(title, place, "title"),
        source=source,
        meta={
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in rest.items()
            if value is not None
        },
    )


def _find(root: Path) -> dict[str, Path]:
    """The files of a folder that hold documents, by id."""
    found: dict[str, Path] = {}
    others: set[str] = set()
    skipped = 0
    for folder, subfolders, names in os.walk(root, onerror=_refuse):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if name.lower().endswith(_TEXT_ENDS) and not name.startswith("."):
                found[path.relative_to(root).as_posix()] = path
            else:
                others.add(path.suffix or name)
                skipped += not name.startswith(".")
    if not found:
        rest = f", only {', '.join(sorted(others)[:5])}" if others else ""
        raise CorpusError(f"{root} holds no {', '.join(_TEXT_ENDS)} and no corpus.jsonl{rest}; name a file or a folder")
    if skipped:
        kinds = ", ".join(sorted(others)[:5])
        _LOG.warning("%s: %d files skipped (%s); JSON Lines are read when named themselves", root, skipped, kinds)
    return found


def _files(found: dict[str, Path], source: str, encoding: str | None) -> Iterator[tuple[str, Document]]:
    for name in sorted(found):
        yield str(found[name]), _file(found[name], name, source, encoding)


def _refuse(error: OSError) -> None:
    raise CorpusError(f"{error.filename} cannot be read: {error.strerror or error}") from error


def _file(path: Path, name: str, source: str, encoding: str | None) -> Document:
    with open_bytes(path) as file:
        data = file.read()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise CorpusError(f"{name!r}: the file's name is not UTF-8, so it can be no id; rename it") from None
    if path.name.lower().endswith(_PAGE_ENDS):
        page = read_page(data if encoding is None else _decode(data, path, 0, "", encoding))
        return Document(id=name, text=page.text, title=page.title, source=source)
    text = _decode(data, path, 0, "", encoding).replace("\r\n", "\n").replace("\r", "\n")
    title = ""
    if path.name.lower().endswith(".md"):
        title = next((line[2:].strip(" #") for line in text[:10_000].split("\n") if line.startswith("# ")), "")
    return Document(id=name, text=text, title=title, source=source)


def _is_list(path: Path, encoding: str | None) -> bool:
    """Whether a file named .json holds one list; many hold lines."""
    if not path.name.lower().endswith((".json", ".json.gz")):
        return False
    return next((line.lstrip()[0] == "[" for _, line in text_lines(path, encoding) if line.strip()), False)


def _json_list(path: Path, encoding: str | None) -> Iterator[tuple[str, Any]]:
    with open_bytes(path) as file:
        data = file.read()
    rows = _parse(_decode(data, path, 0, "", encoding), str(path))
    for number, row in enumerate(rows, start=1):
        yield f"{path}: item {number}", row


def _json_lines(path: Path, encoding: str | None) -> Iterator[tuple[str, Any]]:
    for number, line in text_lines(path, encoding):
        if line.strip():
            yield f"{path}:{number}", _parse(line, f"{path}:{number}")


def _parse(text: str, place: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise CorpusError(f"{place}: not JSON: {error}; it begins {text[:60]!r}") from None
    except RecursionError:
        raise CorpusError(f"{place}: JSON that nests too deep to be read") from None


def _decode(data: bytes, path: Path, offset: int, where: str, encoding: str | None = None) -> str:
    """Strict decoding; the error names the byte in the file (`offset` is where `data` begins in it)."""
    try:
        text = data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        marked = offset == 0 and data.startswith((b"\xff\xfe", b"\xfe\xff"))
        way_out = "it has the mark of UTF-16: encoding='utf-16'" if marked else _LATIN
        raise CorpusError(
            f"{path}: {where}byte {offset + error.start} (0x{data[error.start]:02x}) is not {encoding or 'UTF-8'}; "
            f"{way_out}"
        ) from None
    return text.removeprefix("\ufeff") if offset == 0 else text


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", type(None): "null", bool: "true or false"}.get(
        type(value), f"{type(value).__name__} {value!r:.60}"
    )
