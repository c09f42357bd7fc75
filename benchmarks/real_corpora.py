"""Real corpora: hybrid recall@10 on HotpotQA and Cranfield, and what pruning agents find there.

Needs the folder of real data (AGENTGYM_TEST_DATA, or ../shared/data). Writes results/real_corpora.json.

    python benchmarks/real_corpora.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from _common import real_data, write_result

import agentgym as ag
from agentgym.corpus.tasks import TaskSet
from agentgym.envs.prune_search.score import document_of
from agentgym.evaluation.summary import difference

WORK = Path(".evidence/real")
SETS = {"hotpotqa": "hotpotqa100", "cranfield": "cranfield225"}


def main() -> None:
    folder = real_data()
    if folder is None:
        sys.stdout.write("not run: no real corpora; set AGENTGYM_TEST_DATA to the folder that holds them\n")
        return
    figures: dict[str, Any] = {"recall_at_10": {}}
    for name, stem in SETS.items():
        documents = list(ag.read_corpus(folder / f"{stem}.corpus.jsonl.gz"))
        tasks = ag.read_tasks(folder / f"{stem}.queries.json")
        hybrid = ag.Index.build(documents, WORK / f"{name}-hybrid", retrieval="hybrid", progress=tell)
        lexical = ag.Index.build(documents, WORK / f"{name}-lexical", retrieval="lexical")
        figures["recall_at_10"][name] = {
            "documents": len(documents),
            "queries": len(tasks.tasks),
            "lexical": recall_at_10(lexical, tasks),
            "hybrid": recall_at_10(hybrid, tasks),
        }
    documents = folder / "hotpotqa100.queries.json"
    runs = {
        agent: ag.evaluate(
            ag.read_tasks(documents),
            agent,
            env="PruneSearch-v0",
            index=str(WORK / "hotpotqa-hybrid"),
            profile="24k-eval",
            out=WORK / "runs" / agent,
        )
        for agent in ("single-search", "greedy-prune")
    }
    figures["hotpotqa_agents"] = {
        agent: {key: msgspec.to_builtins(run.metrics()[key]) for key in ("trajectory_recall", "success", "f1", "turns")}
        for agent, run in runs.items()
    }
    figures["hotpotqa_paired_trajectory_recall"] = msgspec.to_builtins(
        difference(runs["greedy-prune"].store, runs["single-search"].store, "trajectory_recall")
    )
    write_result("real_corpora", figures)


def recall_at_10(index: ag.Index, tasks: TaskSet) -> float:
    """Mean share of a query's relevant documents among the first ten documents found."""
    truths = {truth.id: set(truth.payload["relevant"]) for truth in tasks.truths}
    total = 0.0
    for task in tasks.tasks:
        ids = [index.chunk(row).id for row in index.search(task.prompt, 50)]
        found = list(dict.fromkeys(map(document_of, ids)))[:10]
        total += len(truths[task.id].intersection(found)) / len(truths[task.id])
    return round(total / len(tasks.tasks), 4)


def tell(stage: str, done: int, total: int) -> None:
    sys.stderr.write(f"\r{stage}: {done}/{total}   ")


if __name__ == "__main__":
    main()
