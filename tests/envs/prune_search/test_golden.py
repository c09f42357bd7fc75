"""What fifty recorded episodes showed and scored, they show and score today."""

from __future__ import annotations

import pytest

from tests.envs.prune_search import golden

ADVICE = "if this was meant, raise the environment's version and run: python -m tests.envs.prune_search.golden --write"


@pytest.fixture(scope="module")
def kept() -> golden.File:
    return golden.read()


def test_fingerprints(kept: golden.File) -> None:
    made = {profile: env.fingerprint() for profile, env in golden.environments().items()}
    assert made == kept.fingerprints, ADVICE


def test_episodes(kept: golden.File) -> None:
    envs = golden.environments()
    assert len(kept.episodes) == golden.COUNT
    for number, episode in enumerate(kept.episodes):
        made = golden.lived(envs[episode.profile], episode.task, episode.turns)
        assert made == episode, f"episode {number}: {ADVICE}"


def test_the_file_holds_episodes_of_every_kind(kept: golden.File) -> None:
    values = [episode.score["value"] for episode in kept.episodes]
    assert 0.0 in values
    assert 1.0 in values
    assert len({episode.task for episode in kept.episodes}) >= 10
    called = {call.name for episode in kept.episodes for turn in episode.turns for call in turn.tool_calls}
    assert {"search_corpus", "grep_corpus", "read_document", "prune_chunks"} <= called
