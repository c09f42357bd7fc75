"""Task sets on disk that the tests of PruneSearch share."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.core.records import Truth
from agentgym.corpus.tasks import read_truths, write_taskset
from agentgym.envs.prune_search.env import PruneSearchEnv
from tests.envs.prune_search.world import plain_taskset, small_taskset, sources_taskset


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a task set with chunk-level truth."""
    folder = tmp_path_factory.mktemp("tasksets") / "small"
    write_taskset(small_taskset(), folder)
    return str(folder)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of the same tasks judged by document, for profiles of any counter."""
    folder = tmp_path_factory.mktemp("tasksets") / "plain"
    write_taskset(plain_taskset(), folder)
    return str(folder)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a task set over three named sources, judged by document."""
    folder = tmp_path_factory.mktemp("tasksets") / "sources"
    write_taskset(sources_taskset(), folder)
    return str(folder)


@pytest.fixture(scope="session")
def truths(small: str) -> dict[str, Truth]:
    """Truth of the small set by task id."""
    return read_truths(Path(small))


@pytest.fixture
def env(small: str) -> PruneSearchEnv:
    """The small set in a roomy profile."""
    return PruneSearchEnv(small, profile="32k")
