"""1,000 recorded episodes replay to equal hashes, on both supported releases of Gymnasium.

Episodes of scripted agents, random and malformed ones among them, over `sample`; each is recorded, then played again in a
fresh process under each release (`--next` names the folder of the newer one). Writes results/replays.json.

    python benchmarks/replays.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import RESULTS, write_result

import agentgym as ag

AGENTS = ("random", "malformed", "single-search", "greedy", "greedy-prune", "everything", "informed", "oracle")
EPISODES = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--next", type=Path, default=Path(".venv/gymnasium-next"))
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--out", type=Path, default=Path(".evidence/replays"))
    parser.add_argument("--limit", type=int, help="only the first so many tasks")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    tasks = options.limit or 24
    trials = -(-options.episodes // (tasks * len(AGENTS)))
    for agent in AGENTS:
        ag.evaluate(
            "sample",
            agent,
            trials=trials,
            limit=options.limit,
            out=options.out / agent,
            processes=os.cpu_count() or 1,
            profile="24k-eval",
        )
        sys.stderr.write(f"recorded {agent}\n")
    figures: dict[str, Any] = {"agents": list(AGENTS), "trials": trials}
    for label, extra in (("pinned", None), ("next", options.next)):
        if extra is not None and not extra.is_dir():
            figures[label] = f"not run: no {extra}"
            continue
        figures[label] = replay(options.out, extra)
    write_result("replays", figures, options.results)


def replay(folder: Path, extra: Path | None) -> dict[str, Any]:
    """Replay all in a fresh process; `extra` goes first on its path."""
    path = os.pathsep.join(str(item) for item in (extra, os.environ.get("PYTHONPATH")) if item)
    environment = {**os.environ, "PYTHONPATH": path}
    code = "import gymnasium, sys; sys.stdout.write(gymnasium.__version__)"
    version = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    command = [sys.executable, "-c", "from agentgym.cli import main; main()", "replay", str(folder), "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout)
    return {"gymnasium": version.stdout, "episodes": found["episodes"], "differences": len(found["problems"])}


if __name__ == "__main__":
    main()
