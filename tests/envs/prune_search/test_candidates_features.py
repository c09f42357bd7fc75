"""Features say what their documentation says, in a small world where one can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.core.records import Turn
from agentgym.envs.prune_search import features as f
from agentgym.envs.prune_search.builder import CandidateBuilder
from agentgym.envs.prune_search.candidates import PruneSearchCandidatesEnv
from agentgym.envs.prune_search.notes import library
from tests.envs.prune_search.candidate_play import lingering, made, play
from tests.envs.prune_search.world import prune, read, search
from tests.envs.prune_search.world import turn as turn_of

QUESTION = "Which river flows past the birthplace of the designer of the Ardle bridge?"


def place_of(env: PruneSearchCandidatesEnv, turn: Turn) -> int:
    """Which candidate makes this turn's first call; raises where none does."""
    assert env.candidates is not None
    wanted = turn.tool_calls[0]
    for place, made_turn in enumerate(env.candidates.turns):
        for call in made_turn.tool_calls:
            if call.name == wanted.name and call.arguments.replace(" ", "") == wanted.arguments.replace(" ", ""):
                return place
    raise LookupError(wanted.arguments)


def row(env: PruneSearchCandidatesEnv, turn: Turn) -> dict[str, float]:
    """Features of the candidate that makes this turn."""
    assert env.candidates is not None
    return dict(zip(f.FEATURES, env.candidates.features[place_of(env, turn)].tolist(), strict=True))


def overview(observation: dict[str, Any]) -> dict[str, float]:
    return dict(zip(f.GLOBAL_FEATURES, observation["global"].tolist(), strict=True))


def act(env: PruneSearchCandidatesEnv, turn: Turn) -> dict[str, Any]:
    return env.step(place_of(env, turn))[0]


@pytest.fixture
def env(small: str) -> PruneSearchCandidatesEnv:
    env = made(small, "8k")
    env.reset(seed=0)
    return env


def test_a_query_before_and_after_it_was_made(env: PruneSearchCandidatesEnv) -> None:
    whole = turn_of(search(QUESTION))
    before = row(env, whole)
    assert (before["whole"], before["from_question"], before["from_lead"]) == (1.0, 1.0, 0.0)
    assert (before["overlap"], before["open"], before["novelty"]) == (1.0, 1.0, 1.0)
    assert (before["used"], before["brought"]) == (0.0, 0.0)
    act(env, whole)
    after = row(env, whole)
    assert (after["used"], after["brought"], after["novelty"]) == (0.25, 1.0, 0.0)
    assert after["open"] < 1.0


def test_a_lead_and_its_page(env: PruneSearchCandidatesEnv) -> None:
    act(env, turn_of(search(QUESTION)))
    lead = row(env, turn_of(search("Ilse Marden")))
    assert (lead["from_lead"], lead["with_clue"], lead["whole"], lead["from_question"]) == (1.0, 0.0, 0.0, 0.0)
    assert (lead["novelty"], lead["live"], lead["age"]) == (1.0, 1.0, 0.0)
    assert lead["promise"] > row(env, turn_of(search("Otto Quill")))["promise"]
    act(env, turn_of(search("Ilse Marden")))
    assert row(env, turn_of(search("Ilse Marden")))["novelty"] == 0.0
    assert row(env, turn_of(prune("p0_0")))["followed"] == 1.0
    assert row(env, turn_of(prune("g0_0")))["followed"] == 0.0
    assert row(env, turn_of(prune("p0_0")))["mentions"] > row(env, turn_of(prune("g0_0")))["mentions"]


def test_a_chunk_in_view(env: PruneSearchCandidatesEnv) -> None:
    assert env.text.episode is not None
    act(env, turn_of(search(QUESTION)))
    shown, context = env.text.episode.last_step.shown, env.text.episode.context
    for place, chunk in enumerate(shown):
        found = row(env, turn_of(prune(chunk)))
        assert found["place"] == pytest.approx(1 / (1 + place), abs=1e-6)
        assert found["tokens"] == pytest.approx(context.live[chunk] / 8_192, abs=1e-6)
        assert (found["novelty"], found["age"], found["live"]) == (1.0, 0.0, 1.0)
    bridge = row(env, turn_of(prune("b0_0")))
    assert (bridge["rank"], bridge["standing"]) == (1.0, 1.0)
    assert bridge["open"] < bridge["overlap"]
    assert row(env, turn_of(prune("t0_1")))["open"] < bridge["overlap"]
    act(env, turn_of(prune(shown[-1])))
    assert row(env, turn_of(prune("b0_0")))["age"] == 1 / 16
    assert row(env, turn_of(prune("b0_0")))["novelty"] == 0.0
    with pytest.raises(LookupError):
        row(env, turn_of(prune(shown[-1])))


