"""The benchmark script runs from end to end and writes what its readers expect. Its figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "speed" / "retrieval.py"


def test_quick_run(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    subprocess.run([sys.executable, str(SCRIPT), "--quick", "--out", str(out)], check=True, capture_output=True)
    result = json.loads(out.read_text())
    assert {"command", "date", "machine", "seed", "versions"} <= result.keys()
    assert [build["chunks"] for build in result["builds"]] == [500, 2000]
    assert result["hybrid_search"]["same_top10"] > 0.95  # the bare calls find the same
    assert result["bm25"]["largest_score_difference"] < 1e-5
    assert result["bm25"]["times_faster"] > 1
    assert (tmp_path / "speed.svg").read_text().startswith("<?xml")
