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

out = Console(highlight=False)
if not out.is_terminal:
    out.width = 160  # a file or a pipe has no width to keep to
err = Console(stderr=True, highlight=False)


def fail(message: str) -> None:
    """An error, in one line."""
    err.print(f"[red]error:[/red] {escape(message)}", soft_wrap=True)


def say(message: str) -> None:
    """A remark that is no result."""
    err.print(escape(message), soft_wrap=True)


class LogToConsole(logging.Handler):
    """The library's own remarks (a task set is built, a corpus indexed) on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def print_json(value: Any) -> None:
    """A result for scripts: JSON alone on standard output."""
    data = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    out.print(data, soft_wrap=True, markup=False)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; the function it gives is told `(done, total)`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(title, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield update


def table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """A table on standard output; all columns but the first are numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    out.print(made)
