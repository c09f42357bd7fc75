"""The README's Python runs as it stands, in an empty folder with a small corpus of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.S | re.M)


def test_readme_has_python() -> None:
    assert len(BLOCKS) >= 5


def test_the_example_environment_is_the_one_that_is_tested() -> None:
    assert (ROOT / "tests" / "lookup_env.py").read_text("utf-8") in BLOCKS


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs_as_written(number: int, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in {
        "bridge": "The old bridge was designed by Ada Hill.",
        "hill": "Ada Hill was born in Port Lull.",
    }.items():
        (tmp_path / "docs" / f"{name}.txt").write_text(text)
    (tmp_path / "q.jsonl").write_text(
        json.dumps({"_id": "q1", "text": "Where was the designer of the bridge born?"}) + "\n"
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tbridge.txt\t1\nq1\thill.txt\t1\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AGENTGYM_CACHE": str(cache), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS[number]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() or "print(" not in BLOCKS[number]
