"""What a scripted agent makes of what it reads: which chunks bear on the question, and which name to look for next.

No model: terms weighed by how rare they are among the chunks met, and names as runs of capitalised words.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_WORD = re.compile(r"[^\W\d_]{2,}|\d{3,}")
_NAME = re.compile(r"[A-Z][\w'’.-]+(?:\s+(?:of|the|de|la|von|van|and|&)\s+[A-Z][\w'’.-]+|\s+[A-Z][\w'’.-]+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_STOP = frozenset(
    """
    a an and are as at be been but by did do does for from had has have he her him his how in into is it its
    of on one or other she so than that the their them then there these they this those to was were what when
    where which who whom whose why will with would you your name named called same after before during about
    also
    """.split()  # noqa: SIM905 — a list of sixty quoted words is harder to read
)


def stem(word: str) -> str:
    """A crude stem: plural, past and progressive endings cut."""
    for ending in ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def terms(text: str) -> list[str]:
    """Stemmed content words, in order."""
    return [stem(word) for word in _WORD.findall(text.casefold()) if word not in _STOP]


class Reader:
    """Reads chunks for one question. All scores are relative to what has been read so far."""

    def __init__(self, question: str) -> None:
        self._question = set(terms(question))
        self._asked: set[str] = {name.casefold() for name in _NAME.findall(question)}
        self._chunks: dict[str, _Chunk] = {}
        self._frequency: Counter[str] = Counter()
        self._leads: set[str] = set()

    def read(self, chunk_id: str, text: str) -> None:
        """Take note of a chunk; one that is known already changes nothing."""
        if chunk_id in self._chunks:
            return
        chunk = _Chunk(text, self._question)
        self._chunks[chunk_id] = chunk
        self._frequency.update(chunk.terms)

    def ranked(self) -> list[str]:
        """Chunk ids, most relevant first; ties in the order of reading."""
        scores = {chunk_id: self._relevance(chunk) for chunk_id, chunk in self._chunks.items()}
        return sorted(scores, key=lambda chunk_id: -scores[chunk_id])

    def next_query(self) -> str | None:
        """The name that stands in the most relevant sentences and was not asked for yet; None when there is none."""
        promise: dict[str, float] = {}
        spelling: dict[str, str] = {}
        for chunk in self._chunks.values():
            relevance = self._relevance(chunk)
            for sentence_terms, names in chunk.sentences:
                value = self._weight(sentence_terms) + 0.25 * relevance
                for name in names:
                    key = name.casefold()
                    spelling.setdefault(key, name)
                    promise[key] = max(promise.get(key, 0.0), value)
        for key in sorted(promise, key=lambda name: (-round(promise[name], 9), name)):
            if not any(key in asked for asked in self._asked):
                self._asked.add(key)
                self._leads.add(key)
                return spelling[key]
        return None

    def _relevance(self, chunk: _Chunk) -> float:
        """Weight of the question's terms in the chunk; half as much again for a page about a name that was looked for."""
        best = max((self._weight(found) for found, _ in chunk.sentences), default=0.0)
        followed = any(lead in chunk.title for lead in self._leads)
        return (self._weight(chunk.terms & self._question) + best) * (1.5 if followed else 1.0)

    def _weight(self, found: set[str]) -> float:
        total = len(self._chunks)
        return math.fsum(math.log(1 + total / self._frequency[term]) for term in sorted(found) if self._frequency[term])


class _Chunk:
    """A chunk as read: its terms, its title, and per sentence the question's terms and the names in it."""

    __slots__ = ("sentences", "terms", "title")

    def __init__(self, text: str, question: set[str]) -> None:
        self.title = text.partition("\n")[0].casefold()
        self.terms = set(terms(text))
        self.sentences = [
            (found & question, names)
            for sentence in _SENTENCE.split(text)
            if (names := _names(sentence)) or sentence
            for found in [set(terms(sentence))]
        ]


def _names(sentence: str) -> list[str]:
    """Names in a sentence; a single capitalised word at its beginning is no name."""
    return [
        match.group().rstrip(".") for match in _NAME.finditer(sentence) if match.start() > 0 or " " in match.group()
    ]
