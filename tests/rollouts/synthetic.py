"""Runs made by hand from core records: what a store, statistics and a report must cope with, without an environment."""

from __future__ import annotations

from pathlib import Path

from agentgym.core.records import (
    CallResult,
    Effect,
    Message,
    Part,
    Score,
    Status,
    Step,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Usage,
)
from agentgym.rollouts.store import EpisodeRow, Planned, RunManifest, RunStore


def chunk_text(name: str) -> str:
    """A chunk text long enough to be stored by reference, markup and all."""
    return (
        f"{name}: <b>Zürich & co.</b> \u2028 “quoted” " + "The lighthouse of Vell was lit by an engineer from Orm. " * 4
    )


def call(name: str, number: int, arguments: str) -> ToolCall:
    return ToolCall(f"call_{number}", name, arguments)


def usage_line(used: int) -> Part:
    return Part(f"[Token usage: {used:,}/24,000]", None, 12)


def search_step(turn: int, shown: tuple[str, ...], used: int, *, query: str = "who lit the lighthouse") -> Step:
    action = Turn(
        "I look further.", "", (call("search_corpus", turn, f'{{"query": "{query}"}}'),), usage=Usage(900, 30)
    )
    parts = tuple(Part(chunk_text(c), c, 60) for c in shown)
    result = Message("tool", (*parts, usage_line(used)), call_id=f"call_{turn}")
    effect = Effect("ranking", "ab" * 32, [[c, 1.0 / (i + 1)] for i, c in enumerate(shown)])
    outcome = CallResult("search_corpus", None, 60 * len(shown))
    return Step(action, (outcome,), shown, (), (result,), (effect,), used, f"{turn:064x}")


def prune_step(turn: int, pruned: tuple[str, ...], used: int) -> Step:
    ids = ", ".join(f'"{c}"' for c in pruned)
    action = Turn("", "", (call("prune_chunks", turn, f'{{"chunk_ids": [{ids}]}}'),))
    said = Part(f"Pruned {len(pruned)} chunks.", None, 5)
    message = Message("tool", (said, usage_line(used)), call_id=f"call_{turn}")
    return Step(action, (CallResult("prune_chunks", None, 5),), (), pruned, (message,), (), used, f"{turn:064x}")


def error_step(turn: int, used: int, text: str = "unknown tool <script>alert(1)</script>") -> Step:
    action = Turn("<img src=x onerror=alert(1)>", "", (call("fly", turn, "{not json"),), malformed="no JSON")
    messages = (
        Message("tool", (Part(text, None, 9),), call_id=f"call_{turn}", error="unknown_tool"),
        Message("user", (Part("error: no JSON", None, 4), usage_line(used)), error="malformed"),
    )
    results = (CallResult("fly", "unknown_tool", 9), CallResult("", "malformed"))
    return Step(action, results, (), (), messages, (), used, f"{turn:064x}")


def answer_step(turn: int, answer: str, used: int) -> Step:
    return Step(Turn(answer), used=used, leaf=f"{turn:064x}")


def trajectory(task: str = "t0", seed: int = 0, *, ext: dict[str, object] | None = None) -> Trajectory:
    """Five turns: search, search, prune, a broken call, the answer. Chunk ids carry the task's name."""
    steps = (
        search_step(1, (f"{task}_0", f"{task}_1", f"{task}_2"), 9_000),
        search_step(2, (f"{task}_3",), 13_500, query="engineer from Orm"),
        prune_step(3, (f"{task}_1", f"{task}_2"), 7_200),
        error_step(4, 7_300),
        answer_step(5, f"{task}_0\nholds the answer", 7_400),
    )
    opening = (
        Message("system", (Part("You search and edit your own context.", None, 9),)),
        Message("user", (Part(f"Task {task}: who lit the lighthouse? <script>alert(2)</script>", None, 14),)),
    )
    return Trajectory(
        "PruneSearch-v0",
        "f" * 64,
        task,
        "e" * 64,
        seed,
        opening,
        steps,
        StopReason.ANSWER,
        Usage(4_500, 150, 3_000, 4, 5),
        "0" * 64,
        None,
        {"beta": 4.0},
        ext or {},
    )


def row(task: str = "t0", trial: int = 0, seed: int = 0, *, value: float | None = 1.0, hops: int = 1) -> EpisodeRow:
    metrics = {"final_answer_found": value, "trajectory_recall": 0.75, "f1": 0.5}
    return EpisodeRow(
        task,
        trial,
        seed,
        Status.COMPLETED,
        StopReason.ANSWER,
        Score(value, metrics),
        0.9,
        {"f_beta": 0.7, "trajectory": 0.225, "clamp": -0.025},
        Usage(4_500, 150, 3_000, 4, 5),
        13_500,
        0.25,
        5,
        cluster=f"c{hops}",
        tags={"hops": hops, "domain": "web"},
        cost_usd=0.002,
    )


def manifest(tasks: int = 4, trials: int = 1, agent: str = "greedy-prune", **fields: object) -> RunManifest:
    plan = tuple(Planned(f"t{i}", trial, 100 * trial + i) for i in range(tasks) for trial in range(trials))
    values: dict[str, object] = {
        "env": "PruneSearch-v0",
        "agent": agent,
        "profile": "24k-eval",
        "episodes": plan,
        "suite": "prune-search-0",
        "split": "dev",
        "taskset": "a" * 64,
        "trials": trials,
        "fingerprint": "f" * 64,
        "counter": "o200k",
        "versions": {"agentgym": "0.1.0", "python": "3.11.7"},
        "machine": {"cpu": "a CPU", "cores": "2", "os": "Linux"},
        "date": "2026-01-02T03:04:05+00:00",
        "command": "agentgym eval prune-search-0/dev --agent greedy-prune",
    }
    return RunManifest(**{**values, **fields})  # type: ignore[arg-type]


def fill(store: RunStore, count: int | None = None) -> None:
    """Add the first `count` planned episodes (all by default)."""
    for episode in store.manifest.episodes[:count]:
        hops = 1 + int(episode.task[1:]) % 3
        value = float((int(episode.task[1:]) + episode.trial) % 2)
        made = row(episode.task, episode.trial, episode.seed, value=value, hops=hops)
        store.add(made, trajectory(episode.task, episode.seed))


def run(path: Path, tasks: int = 4, trials: int = 1, agent: str = "greedy-prune") -> RunStore:
    """A finished run, open for reading."""
    with RunStore.create(path, manifest(tasks, trials, agent)) as store:
        fill(store)
    return RunStore.open(path)