def test_a_document_whose_chunk_was_pruned_can_be_read(env: PruneSearchCandidatesEnv) -> None:
    assert env.text.episode is not None
    act(env, turn_of(search(QUESTION)))
    act(env, turn_of(prune("b0_0")))
    found = row(env, turn_of(read("b0")))
    assert found["read"] == 1.0
    assert found["count"] == pytest.approx(1 / 30, abs=1e-6)
    act(env, turn_of(read("b0")))
    assert env.text.episode.last_step.shown == ("b0_0",)


def test_several_chunks(env: PruneSearchCandidatesEnv) -> None:
    assert env.candidates is not None
    act(env, turn_of(search(QUESTION)))
    assert env.text.episode is not None
    live = env.text.episode.context.live
    finishes = env.candidates.features[env.candidates.features[:, f.FINISH] > 0]
    assert finishes[:, f.COUNT] == pytest.approx([5 / 30, 10 / 30], abs=1e-6)
    assert finishes[1, f.TOKENS] == pytest.approx(sum(live.values()) / 8_192, abs=1e-6)
    assert finishes[0, f.STANDING] > finishes[1, f.STANDING]
    assert finishes[1, f.OPEN] == finishes[1, f.OVERLAP]
    sweep = env.candidates.features[env.candidates.features[:, f.SWEEP] > 0][0]
    assert sweep[f.COUNT] == pytest.approx(5 / 30, abs=1e-6)
    assert sweep[f.TOKENS] + finishes[0, f.TOKENS] == pytest.approx(finishes[1, f.TOKENS], abs=1e-5)


def test_the_episode(env: PruneSearchCandidatesEnv) -> None:
    assert env.text.episode is not None
    context = env.text.episode.context
    first = overview(env.reset(seed=0)[0])
    assert (first["turns"], first["live"], first["met"], first["fresh"], first["leads"]) == (0.0, 0.0, 0.0, 0.0, 0.0)
    found = overview(act(env, turn_of(search(QUESTION))))
    context = env.text.episode.context
    assert found["used"] == pytest.approx(context.used / 8_192, abs=1e-6)
    assert found["free"] == pytest.approx(env.text.episode.free_tokens / 8_192, abs=1e-6)
    assert (found["turns"], found["live"], found["met"]) == (1 / 64, 10 / 64, 10 / 64)
    assert (found["fresh"], found["fresh_standing"], found["searches"], found["pruned"]) == (1.0, 1.0, 1 / 16, 0.0)
    assert found["covered"] == found["met_covered"] > 0.3
    pruned = overview(act(env, turn_of(prune("b0_0"))))
    assert pruned["prune_run"] == 0.25
    assert pruned["pruned"] == pytest.approx(0.1)
    while env.text.episode.context.live:
        pruned = overview(act(env, turn_of(prune(next(iter(env.text.episode.context.live))))))
    assert (pruned["covered"], pruned["live"], pruned["pruned"], pruned["prune_run"]) == (0.0, 0.0, 1.0, 1.0)
    assert pruned["met_covered"] == found["met_covered"]
    lost = overview(env.step(-1)[0])
    assert (lost["failed"], lost["prune_run"], lost["turns"]) == (1.0, 1.0, 12 / 64)


def test_used_tokens_and_chunks_in_view_are_the_harnesses_own(plain: str) -> None:
    env = made(plain, "2k")
    rng = np.random.default_rng(0)

    def checked(env: PruneSearchCandidatesEnv, observation: dict[str, Any]) -> int:
        assert env.text.episode is not None
        context, told = env.text.episode.context, overview(observation)
        assert told["used"] == pytest.approx(context.used / 2_048, abs=1e-6)
        assert told["live"] == pytest.approx(min(1.0, len(context.live) / 64), abs=1e-6)
        assert told["met"] == pytest.approx(min(1.0, len(context.seen) / 64), abs=1e-6)
        return lingering(rng)(env, observation)

    for seed in range(4):
        play(env, checked, seed)


def test_texts_without_a_word_are_read(env: PruneSearchCandidatesEnv) -> None:
    shared = library(env.text.index)
    for text in ("[x_0]\n", "[x_0] \n!!! 7", "", "[x_0]\n\n\n[cut]"):
        reading = shared.reading(QUESTION, "x_0", text)
        assert (reading.mask, reading.standing, len(reading.names)) == (0, 0.0, 0)


def test_questions_without_a_word_have_candidates(env: PruneSearchCandidatesEnv) -> None:
    for prompt in ("", "?", "the of", "1 2", "é" * 5_000):
        episode = env.text.open("s0")
        candidates = CandidateBuilder(library(env.text.index), env.text.search_profile, prompt).update(episode.view)
        assert candidates.mask.any()
        assert np.isfinite(candidates.features).all()
