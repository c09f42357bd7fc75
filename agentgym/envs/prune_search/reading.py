"""What a scripted agent makes of what it reads: which chunks bear on the question, and which name to look for next.

No model. The question's sentences are clues. A sentence that was read bears on a clue by the terms that both hold, each
weighed by how rare it is among the chunks read so far. Names in sentences that bear on a clue are leads.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W\d_]{2,}|\d{3,}")
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ]"
_NAME = re.compile(
    rf"{_CAPITAL}[\w'’-]+(?:\s+(?:of|the|de|la|von|van|and|for|in|&)(?:\s+the)?(?=\s+{_CAPITAL})|\s+{_CAPITAL}[\w'’-]*)*"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_STOP = frozenset(
    """
    a an and are as at be been but by did do does for from had has have he her him his how in into is it its of on one or
    other she so than that the their them then there these they this those to was were what when where which who whom
    whose why will with would you your name named called same after before during about also someone something find give
    """.split()  # noqa: SIM905 — a list of seventy quoted words is harder to read
)
WHOLE_CHUNK = 0.3  # weight of a chunk's terms anywhere in it, beside its best sentence
FOLLOWED_TIMES = 1.3  # a page about a name that was looked for bears more
LEAD_CHUNK = 0.25  # weight of a lead's chunk beside its sentence


def stem(word: str) -> str:
    """A crude stem: plural, past and progressive endings cut."""
    for ending in ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def terms(text: str) -> list[str]:
    """Stemmed content words, in order."""
    return [stem(word) for word in _WORD.findall(text.casefold()) if word not in _STOP]


def sentences(text: str) -> list[str]:
    """Sentences and lines of a text, empty ones left out."""
    return [piece for piece in _SENTENCE.split(text) if piece.strip()]


def names(sentence: str) -> list[str]:
    """Names in a sentence, as runs of capitalised words. A single one at its beginning is no name."""
    return [match.group() for match in _NAME.finditer(sentence) if match.start() > 0 or " " in match.group()]


class _Read(NamedTuple):
    """A chunk as read, whatever the question: its title, its sentences' terms and names."""

    title: str
    terms: tuple[frozenset[str], ...]
    names: tuple[tuple[str, ...], ...]


@functools.lru_cache(maxsize=20_000)
def _read(text: str) -> _Read:
    pieces = sentences(text)
    return _Read(
        text.partition("\n")[0].casefold(),
        tuple(frozenset(terms(piece)) for piece in pieces),
        tuple(tuple(names(piece)) for piece in pieces),
    )


class Reader:
    """Reads chunks for one question. All weights are relative to what has been read so far."""

    def __init__(self, question: str) -> None:
        clues = [frozenset(terms(sentence)) for sentence in sentences(question)]
        self._vocabulary = sorted(frozenset().union(*clues))
        self._clues = np.array([self._row(clue) for clue in clues]).reshape(len(clues), len(self._vocabulary))
        self._question = question.casefold()
        self._ids: list[str] = []
        self._read: list[_Read] = []
        self._starts: list[int] = []  # a chunk's first sentence
        self._sentences = np.zeros((0, len(self._vocabulary)))  # 1 where a sentence holds a term of the question
        self._wholes = np.zeros((0, len(self._vocabulary)))  # the same for chunks
        self._followed: list[bool] = []  # whether a chunk is of a page about a name that was asked for
        self._asked: set[str] = set()

    def _row(self, found: frozenset[str]) -> list[float]:
        return [float(term in found) for term in self._vocabulary]

    def read(self, chunk_id: str, text: str) -> None:
        """Take note of a chunk; one that is known already changes nothing."""
        if chunk_id in self._ids:
            return
        made = _read(text)
        rows = np.array([self._row(found) for found in made.terms]).reshape(len(made.terms), len(self._vocabulary))
        self._ids.append(chunk_id)
        self._read.append(made)
        self._starts.append(len(self._sentences))
        self._sentences = np.vstack([self._sentences, rows])
        self._wholes = np.vstack([self._wholes, rows.max(axis=0, initial=0.0)])
        self._followed.append(any(name.casefold() in made.title for name in self._asked))

    def ranked(self) -> list[str]:
        """Chunk ids, most relevant first; ties in the order of reading."""
        relevance = self._relevance()
        return [self._ids[i] for i in sorted(range(len(self._ids)), key=lambda i: -relevance[i])]

    def next_name(self) -> str | None:
        """The name in the sentence that bears most on a clue, among those not asked for yet; None when there is none."""
        relevance, bearing = self._relevance(), self._bearing(self._sentences)
        promise: dict[str, float] = {}
        for made, start, of_chunk in zip(self._read, self._starts, relevance, strict=True):
            for place, found in enumerate(made.names, start):
                for name in found:
                    promise[name] = max(promise.get(name, 0.0), round(bearing[place] + LEAD_CHUNK * of_chunk, 6))
        best = min(
            (name for name in promise if name not in self._asked and name.casefold() not in self._question),
            key=lambda name: (-promise[name], name),
            default=None,
        )
        if best is not None:
            self._asked.add(best)
            title = best.casefold()
            self._followed = [old or title in made.title for old, made in zip(self._followed, self._read, strict=True)]
        return best

    def _relevance(self) -> list[float]:
        """Per chunk: its best pair of neighbouring sentences, and its terms as a whole."""
        if not self._ids:
            return []
        after = np.vstack([self._sentences[1:], np.zeros((1, len(self._vocabulary)))])
        after[[start - 1 for start in self._starts[1:]]] = 0.0  # the last sentence of a chunk has no neighbour
        pairs = np.array(self._bearing(np.maximum(self._sentences, after)))
        best = np.maximum.reduceat(pairs, self._starts)
        values = (best + WHOLE_CHUNK * (self._wholes @ self._weight())) * np.where(self._followed, FOLLOWED_TIMES, 1.0)
        rounded: list[float] = np.round(values, 6).tolist()
        return rounded

    def _bearing(self, rows: NDArray[np.float64]) -> list[float]:
        """Per sentence: the weight of the terms that it shares with the clue that it shares most with."""
        best: list[float] = ((rows * self._weight()) @ self._clues.T).max(axis=1, initial=0.0).tolist()
        return best

    def _weight(self) -> NDArray[np.float64]:
        frequency = self._wholes.sum(axis=0)
        return np.where(frequency > 0, np.log1p(len(self._ids) / np.maximum(frequency, 1.0)), 0.0)
