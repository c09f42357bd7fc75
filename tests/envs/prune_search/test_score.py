"""Every metric by examples worked by hand, what counts as met, and how answers may be written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import DataError
from agentgym.core.records import CallResult, Step, StopReason, Trajectory, Truth, Turn, Usage
from agentgym.envs.prune_search.score import SearchTruth, f_beta, find, fuse_rollouts, parse_answer, score

FACTS = Truth(
    "t",
    "prune-search",
    {
        "relevant": ["a_0", "b_0", "c_1", "d_0"],
        "facts": [["a_0"], ["b_0", "c_1"], ["d_0"]],
        "answer": "Nessel",
        "answer_ids": ["d_0"],
        "quotes": ["not read by scoring"],
    },
)
DOCUMENTS = Truth("t", "prune-search", {"level": "document", "relevant": ["Alû", "Lilu (mythology)", "x_y"]})


def trajectory(
    answer: str = "",
    shown: Sequence[Sequence[str]] = (),
    pruned: Sequence[str] = (),
    *,
    stop: StopReason | None = StopReason.ANSWER,
    results: Sequence[CallResult] = (),
    usage: Usage | None = None,
) -> Trajectory:
    """One step for each list of chunks shown, one for what was pruned, and the answer."""
    steps = [Step(Turn(), shown=tuple(chunks), used=100 * (i + 1)) for i, chunks in enumerate(shown)]
    if pruned or results:
        steps.append(Step(Turn(), results=tuple(results), pruned=tuple(pruned), used=50))
    steps.append(Step(Turn(answer), used=60))
    return Trajectory("PruneSearch-v0", "", "t", "", 0, (), tuple(steps), stop, usage or Usage())


def ids(*chunks: str) -> str:
    return "\n".join(f'<Document id="{chunk}">\nbecause of what it says' for chunk in chunks)


def test_all_metrics_by_hand() -> None:
    made = score(
        FACTS,
        trajectory(
            ids("a_0", "x_0", "b_0"),
            [["a_0", "x_0", "y_0"], ["b_0"]],
            pruned=["y_0", "b_0"],
            results=[CallResult("prune_chunks"), CallResult("fly", "unknown_tool")],
            usage=Usage(tokens_in=900, tokens_out=100, calls=6, turns=4),
        ),
    )
    assert made.value == 0.0
    assert made.metrics == {
        "success": 0.0,
        "final_answer_found": 0.0,
        "recall": 2 / 4,
        "precision": 2 / 3,
        "f1": pytest.approx(4 / 7),
        "fact_recall": 2 / 3,
        "trajectory_recall": 2 / 4,
        "trajectory_fact_recall": 2 / 3,
        "prune_accuracy": 1 - 1 / 2,
        "calls_per_turn": 6 / 4,
        "turns": 4.0,
        "tokens": 1000.0,
        "context_peak": 200.0,
        "invalid_call_rate": 1 / 2,
    }


def test_answer_found_is_the_headline_whatever_else_was_missed() -> None:
    made = score(FACTS, trajectory(ids("x_0", "d_0"), [["x_0", "d_0"]]))
    assert made.value == made.metrics["final_answer_found"] == made.metrics["success"] == 1.0
    assert made.metrics["recall"] == 0.25
    assert made.metrics["prune_accuracy"] is None  # nothing was pruned


def test_a_fact_that_stands_in_two_chunks_is_met_by_either() -> None:
    for copy in ("b_0", "c_1"):
        made = score(FACTS, trajectory(ids("a_0", copy, "d_0"), [["a_0", copy, "d_0"]]))
        assert made.metrics["fact_recall"] == made.metrics["trajectory_fact_recall"] == 1.0
        assert made.metrics["recall"] == made.metrics["trajectory_recall"] == 0.75


def test_what_was_pruned_still_counts_as_met() -> None:
    made = score(FACTS, trajectory("nothing", [["a_0", "d_0"]], pruned=["a_0", "d_0"]))
    assert made.metrics["trajectory_recall"] == 0.5
    assert made.metrics["recall"] == 0.0
    assert made.metrics["prune_accuracy"] == 0.0


def test_document_judgements_count_a_chunk_as_its_document() -> None:
    chunks = ["Alû_0", "Alû_3", "Lilu (mythology)_0", "other_0", "x_y_12"]
    made = score(DOCUMENTS, trajectory(ids("Alû_3", "Alû_0", "other_0"), [chunks], pruned=["x_y_12"]))
    assert made.metrics["recall"] == 1 / 3
    assert made.metrics["precision"] == 1 / 2  # two chunks of one document count once
    assert made.metrics["trajectory_recall"] == 1.0
    assert made.metrics["prune_accuracy"] == 0.0


def test_without_a_known_answer_it_is_null_and_f1_is_the_headline() -> None:
    part = score(DOCUMENTS, trajectory(ids("Alû_0"), [["Alû_0"]]))
    assert part.metrics["final_answer_found"] is None
    assert part.value == part.metrics["f1"] == 0.5
    assert part.metrics["success"] == 0.0
    everything = ["Alû_0", "Lilu (mythology)_2", "x_y_0"]
    whole = score(DOCUMENTS, trajectory(ids(*everything), [everything]))
    assert whole.value == whole.metrics["success"] == 1.0


def test_a_guessed_id_earns_nothing_and_costs_precision() -> None:
    made = score(FACTS, trajectory(ids("a_0", "d_0"), [["a_0"]]))
    assert made.value == 0.0
    assert made.metrics["recall"] == 0.25
    assert made.metrics["precision"] == 0.5
    assert score(FACTS, trajectory(ids("a_0", "b_0", "c_1", "d_0"))).metrics["f1"] == 0.0


def test_only_a_final_answer_returns_anything() -> None:
    made = score(FACTS, trajectory(ids("d_0"), [["d_0"]], stop=StopReason.TURN_LIMIT))
    assert made.value == 0.0
    assert made.metrics["trajectory_recall"] == 0.25


def test_ids_after_the_thirtieth_are_not_read() -> None:
    noise = [f"n_{i}" for i in range(30)]
    shown = [[*noise, "d_0"]]
    assert score(FACTS, trajectory(ids(*noise, "d_0"), shown)).value == 0.0
    assert score(FACTS, trajectory(ids(*noise[:29], "d_0"), shown)).value == 1.0
    assert score(FACTS, trajectory(ids("n_0", "n_1", "d_0"), shown), answer_chunks=2).value == 0.0


def test_repeating_an_id_changes_nothing() -> None:
    once = score(FACTS, trajectory(ids("a_0", "x_0", "d_0"), [["a_0", "x_0", "d_0"]]))
    often = score(FACTS, trajectory(ids("a_0", "x_0", *["a_0"] * 100, "d_0"), [["a_0", "x_0", "d_0"]]))
    assert once == often


KNOWN = frozenset(
    {"a_0", "b_1", "a b_1", "a b_1 c_2", "Lilu (mythology)_0", 'L\'Oréal (x) "q"_1', "1. FC Köln_0", "(500) Days_3"}
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<Document id="a_0">\nIt says so.\n<Document id="b_1">', ["a_0", "b_1"]),
        ("<document id='a_0'/> <DOCUMENT ID = \"b_1\" >", ["a_0", "b_1"]),
        ('<Document id="a_0" score="0.9" title="x">', ["a_0"]),
        ("<Document id=Lilu (mythology)_0>", ["Lilu (mythology)_0"]),
        ("<Document id>Lilu (mythology)_0</Document><Justification>x</Justification>", ["Lilu (mythology)_0"]),
        ("<Document>\n  a_0: because\n</Document>", ["a_0"]),
        ('<Document id="L\'Oréal (x) "q"_1"> why "q"', ['L\'Oréal (x) "q"_1']),
        ("<Document id='L'Oréal (x) \"q\"_1'>", ['L\'Oréal (x) "q"_1']),
        ('Here they are:\n<Document id="b_1"> and a_0 is not returned', ["b_1"]),
        ('["b_1", "a_0"]', ["b_1", "a_0"]),
        ('[{"id": "a_0", "why": "x"}, {"no": 1}, 7, null]', ["a_0"]),
        ('```json\n["a_0",\n "b_1"]\n```', ["a_0", "b_1"]),
        ("1. a_0 because\n2) [b_1], since\n- `a b_1 c_2` yes\n* **Lilu (mythology)_0**", None),
        ("a b_1 c_2\na b_1 and more\na_0:x", ["a b_1 c_2", "a b_1"]),
        ("1. FC Köln_0\n2. (500) Days_3", ["1. FC Köln_0", "(500) Days_3"]),
        ("I looked at many.\nThey say nothing.\na_0\nIt tells.", ["a_0"]),
        ("unmet_7 then words", ["unmet_7"]),
        ("I could not find it.", []),
        ("", []),
        ("[]", []),
    ],
)
def test_forms_of_an_answer(text: str, expected: list[str] | None) -> None:
    if expected is None:
        expected = ["a_0", "b_1", "a b_1 c_2", "Lilu (mythology)_0"]
    assert list(parse_answer(text, 30, KNOWN)) == expected


@pytest.mark.parametrize(
    "text",
    [
        '<document id="' * 20_000,
        "<document>" + " " * 300_000,
        '<document id="' + '" ' * 100_000,
        "<document" + " id" * 100_000,
        "a_0 " * 60_000,
        "`" * 300_000,
        "```\n" * 60_000,
        "[" * 100_000,
        "_1" * 100_000,
    ],
    ids=lambda text: text[:16],
)
@pytest.mark.timeout(20)
def test_hostile_answers_are_read_in_linear_time(text: str) -> None:
    assert len(parse_answer(text, 30, KNOWN)) <= 30


def test_f_beta_by_hand() -> None:
    assert f_beta(0.5, 1.0, 1.0) == pytest.approx(2 / 3)
    assert f_beta(0.5, 1.0, 4.0) == pytest.approx(17 * 0.5 / (16 * 0.5 + 1))
    assert f_beta(1.0, 0.5, 2.0) == pytest.approx(5 * 0.5 / (4 + 0.5))
    assert f_beta(0.0, 0.0, 4.0) == 0.0


def test_a_truth_of_another_kind_is_named() -> None:
    with pytest.raises(DataError, match="truth 'odd'"):
        SearchTruth.of(Truth("odd", "prune-search", {"relevant": "a_0"}))
    with pytest.raises(DataError, match="relevant"):
        SearchTruth.of(Truth("odd", "prune-search", {}))


def test_four_rollouts_are_fused_by_reciprocal_rank() -> None:
    one = trajectory(ids("x_0", "a_0"), [["x_0", "a_0"]])
    two = trajectory(ids("a_0", "y_0"), [["a_0", "y_0"]])
    three = trajectory(ids("d_0"), [["d_0"]])
    lost = trajectory("", [["b_0"]], stop=StopReason.TURN_LIMIT)
    # a_0: 1/62 + 1/61; d_0 and x_0: 1/61 each (ties by id); y_0: 1/62.
    top = fuse_rollouts(FACTS, [one, two, three, lost], answer_chunks=2)
    assert top.value == 1.0
    assert top.metrics["precision"] == 1.0
    assert top.metrics["recall"] == 0.5
    assert top.metrics["trajectory_recall"] == 0.75  # met by any of the four
    whole = fuse_rollouts(FACTS, [one, two, three, lost])
    assert whole.metrics["precision"] == 0.5
    assert fuse_rollouts(FACTS, [one]).metrics["f1"] == score(FACTS, one).metrics["f1"]
    assert fuse_rollouts(FACTS, []).value == 0.0


CHUNK = st.sampled_from(["a_0", "b_0", "c_1", "d_0", "x_0", "y y_0", 'q"_1', "z"])


@given(
    text=st.text() | st.lists(CHUNK).map(lambda found: ids(*found)) | st.lists(CHUNK).map("\n".join),
    shown=st.lists(st.lists(CHUNK)),
    pruned=st.lists(CHUNK),
    truth=st.sampled_from([FACTS, DOCUMENTS]),
)
def test_any_trajectory_scores_in_range_and_twice_the_same(
    text: str, shown: list[list[str]], pruned: list[str], truth: Truth
) -> None:
    made = score(truth, trajectory(text, shown, pruned))
    assert made == score(truth, trajectory(text, shown, pruned))
    for name, value in {**made.metrics, "value": made.value}.items():
        if value is not None:
            assert math.isfinite(value)
            assert value >= 0
            assert value <= 1 or name in ("turns", "tokens", "calls_per_turn", "context_peak")


@given(text=st.text(), known=st.frozensets(st.text(max_size=12), max_size=5))
def test_any_text_is_read_as_an_answer(text: str, known: frozenset[str]) -> None:
    found = parse_answer(text, 3, known)
    assert len(found) == len(set(found)) <= 3
    assert all(found)


@given(relevant=st.lists(CHUNK), returned=st.lists(CHUNK), met=st.lists(CHUNK))
def test_order_of_what_was_met_plays_no_role(relevant: list[str], returned: list[str], met: list[str]) -> None:
    truth = SearchTruth(tuple(relevant))
    assert find(truth, returned, met) == find(truth, returned, reversed(met))
