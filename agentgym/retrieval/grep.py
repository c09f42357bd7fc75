"""Regular expressions over a whole corpus in one pass, safe whatever an agent writes.

All chunk texts lie in one UTF-8 buffer, a newline after each; RE2 searches the buffer, a hit's offset gives its chunk,
and the chunk is searched again by itself, because a match may run across a border. RE2 never backtracks (Python's `re`
hangs on `(a+)+$`); what it refuses — look-around, back-references — is an error result with RE2's own message.

Our choices: letters match in either case (`(?-i)` at the start turns that off), and `^` and `$` match at line ends, as
in the grep that models know.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import MissingExtra, ToolError
from agentgym.retrieval.lexical import Mask

LIMIT = 5
"""Most chunks a grep returns (reference/reports.md §1)."""

_PATTERN_CHARS = 2_000
# RE2's worst case is a step for each instruction and byte, up to 0.3 ns each: this many take half a minute, once its
# state cache no longer helps. `.{0,100}` is 900 instructions.
_WORK, _SMALL_PROGRAM = 100_000_000_000, 500
# What can only be told from a chunk's own text: \A, \z, and a flag group that turns something off (perhaps `m`).
_OWN_TEXT = re.compile(r"\\[Az]|\(\?\w*-")
_MEMORY = 64 << 20  # bytes for RE2's state cache; its default of 8 MiB makes busy patterns four times slower


def grep(
    pattern: str, buffer: NDArray[np.uint8], offsets: NDArray[np.int64], allowed: Mask | None = None, limit: int = LIMIT
) -> list[int]:
    """Rows of the first `limit` allowed chunks in which the pattern matches, in row order.

    `offsets[row]` is the first byte of a chunk, `offsets[row + 1] - 1` one past its last. Raises `ToolError` for a
    pattern that is empty, no text, too long, too costly, or refused by RE2.
    """
    regex = _compile(pattern, len(buffer))
    rows: list[int] = []
    row, count = 0, len(offsets) - 1
    joined = _OWN_TEXT.search(pattern) is None
    while row < count and len(rows) < limit:
        if joined:
            match = regex.search(buffer, int(offsets[row]))
            if match is None or match.start() >= offsets[count]:
                break
            row = int(np.searchsorted(offsets, match.start(), side="right")) - 1
            # A pattern that crosses a border may run to the buffer's end at every hit: from here on chunk by chunk.
            joined = match.end() < offsets[row + 1]
        if (allowed is None or allowed[row]) and regex.search(buffer[offsets[row] : offsets[row + 1] - 1]) is not None:
            rows.append(row)
        row += 1
    return rows


def _compile(pattern: str, corpus_bytes: int) -> Any:
    try:
        import re2
    except ImportError as error:
        raise MissingExtra("google-re2", "search") from error
    if not pattern:
        raise ToolError("the pattern is empty: give a regular expression", kind="bad_pattern")
    if len(pattern) > _PATTERN_CHARS:
        raise ToolError(f"the pattern has {len(pattern):,} characters; at most {_PATTERN_CHARS:,}", kind="bad_pattern")
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        regex = re2.compile(f"(?m){pattern}", options)
    except re2.error as error:
        raise ToolError(f"RE2 refuses the pattern {_short(pattern)}: {_reason(error)}", kind="bad_pattern") from None
    except UnicodeEncodeError:
        raise ToolError(f"the pattern {_short(pattern)} holds a lone surrogate", kind="bad_pattern") from None
    re2.purge()  # its cache would keep 128 patterns and their memory
    size = regex.programsize
    if size > _SMALL_PROGRAM and size * corpus_bytes > _WORK:
        raise ToolError(
            f"the pattern {_short(pattern)} is too costly ({size:,} instructions): shorten its repetitions",
            "bad_pattern",
        )
    return regex


def _reason(error: Exception) -> str:
    """RE2's message, given as bytes by some versions."""
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else f"{pattern[:77]}...")
