"""What every benchmark script does at its end: write its figures with how they were made."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from agentgym.rollouts.manifest import machine, versions

RESULTS = Path(__file__).parent / "results"


def real_data() -> Path | None:
    """Folder of real corpora: `AGENTGYM_TEST_DATA`, or `../shared/data` beside the checkout; None where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_TEST_DATA", default))
    return folder if (folder / "hotpotqa100.corpus.jsonl.gz").is_file() else None


def write_result(name: str, figures: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write `<folder>/<name>.json`: the figures, and versions, machine, date and command."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        **figures,
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.stdout.write(f"{path}\n")
    return path
