"""`import agentgym` is cheap: it registers environments and names, and loads nothing that a caller may never use."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"torch", "transformers", "sentence_transformers", "ray", "pandas", "numba", "bm25s", "faiss", "matplotlib"}
PROBE = "import agentgym, json, sys, time; print(json.dumps([time.process_time(), sorted(sys.modules)]))"


def test_import_is_fast_and_light() -> None:
    """CPU seconds of the whole process, interpreter start included; the least of three, as others share the machine."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert HEAVY.isdisjoint(runs[0][1])
    assert min(cpu_s for cpu_s, _ in runs) < 0.5
