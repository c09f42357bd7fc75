"""Shared fixtures. Nothing here reaches the network or the user's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where task sets and indexes are built during the tests, worker processes included."""
    folder = tmp_path_factory.mktemp("agentgym-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real corpora with judgements: `AGENTGYM_TEST_DATA`, or `../shared/data` beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_TEST_DATA", default))
    if not (folder / "hotpotqa100.corpus.jsonl.gz").is_file():
        pytest.skip(f"no real corpora in {folder}: set AGENTGYM_TEST_DATA to a folder that holds them")
    return folder
