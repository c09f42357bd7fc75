"""Shared fixtures. Nothing here reaches the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real corpora with judgements: `AGENTGYM_TEST_DATA`, or `../shared/data` beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_TEST_DATA", default))
    if not (folder / "hotpotqa100.corpus.jsonl.gz").is_file():
        pytest.skip(f"no real corpora in {folder}: set AGENTGYM_TEST_DATA to a folder that holds them")
    return folder
