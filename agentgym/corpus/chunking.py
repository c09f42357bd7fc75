"""Cuts documents into the chunks that search returns: small enough for a token budget, whole enough to be read alone.

A chunk aims at `max_tokens` and may run up to `slack` further where that lets it end with a paragraph or a sentence
(Context-1: chunks of ≤ 512 tokens, + 100 slack; reports §1; the report prints no rule for the cut, so the rule is our
choice):

1. what is left fits into `max_tokens + slack`: it is the last chunk;
2. else the end of a paragraph, or failing that of a sentence, that lies nearest to `max_tokens`, within a quarter below
   it and `slack` above it;
3. else the last line end, or failing that the last white space, in the quarter below `max_tokens`;
4. else between two tokens, at most `max_tokens`.

White space after a cut belongs to the chunk before it, so a chunk starts with a visible character wherever it can.
Chunks are contiguous: joined, they are the text. Work goes on in windows of bounded size, each counted from its own
start, so a text costs linear time whatever is in it, and a chunk's count is that of its text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentgym.core.errors import ConfigError
from agentgym.core.tokens import Counter
from agentgym.corpus.document import Chunk, Document

_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")
_SENTENCE = re.compile(r"[.!?…]['\"”’)\]]*\s+|[。！？][」』”’）]*\s*")
_LINE = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s+")
# No chunk is longer than this many characters a token: else a megabyte without white space is one "word".
_CHARS_PER_TOKEN = 16
_MIN_TOKENS = 8  # one character may take several tokens; below this a limit could not be kept


def chunk_text(text: str, counter: Counter, max_tokens: int = 512, slack: int = 100) -> list[tuple[int, int, int]]:
    """Cut a text; returns `(start, end, tokens)` a chunk, offsets in characters, `tokens` =
    `counter.count(text[start:end])`.

    Each chunk has at most `max_tokens + slack` tokens and at least one character. An empty text has no chunks; a text
    of white space alone is kept like any other. Raises ConfigError for `max_tokens < 8` or a negative slack.
    """
    if max_tokens < _MIN_TOKENS or slack < 0:
        raise ConfigError(
            f"max_tokens={max_tokens}, slack={slack}: max_tokens must be at least {_MIN_TOKENS} and slack at least 0"
        )
    limit = max_tokens + slack
    longest = limit * _CHARS_PER_TOKEN
    reach = limit * 5  # characters to look at; follows the text's own characters a token
    chunks: list[tuple[int, int, int]] = []
    start = 0
    while start < len(text):
        window = text[start : start + reach]
        ends = counter.spans(window)
        if len(ends) <= limit and len(window) < longest and start + len(window) < len(text):
            reach = min(2 * reach, longest)
            continue
        whole = start + len(window) == len(text)
        length, tokens = _first_chunk(window, ends, whole, counter, max_tokens, slack)
        chunks.append((start, start + length, tokens))
        start += length
        reach = min(longest, max(limit, 5 * limit * len(window) // (4 * max(1, len(ends)))))
    return chunks


def chunk_document(document: Document, counter: Counter, max_tokens: int = 512, slack: int = 100) -> list[Chunk]:
    """Cut a document into chunks `<doc>_<i>`, `i` from 0. An empty document has none: nothing of it can be shown or
    cited."""
    return [
        Chunk(
            id=f"{document.id}_{i}",
            doc=document.id,
            text=document.text[start:end],
            start=start,
            end=end,
            tokens=tokens,
            title=document.title,
            source=document.source,
        )
        for i, (start, end, tokens) in enumerate(chunk_text(document.text, counter, max_tokens, slack))
    ]


def _first_chunk(
    window: str, ends: list[int], whole: bool, counter: Counter, max_tokens: int, slack: int
) -> tuple[int, int]:
    """Length in characters and tokens of the chunk that `window` begins with. `ends` are its tokens' end offsets;
    `whole` says that nothing follows it."""
    limit = max_tokens + slack
    if whole and len(ends) <= limit:
        return len(window), counter.count(window)
    low = ends[max_tokens - max_tokens // 4 - 1] if len(ends) > max_tokens else len(window) * 3 // 4
    target = ends[max_tokens - 1] if len(ends) > max_tokens else len(window)
    high = ends[limit - 1] if len(ends) > limit else len(window)
    for ends_sentence, end in _natural_cuts(window, low, target, high):
        tokens = counter.count(window[:end])
        if tokens <= (limit if ends_sentence else max_tokens):
            return end, tokens
    # A cut can make the text before it a token or two longer: step back until it fits.
    for end in reversed(ends[:max_tokens] if len(ends) > max_tokens else [*ends, len(window)]):
        tokens = counter.count(window[:end])
        if end > 0 and tokens <= max_tokens:
            return end, tokens
    return 1, counter.count(window[:1])


def _natural_cuts(window: str, low: int, target: int, high: int) -> Iterator[tuple[bool, int]]:
    """The best few offsets to cut at, best first (module docstring), each with whether a paragraph or sentence ends
    there."""
    search_from = max(0, low - 1)
    for pattern in (_PARAGRAPH, _SENTENCE):
        found = [
            match.end()
            for match in pattern.finditer(window, search_from)
            if low <= match.start() + len(match.group().rstrip()) <= high
        ]
        for end in sorted(found, key=lambda end: (abs(end - target), end))[:2]:
            yield True, end
    for pattern in (_LINE, _SPACE):
        below = [match.end() for match in pattern.finditer(window, search_from, target)]
        for end in reversed(below[-2:]):
            yield False, end
