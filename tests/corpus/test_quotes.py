"""Quotes: each stage of the cascade on what it is for, and what must not match."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.corpus.quotes import Stage, contains_answer, find_quote, fold, strip_links

TEXT = (
    "The [Société Générale](https://sg.example/a_(bank)) was founded in 1864; its “first” office,\n"
    "on the Rue de Provence, held 1,250 clerks[3] — more than any rival's in Paris at that moment of its history."
)


@pytest.mark.parametrize(
    ("quote", "stage"),
    [
        ("was FOUNDED in 1864", Stage.SUBSTRING),
        ("office, on  the Rue de Provence", Stage.WHITE_SPACE),
        ("The Société Générale was founded", Stage.LINKS),
        ("held 1,250 clerks — more than any", Stage.LINKS),
        ("the societe generale was founded in 1864: its 'first' office", Stage.FOLDED),
        ("held 1250 clerks - more than any rival’s", Stage.FOLDED),
        ("The Société Générale, founded, then first in an office in Provence", Stage.LONG_WORDS),
    ],
)
def test_each_stage(quote: str, stage: Stage) -> None:
    match = find_quote(quote, TEXT)
    assert match is not None
    assert match.stage is stage
    assert (match.span is not None) == (stage in (Stage.SUBSTRING, Stage.WHITE_SPACE))


@pytest.mark.parametrize("quote", ["", " \n", "...", "—", "[3]", "a", "18", "https://sg.example"])
def test_trivial_or_absent_quotes_match_nothing(quote: str) -> None:
    assert find_quote(quote, TEXT.replace("https://sg.example/a_(bank)", "x")) is None


@pytest.mark.parametrize(
    "quote",
    [
        "was founded in 1865",
        "Provence office founded first Société Générale moment",  # long words, but in another order
        "history office Provence clerks rival",
        "Société Générale",  # too few long words for the last stage, absent from the text below
    ],
)
def test_what_is_not_said_does_not_match(quote: str) -> None:
    assert find_quote(quote, TEXT.replace("Générale", "Anonyme")) is None


def test_long_words_far_apart_do_not_match() -> None:
    quote = "Alpha1 bravo1 charlie delta1 foxtrot"
    assert find_quote(quote, " and ".join(quote.split())) == (Stage.LONG_WORDS, None)
    assert find_quote(quote, (" filler" * 100).join(quote.split())) is None


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_quote_taken_from_a_text_is_found_where_it_stands(before: str, quote: str, after: str) -> None:
    text = before + quote + after
    match = find_quote(quote, text)
    if sum(map(len, fold(quote).split())) < 3:
        assert match is None
    else:
        assert match is not None
        assert match.stage is Stage.SUBSTRING
        assert match.span is not None
        assert re.fullmatch(re.escape(quote.strip()), text[slice(*match.span)], re.IGNORECASE)


@given(st.text(max_size=200))
@example("\ue000")
@example("1\u0301,\u2488000")
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(max_size=100), st.text(max_size=300))
def test_no_input_breaks_it(quote: str, text: str) -> None:
    find_quote(quote, text)
    contains_answer(quote, text)


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma7", "DELTA"]), min_size=1, max_size=8), st.integers(0, 10**6))
def test_white_space_does_not_matter(words: list[str], seed: int) -> None:
    spaces = [" ", "\n", "\t ", "\u00a0", "\r\n\r\n"]
    text = "".join(word + spaces[(seed + i * 7) % len(spaces)] for i, word in enumerate(words))
    match = find_quote(" ".join(words), f"x {text} y")
    assert match is not None
    assert match.stage in (Stage.SUBSTRING, Stage.WHITE_SPACE)
    assert match.span is not None
    start, end = match.span
    assert f"x {text} y"[start:end].split() == words


@pytest.mark.parametrize(
    ("answer", "text", "held"),
    [
        ("Łódź", "born in LODZ.", True),
        ("O'Brien", "Flann O’Brien wrote", True),
        ("ﬁsh & chips", "fish, chips", True),
        ("1,000", "exactly 1000 pages", True),
        ("1", "exactly 1,000 pages", False),
        ("3", "3.5 metres", False),
        ("3.5", "about 3.5.", True),
        ("art", "a cart", False),
        ("東京", "彼は東京都に住む", True),
        ("서울", "서울에서", True),
        ("", "anything", False),
        ("?!", "anything?!", False),
        ("ß", "ss", True),
        ("İstanbul", "istanbul", True),
        ("co-operate", "they co operate", True),
        ("zero\u200bwidth", "zerowidth", True),
        ("２０２０", "in 2020", True),
    ],
)
def test_contains_answer(answer: str, text: str, held: bool) -> None:
    assert contains_answer(answer, text) is held


@pytest.mark.parametrize("unit", ["[a](", "[[", "<a ", "http://", "[1", "word ", "(", "!["])
def test_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    strip_links(text)  # a quadratic pattern would take minutes and meet the test's time limit
    assert find_quote("some quote that is not there", text) is None


def test_answers_stand_in_their_gold_paragraphs(real_data: Path) -> None:
    with gzip.open(real_data / "hotpotqa100.corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = {row["_id"]: row["text"] for row in map(json.loads, file)}
    queries = json.loads((real_data / "hotpotqa100.queries.json").read_text("utf-8"))
    answers = json.loads((real_data / "hotpotqa100.answers.json").read_text("utf-8"))
    extractive = [
        (answer["answer"], [texts[id] for id in query["gold"]])
        for query, answer in zip(queries, answers, strict=True)
        if answer["answer"] not in ("yes", "no")
    ]
    found = sum(any(contains_answer(answer, text) for text in gold) for answer, gold in extractive)
    assert found >= 0.97 * len(extractive)
    sentences = [sentence for _, gold in extractive for text in gold for sentence in text.split(". ")[:1]]
    assert all(find_quote(sentence, text) for (_, gold) in extractive for text in gold for sentence in [text[20:80]])
    elsewhere = texts["Demon Dice"]
    assert sum(find_quote(sentence, elsewhere) is not None for sentence in sentences if len(sentence) > 40) == 0
