"""The speed script runs, and says all that its figures need to be believed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "speed" / "episode.py"


def test_quick(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    subprocess.run([sys.executable, str(SCRIPT), "--quick", "--out", str(out)], check=True, timeout=120)
    figures = json.loads(out.read_text())
    assert {"command", "date", "machine", "versions", "seed", "load", "targets"} <= figures.keys()
    assert figures["gem-llm"].startswith("not run")
    assert [(size["turns"], size["chars"]) for size in figures["sizes"]] == [(8, 200), (32, 2000), (128, 200)]
    for size in figures["sizes"]:
        assert min(size["steps_per_cpu_s"].values()) > 0
        assert "tools / text" in size["ratios"]
    assert [row["turns"] for row in figures["copies"]] == [8, 32, 128]
    assert out.with_suffix(".svg").read_text().lstrip().startswith("<?xml")
