"""Does this text hold that quote, and does it state that answer?

Writers are asked for verbatim quotes and give nearly verbatim ones: another dash, a link less, a line break more. The
cascade of Context-1's verification (reports §1) tries ever looser readings and says which one matched, so that a
caller can refuse the looser ones:

1. `substring`: case-insensitive;
2. `white-space`: any run of white space equals any other;
3. `links`: Markdown, wiki and HTML links as their text, bare addresses and reference marks such as `[12]` left out;
4. `folded`: accents, ligatures, widths and case folded, punctuation as space;
5. `long-words`: the first five words of five letters or more, in order, not much further apart than in the quote.
   Length and distance are our choice: the report says "the first five long words in order" and no more.

A quote with fewer than three letters or digits is trivial and matches nothing.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

_MIN_CHARS = 3
_LONG_CHARS = 5
_LONG_WORDS = 5
_LINKS = (
    (re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\n]|\([^()\n]*\))*\)"), r"\1"),  # [text](address)
    (re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]"), r"\1"),  # [[page|text]]
    (re.compile(r"</?a\b[^<>]*>", re.IGNORECASE), ""),
    (re.compile(r"<?\b(?:https?|ftp)://[^\s<>]+>?", re.IGNORECASE), ""),
    (re.compile(r"\[\d{1,3}\]"), ""),
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_STRAY = re.compile(r"(?<!\d)\.|\.(?!\d)|,")  # all but the point of "3.5", which is no word boundary
_APOSTROPHES = "'’‘ʼ＇`´"
# Letters that Unicode does not decompose.
_LETTERS = {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
# Scripts that put no space between words (Korean glues its particles on): a word boundary means nothing there.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")


class Stage(StrEnum):
    """How a quote was found, strictest first."""

    SUBSTRING = "substring"
    WHITE_SPACE = "white-space"
    LINKS = "links"
    FOLDED = "folded"
    LONG_WORDS = "long-words"


class QuoteMatch(NamedTuple):
    """`span` is where the quote stands, `text[start:end]`; None from stage `links` on, where the text is a rewritten
    one."""

    stage: Stage
    span: tuple[int, int] | None = None


def find_quote(quote: str, text: str) -> QuoteMatch | None:
    """The strictest stage at which `text` holds `quote` (first place), or None. Empty and trivial quotes never
    match."""
    folded = fold(quote)
    if sum(map(len, folded.split())) < _MIN_CHARS:
        return None
    for stage, pattern in (
        (Stage.SUBSTRING, re.escape(quote.strip())),
        (Stage.WHITE_SPACE, _loosely_spaced(quote)),
    ):
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            return QuoteMatch(stage, found.span())
    bare, bare_text = strip_links(quote), strip_links(text)
    if bare.strip() and re.search(_loosely_spaced(bare), bare_text, re.IGNORECASE):
        return QuoteMatch(Stage.LINKS)
    bare_folded, text_folded = fold(bare), fold(bare_text)
    if bare_folded and bare_folded in text_folded:
        return QuoteMatch(Stage.FOLDED)
    if _long_words_in_order(bare_folded.split(), text_folded.split()):
        return QuoteMatch(Stage.LONG_WORDS)
    return None


def contains_answer(answer: str, text: str) -> bool:
    """Whether `text` states `answer` as whole words, case, accents and punctuation folded. An empty answer is nowhere.

    Basic on purpose: number words, other date formats and initials count as different answers.
    """
    wanted = fold(answer)
    if not wanted:
        return False
    if _UNSPACED.search(wanted):
        return wanted in fold(text)
    return f" {wanted} " in f" {fold(text)} "


def fold(text: str) -> str:
    """Words in lower case without accents, one space between them; ligatures, full-width forms and super-scripts as
    their plain letters, thousands separators dropped, the decimal point kept. Folding twice changes nothing."""
    plain = _THOUSANDS.sub("", text.translate(_FOLDING))
    return " ".join(_STRAY.sub(" ", plain).split())


def strip_links(text: str) -> str:
    """Links replaced by their text, bare addresses and reference marks removed."""
    for pattern, kept in _LINKS:
        text = pattern.sub(kept, text)
    return text


def _loosely_spaced(quote: str) -> str:
    return r"\s+".join(map(re.escape, quote.split()))


def _long_words_in_order(quote: list[str], text: list[str]) -> bool:
    long = list(islice(((i, word) for i, word in enumerate(quote) if len(word) >= _LONG_CHARS), _LONG_WORDS))
    if len(long) < _LONG_WORDS:
        return False
    words = [word for _, word in long]
    reach = 2 * (long[-1][0] - long[0][0]) + 10
    places: dict[str, list[int]] = {word: [] for word in words}
    for i, word in enumerate(text):
        if word in places:
            places[word].append(i)
    return any(_follows(first, first + reach, words[1:], places) for first in places[words[0]])


def _follows(at: int, last: int, words: list[str], places: dict[str, list[int]]) -> bool:
    """Whether `words` come one after another behind position `at`, none behind `last`."""
    for word in words:
        k = bisect_right(places[word], at)
        if k == len(places[word]) or places[word][k] > last:
            return False
        at = places[word][k]
    return True


class _Folding(dict[int, str]):
    """Character → what `fold` makes of it (points and commas it decides on later); filled as characters occur."""

    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        folded = self[code] = "".join(map(_fold_character, plain))
        return folded


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if character in _APOSTROPHES or unicodedata.combining(character) or category == "Cf":
        return ""
    kept = character.isalnum() or character in ".," or category.startswith("M")
    return _LETTERS.get(character, character) if kept else " "


_FOLDING = _Folding()
