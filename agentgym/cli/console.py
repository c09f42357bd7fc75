"""What the terminal shows: progress on standard error, results on standard output, one-line errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

out = Console(highlight=False, emoji=False)  # `chat:m:` is a name, not a pictogram
if not out.is_terminal:
    out.width = 160  # a file or a pipe has no width to keep to
err = Console(stderr=True, highlight=False, emoji=False)

# What a terminal obeys: escape sequences begin with such a character, and some turn the writing direction.
_OBEYED = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SPELLED = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _OBEYED if chr(code) not in "\n\t"}
_SPELLED_IN_JSON = {code: f"\\u{code:04x}" for code in _OBEYED if code >= 0x7F}


def visible(text: str) -> str:
    """Text of a corpus, an agent or a file that can do nothing to the terminal: what it would obey is spelled out."""
    return text.translate(_SPELLED)


def plain(text: str) -> str:
    """The same, for use inside markup."""
    return escape(visible(text))


def fail(message: str) -> None:
    """An error, in one line."""
    err.print(f"[red]error:[/red] {plain(message)}", soft_wrap=True)


def say(message: str) -> None:
    """A remark that is no result."""
    err.print(plain(message), soft_wrap=True)


class LogToConsole(logging.Handler):
    """The library's own remarks (a task set is built, a corpus indexed) on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def print_json(value: Any) -> None:
    """A result for scripts: JSON alone on standard output."""
    data = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().translate(_SPELLED_IN_JSON)
    out.print(data, soft_wrap=True, markup=False)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; the function it gives is told `(done, total)`."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(visible(title), total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield update


def table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """A table on standard output; all columns but the first are numbers."""
    if title:
        out.print(plain(title), style="italic", soft_wrap=True)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        made.add_column(plain(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        made.add_row(*(plain(cell) for cell in row))
    out.print(made)
