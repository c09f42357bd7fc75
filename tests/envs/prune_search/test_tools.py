"""What the tools show, refuse and free, seen through the environment as an agent sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym.core.records import Task, ToolCall, Truth, Turn
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet, write_taskset
from agentgym.envs.prune_search.env import PruneSearchEnv
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.retrieval.index import Index
from tests.envs.prune_search.world import call, grep, last, live, parts, play, prune, read, search, turn


def shown(env: PruneSearchEnv) -> list[tuple[str, ...]]:
    """Chunks that each turn brought into view."""
    assert env.episode is not None
    return [step.shown for step in env.episode.trajectory(sealed=False).steps]


# -- search -----------------------------------------------------------------------------------------------------------


def test_search_never_shows_a_chunk_twice(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(search("bridge designed summer"))] * 8)
    seen = [chunk for chunks in shown(env) for chunk in chunks]
    assert len(seen) == len(set(seen))
    assert "nothing new found" in last(view)


def test_search_leaves_out_what_was_pruned_and_what_other_tools_showed(env: PruneSearchEnv) -> None:
    first = [turn(search("Ardle")), turn(grep("Ilse Marden was born")), turn(prune("b0_0", "p0_0"))]
    play(env, "s0", [*first, turn(search("Ardle bridge Ilse Marden born"))])
    before, after = {chunk for chunks in shown(env)[:2] for chunk in chunks}, set(shown(env)[-1])
    assert {"b0_0", "p0_0", "g0_0"} <= before
    assert not before & after


def test_at_most_ten_chunks_a_search(env: PruneSearchEnv) -> None:
    play(env, "s0", [turn(search("parish mills market orchards harbour"))])
    assert len(shown(env)[0]) == 10


def test_a_query_that_matches_nothing(env: PruneSearchEnv) -> None:
    for query in ("zzzz qqqq", "", "   ", "…", "\0"):
        view, _, _ = play(env, "s0", [turn(search(query))])
        assert view.messages[-1].text.startswith("nothing new found")
        assert view.messages[-1].error is None


def test_a_chunk_is_shown_with_its_id_title_and_text(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Ilse Marden was born in Ganmouth, the third"))])
    part = next(part for part in parts(view) if part.chunk == "p0_0")
    assert part.text.startswith("[p0_0] Ilse Marden\nIlse Marden was born in Ganmouth")


# -- grep -------------------------------------------------------------------------------------------------------------


def test_grep_shows_at_most_five_and_goes_on_where_it_stopped(env: PruneSearchEnv) -> None:
    play(env, "s0", [turn(grep("was born in"))] * 3)
    first, second, third = shown(env)
    assert len(first) == len(second) == 5
    assert len(third) == 2  # twelve chunks tell a birth
    assert len({*first, *second, *third}) == 12


def test_grep_brings_a_pruned_chunk_back(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Ardle")), turn(prune("b0_0")), turn(grep("Ardle"))])
    assert shown(env) == [("b0_0",), (), ("b0_0",)]
    assert live(view) == ["b0_0"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=ahead)", "RE2 refuses .*invalid perl operator"),
        (r"(a)\1", "RE2 refuses .*invalid escape sequence"),
        ("[", "RE2 refuses .*missing"),
        ("", "empty"),
        ("a" * 5_000, "at most 2,000"),
    ],
)
def test_grep_says_what_it_refuses(env: PruneSearchEnv, pattern: str, message: str) -> None:
    view, _, _ = play(env, "s0", [turn(grep(pattern))])
    assert view.messages[-1].error == "bad_pattern"
    assert re.search(message, last(view))


def test_grep_that_would_hang_another_engine(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("(a+)+$"))])
    assert view.messages[-1].error is None


# -- read -------------------------------------------------------------------------------------------------------------


def test_read_shows_the_chunks_nearest_to_the_question_first(env: PruneSearchEnv) -> None:
    play(env, "s0", [turn(read("t0"))])
    assert shown(env) == [("t0_1", "t0_0")]  # the second one speaks of a river


@pytest.mark.parametrize("name", ["t0_1", "t0_0", "t0_99"])
def test_a_chunks_id_stands_for_its_document(env: PruneSearchEnv, name: str) -> None:
    play(env, "s0", [turn(read(name))])
    assert shown(env) == [("t0_1", "t0_0")]


def test_read_leaves_out_what_is_in_view(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("lies on the river Nessel")), turn(read("t0")), turn(read("t0"))])
    assert shown(env) == [("t0_1",), ("t0_0",), ()]
    assert "all of this document is in your view" in last(view)


def test_unknown_documents_are_named_with_near_misses(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(read("t00"))])
    assert view.messages[-1].error == "unknown_document"
    assert "unknown document 't00'; did you mean t0" in last(view)
    view, _, _ = play(env, "s0", [turn(read("Ganmouth"))])
    assert "use ids as search shows them" in last(view)


def test_read_is_cut_to_what_is_left(tmp_path: Path) -> None:
    text = " ".join(f"Sentence {i} tells of the river." for i in range(400))
    index = Index.build([Document("long", text)], tmp_path / "idx", retrieval="lexical", chunk_tokens=64, slack=16)
    truth = Truth("q", "prune-search", {"level": "document", "relevant": ["long"]})
    write_taskset(TaskSet("own", (), (Task("q", "prune-search", "Which river?"),), (truth,)), tmp_path / "tasks")
    profile = SearchProfile(
        name="x", budget_tokens=940, soft_tokens=None, hard_tokens=None, call_tokens=None, reserve_tokens=100
    )
    env = PruneSearchEnv(str(tmp_path / "tasks"), index=str(index.folder), profile=profile)
    view, _, info = play(env, "q", [turn(read("long"))])
    assert 3 < len(shown(env)[0]) < len(index)
    assert 840 - 10 < info["usage"]["context"] <= 840 + 11  # results fill all but the reserve; then the usage line
    assert sum(part.text.endswith("[cut]") for part in parts(view)) == 1
    assert parts(view)[-2].chunk is not None  # what was cut keeps its id: it was met, and can be pruned


# -- prune ------------------------------------------------------------------------------------------------------------


def test_prune_frees_the_chunk_and_leaves_a_tombstone(env: PruneSearchEnv) -> None:
    before, _, info = play(env, "s0", [turn(search("Ardle bridge"))])
    used, sizes = info["usage"]["context"], {part.chunk: part.tokens for part in parts(before) if part.chunk}
    after, _, _, _, info = env.step(turn(prune("b1_0", "b2_0")))
    freed = sizes["b1_0"] + sizes["b2_0"]
    assert f"pruned 2 chunks, {freed:,} tokens" in after.messages[-1].parts[0].text
    tombstones = [part for part in parts(after) if part.text in ("[b1_0 pruned]", "[b2_0 pruned]")]
    assert len(tombstones) == 2
    added = sum(part.tokens for part in after.messages[-1].parts) + after.messages[-2].tool_calls[0].tokens
    assert info["usage"]["context"] == after.tokens == used - freed + sum(p.tokens for p in tombstones) + added
    assert live(after) == [chunk for chunk in live(before) if chunk not in ("b1_0", "b2_0")]
    assert after.kept == 3  # system, question, the call: the pruned result is the first that changed


def test_prune_of_unknown_ids_says_what_is_in_view(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Ardle")), turn(prune("nope_0", "b1_0"))])
    assert view.messages[-1].error == "unknown_chunk"
    assert "none of these chunks is in view: nope_0, b1_0; in view: b0_0" in last(view)
    view, _, _ = play(env, "s0", [turn(prune())])
    assert "none named; in view: no chunk" in last(view)


def test_prune_takes_the_known_of_a_mixed_list(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Ardle")), turn(prune("nope_0", "b0_0", "b0_0"))])
    assert "pruned 1 chunk," in last(view)
    assert "not in view: nope_0" in last(view)
    assert live(view) == []


def test_two_prunes_of_one_chunk_in_a_turn_count_once(env: PruneSearchEnv) -> None:
    play(env, "s0", [turn(grep("Ardle")), turn(prune("b0_0"), prune("b0_0"))])
    assert env.episode is not None
    assert env.episode.trajectory(sealed=False).steps[-1].pruned == ("b0_0",)


def test_a_prune_cannot_take_what_its_own_turn_brings(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Ardle"), prune("b0_0"))])
    assert view.messages[-1].error == "unknown_chunk"
    assert live(view) == ["b0_0"]


# -- calls of one turn ------------------------------------------------------------------------------------------------


def test_parallel_calls_see_the_same_state_and_show_nothing_twice(env: PruneSearchEnv) -> None:
    view, _, info = play(env, "s0", [turn(search("Ardle bridge"), search("Ardle bridge"), grep("Ardle"))])
    chunks = shown(env)[0]
    assert len(chunks) == len(set(chunks))
    assert "nothing new: an earlier call of this turn shows the same" in view.messages[-2].text
    assert info["usage"] | {"tokens_in": 0, "tokens_out": 0, "context": 0} == {
        "tokens_in": 0,
        "tokens_out": 0,
        "context": 0,
        "calls": 3,
        "turns": 1,
    }


def test_results_come_in_call_order(env: PruneSearchEnv) -> None:
    view, _, _ = play(env, "s0", [turn(grep("Brenk"), call("fly"), grep("Ardle"))])
    assert [message.call_id for message in view.messages[-3:]] == ["c0", "c1", "c2"]
    assert [message.error for message in view.messages[-3:]] == [None, "unknown_tool", None]


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("search_corpus", "{}", "bad_arguments"),
        ("search_corpus", '{"query": 7}', "bad_arguments"),
        ("search_corpus", '{"query": "a", "top_k": 3}', "bad_arguments"),
        ("search_corpus", '{"query": "a", "sources": ["web"]}', "bad_arguments"),
        ("search_corpus", "not json", "bad_json"),
        ("search_corpus", "[" * 100_000, "bad_arguments"),
        ("search_corpus", '{"query": ' + "[" * 100_000, "bad_arguments"),
        ("search_corpus", '{"query": "\\ud800"}', "bad_json"),
        ("prune_chunks", '{"chunk_ids": "b0_0"}', "bad_arguments"),
        ("prune_chunks", '{"chunk_ids": [null]}', "bad_arguments"),
        ("Search_Corpus", '{"query": "a"}', "unknown_tool"),
    ],
)
def test_broken_calls_are_error_results(env: PruneSearchEnv, name: str, arguments: str, kind: str) -> None:
    view, _, info = play(env, "s0", [Turn(tool_calls=(ToolCall("c0", name, arguments),))])
    assert view.messages[-1].error == kind
    assert info["usage"]["calls"] == 1


def test_a_prune_of_a_thousand_ids_does_not_flood_the_window(env: PruneSearchEnv) -> None:
    view, _, info = play(env, "s0", [turn(grep("Ardle")), turn(prune(*[f"no_{i}" for i in range(1_000)]))])
    assert view.messages[-1].error == "unknown_chunk"
    assert len(last(view)) < 1_000
    assert info["usage"]["context"] < 32_768


# -- budget -----------------------------------------------------------------------------------------------------------


def test_past_the_hard_line_only_prune_works(small: str) -> None:
    profile = SearchProfile(
        name="tight", budget_tokens=2_000, soft_tokens=600, hard_tokens=700, call_tokens=900, reserve_tokens=100
    )
    env = PruneSearchEnv(small, profile=profile)
    view, _, info = play(env, "s0", [turn(search("parish mills market orchards harbour"))])
    assert info["usage"]["context"] > 700
    assert "prune what you do not need" in last(view)
    view, _, _, _, _ = env.step(turn(search("Ardle"), grep("Ardle"), read("b0")))
    assert [message.error for message in view.messages[-3:]] == ["over_budget"] * 3
    assert "only prune_chunks is possible now; prune, or conclude" in last(view)
    view, _, _, _, info = env.step(turn(prune(*live(view))))
    assert view.messages[-1].error is None
    assert info["usage"]["context"] < 700
    view, _, _, _, _ = env.step(turn(grep("Ardle")))
    assert live(view) == ["b0_0"]


def test_without_prune_the_tool_is_neither_offered_nor_run(small: str) -> None:
    env = PruneSearchEnv(small, profile="200k-no-prune")
    assert [spec.name for spec in env.specs] == ["search_corpus", "grep_corpus", "read_document"]
    view, _, _ = play(env, "s0", [turn(grep("Ardle")), turn(prune("b0_0"))])
    assert view.messages[-1].error == "unknown_tool"
    assert live(view) == ["b0_0"]
    assert "prune" not in view.messages[0].text


# -- named sources ----------------------------------------------------------------------------------------------------


def test_sources_narrow_a_search_and_are_checked(sources: str) -> None:
    env = PruneSearchEnv(sources, profile="multi-source")
    spec = next(spec for spec in env.specs if spec.name == "search_corpus")
    assert list(spec.parameters["properties"]) == ["query", "sources"]
    assert spec.parameters["required"] == ["query"]
    view, _, _ = play(env, "m0", [turn(search("comet Halvard", sources=["news"]))])
    assert live(view) == ["news0_0"]
    view, _, _ = play(env, "m0", [turn(search("comet Halvard", sources=["news", "mail"]))])
    assert set(live(view)) == {"news0_0", "mail0_0"}
    view, _, _ = play(env, "m0", [turn(search("comet Halvard"))])
    assert {"web0_0", "news0_0", "mail0_0"} <= set(live(view))
    for wrong in (["wiki"], []):
        view, _, _ = play(env, "m0", [turn(search("comet", sources=wrong))])
        assert view.messages[-1].error == "unknown_source"
    view, _, _ = play(env, "m0", [turn(search("comet", sources=["wiki"]))])
    assert "unknown source 'wiki'; known sources: mail, news, web" in last(view)


def test_dedupe_grep_read_and_prune_span_the_sources(sources: str) -> None:
    env = PruneSearchEnv(sources, profile="multi-source")
    first = turn(search("comet", sources=["web"]))
    view, _, _ = play(env, "m0", [first, turn(search("comet")), turn(grep("tides")), turn(read("mail1"))])
    steps = shown(env)
    assert set(steps[0]) == {"web0_0", "web1_0"}
    assert set(steps[1]) == {"news0_0", "mail0_0"}  # web's are seen
    assert set(steps[2]) == {"web2_0", "mail2_0"}
    assert steps[3] == ("mail1_0",)
    view, _, _, _, _ = env.step(turn(prune("web0_0", "news0_0", "mail0_0")))
    assert set(live(view)) == {"web1_0", "web2_0", "mail2_0", "mail1_0"}


def test_other_profiles_search_all_sources_without_the_argument(sources: str) -> None:
    env = PruneSearchEnv(sources, profile="8k")
    view, _, _ = play(env, "m0", [turn(search("comet Halvard"))])
    assert {"web0_0", "news0_0", "mail0_0"} <= set(live(view))
