"""`agentgym eval`: play agents over a task set and score them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from agentgym.agents.base import Agent
from agentgym.cli import console
from agentgym.core.errors import ConfigError
from agentgym.corpus.tasks import TaskSet
from agentgym.evaluation.run import Run
from agentgym.evaluation.run import evaluate as run_evaluation
from agentgym.evaluation.statistics import Estimate

SHOWN = (
    "success",
    "final_answer_found",
    "f1",
    "trajectory_recall",
    "prune_accuracy",
    "turns",
    "calls_per_turn",
    "tokens",
)
PAIRED = ("success", "f1", "trajectory_recall")


def evaluate(
    tasks: Annotated[
        str,
        typer.Argument(
            help="A suite (sample, prune-search-0, prune-search-0/dev), a task-set folder, or a "
            "family (prune-search) with --corpus and --queries."
        ),
    ],
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            "-a",
            help="Agent; give several to compare them. `agentgym envs` lists them; `chat` is a model at an endpoint.",
        ),
    ],
    split: Annotated[str | None, typer.Option(help="Split of the suite.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", "-p", help="Limits; the suite's by default.")] = None,
    trials: Annotated[int | None, typer.Option(help="Episodes a task.", min=1)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many tasks.", min=1)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Run folder (with several agents: one in it for each). "
            "The same command again goes on where it stopped.",
        ),
    ] = None,
    corpus: Annotated[str | None, typer.Option(help="Your documents, with --queries.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="JSON list of {query, gold}, or BEIR queries with --qrels.")
    ] = None,
    qrels: Annotated[str | None, typer.Option(help="BEIR or TREC judgements.")] = None,
    index: Annotated[str | None, typer.Option(help="Folder of an index to search instead of building one.")] = None,
    retrieval: Annotated[
        str | None, typer.Option(help="Legs of the index that is built: hybrid, lexical, dense.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model name for --agent chat.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint for --agent chat; else OPENAI_BASE_URL.")] = None,
    concurrency: Annotated[int, typer.Option(help="Episodes live at once.", min=1)] = 8,
    processes: Annotated[
        int | None, typer.Option(help="Worker processes; by default one a core for scripted agents.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which an episode is cut.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Play again what broke before by the agent's fault, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable results on standard output.")] = False,
) -> None:
    """Play agents over a task set and score them.

    A first result:      agentgym eval sample --agent greedy-prune

    Your own corpus:     agentgym eval prune-search --corpus docs/ --queries q.json --agent greedy-prune --profile 8k

    A model:             agentgym eval sample --agent chat --model NAME --base-url http://localhost:8000/v1

    With --json: metrics is {name: {mean, lo, hi, n}} with 95 % intervals over task clusters; with several agents `runs` holds
    one such object each, and `paired` the differences first − second of each pair.
    """
    named: str | TaskSet
    if corpus is not None or queries is not None:
        named, index = _own_corpus(tasks, corpus, queries, qrels, index, retrieval, profile)
        retrieval = None  # the index has its legs
    elif qrels is not None:
        raise ConfigError("--qrels goes with --queries")
    else:
        named = _family_suite(tasks)
    runs = []
    for item in agent:
        made = _agent(item, model, base_url)
        folder = out / item if out is not None and len(agent) > 1 else out
        cores = 1 if item == "chat" else os.cpu_count() or 1  # an endpoint does a model's work
        with console.progress(item) as update:
            try:
                run = run_evaluation(
                    named,
                    made,
                    split=split,
                    profile=profile,
                    trials=trials,
                    limit=limit,
                    out=folder,
                    concurrency=concurrency,
                    processes=cores if processes is None else processes,
                    time_limit_s=time_limit,
                    retry_failed=retry_failed,
                    progress=lambda row, done, planned: update(done, planned),
                    index=index,
                    retrieval=retrieval,
                )
            except KeyboardInterrupt:
                console.fail("interrupted; what is finished is stored: the same command goes on")
                raise typer.Exit(130) from None
        runs.append(run)
    _print(runs, as_json)
    if all(row.status in {"agent_error", "infra_error"} for run in runs for row in run.rows):
        raise typer.Exit(1)


def _agent(name: str, model: str | None, base_url: str | None) -> Agent | str:
    if name != "chat":
        return name
    from agentgym.agents.chat import ChatAgent

    return ChatAgent(model, base_url=base_url)


def _family_suite(name: str) -> str:
    """A family's name stands for its newest suite."""
    from agentgym.corpus.tasksets import suites

    of_family = sorted(suite.id for suite in suites().values() if suite.family == name and suite.id.startswith(name))
    return of_family[-1] if of_family else name


def _own_corpus(
    family: str,
    corpus: str | None,
    queries: str | None,
    qrels: str | None,
    index: str | None,
    retrieval: str | None,
    profile: str | None,
) -> tuple[TaskSet, str]:
    """Tasks from the queries, and the folder of an index over the corpus, built in the user's cache where it is not."""
    from agentgym.core.hashing import digest
    from agentgym.corpus.queries import read_tasks
    from agentgym.corpus.readers import read_corpus
    from agentgym.corpus.tasksets import cache_dir
    from agentgym.envs.prune_search.profiles import profile as profile_named
    from agentgym.retrieval.index import Index

    if family != "prune-search":
        raise ConfigError(f"--corpus and --queries go with the family prune-search, not {family!r}")
    if queries is None or (corpus is None and index is None):
        raise ConfigError("an evaluation on your own corpus needs --queries, and --corpus or --index")
    if index is not None and (corpus is not None or retrieval is not None):
        raise ConfigError("--index is searched as it is: leave --corpus and --retrieval out, or build another index")
    tasks = read_tasks(queries, qrels=qrels)
    if index is None:
        assert corpus is not None
        limits = profile_named(profile or "32k")
        cut = (limits.counter, limits.chunk_tokens, limits.chunk_slack)
        documents = list(read_corpus(corpus))
        key = digest([[d.id, d.text, d.title] for d in documents])[:16]
        legs = retrieval or "hybrid"
        folder = cache_dir() / "indexes" / "-".join(map(str, ("own", key, legs, *cut)))
        with console.progress(f"indexing {len(documents):,} documents") as update:
            Index.build(
                documents,
                folder,
                retrieval=legs,
                counter=limits.counter,
                chunk_tokens=limits.chunk_tokens,
                slack=limits.chunk_slack,
                progress=lambda stage, done, total: update(done, total),
            )
        index = str(folder)
    return tasks, index


def _print(runs: list[Run], as_json: bool) -> None:
    from agentgym.evaluation.summary import difference

    found = [run.metrics() for run in runs]
    paired = [
        {
            "first": a.manifest.agent,
            "second": b.manifest.agent,
            "metric": name,
            **msgspec.to_builtins(difference(a.store, b.store, name)),
        }
        for i, a in enumerate(runs)
        for b in runs[i + 1 :]
        for name in PAIRED
    ]
    if as_json:
        objects = [_object(run, metrics) for run, metrics in zip(runs, found, strict=True)]
        console.print_json(objects[0] if len(objects) == 1 else {"runs": objects, "paired": paired})
        return
    first = runs[0].manifest
    where = f"{first.suite}/{first.split}" if first.suite else first.env
    narrow = console.out.width < 22 + 26 * len(runs)  # an interval as ± half its width where columns would wrap
    console.table(
        ["", *(run.manifest.agent for run in runs)],
        [
            [name, *(_cell(metrics.get(name), narrow=narrow) for metrics in found)]
            for name in SHOWN
            if any(name in metrics for metrics in found)
        ],
        f"{where}, profile {first.profile}, {len(first.episodes)} episodes, 95 % intervals",
    )
    for run in runs:
        fused = _fused(run)
        if fused:
            trials = run.manifest.trials
            shown = ", ".join(f"{name} {_cell(fused[name])}" for name in ("final_answer_found", "f1") if name in fused)
            console.out.print(f"{run.manifest.agent}, {trials} rollouts fused ({trials}x): {shown}", markup=False)
    for item in paired:
        if item["first"] == first.agent and item["lo"] is not None:
            console.out.print(
                f"{item['first']} − {item['second']}, paired: {item['metric']} "
                f"{item['mean']:+.3f} [{item['lo']:+.3f}, {item['hi']:+.3f}]",
                markup=False,
            )
    for run in runs:
        console.say(f"{run.manifest.agent}: {run.path}")


def _cell(estimate: Estimate | None, *, narrow: bool = False) -> str:
    if estimate is None or estimate.mean is None:
        return "–"
    digits = 0 if abs(estimate.mean) >= 100 else 1 if abs(estimate.mean) >= 10 else 3
    if estimate.lo is None or estimate.hi is None:  # one episode has no interval
        return f"{estimate.mean:,.{digits}f}"
    if narrow:
        return f"{estimate.mean:,.{digits}f} ±{(estimate.hi - estimate.lo) / 2:,.{digits}f}"
    return f"{estimate.mean:,.{digits}f} [{estimate.lo:,.{digits}f}, {estimate.hi:,.{digits}f}]"


def _fused(run: Run) -> dict[str, Estimate] | None:
    """Metrics of a task's trials taken as one answer, where there are several and the environment can fuse them."""
    if run.manifest.trials < 2:
        return None
    try:
        return run.fused()
    except ConfigError:
        return None


def _object(run: Run, metrics: dict[str, Estimate]) -> dict[str, Any]:
    manifest = run.manifest
    statuses = [str(row.status) for row in run.rows]
    return {
        "run": str(run.path),
        "agent": manifest.agent,
        "model": manifest.model,
        "env": manifest.env,
        "suite": manifest.suite or None,
        "split": manifest.split or None,
        "profile": manifest.profile,
        "protocol": manifest.protocol,
        "taskset": manifest.taskset,
        "fingerprint": manifest.fingerprint,
        "episodes": {
            "planned": len(manifest.episodes),
            **{name: statuses.count(name) for name in sorted(set(statuses))},
        },
        "metrics": msgspec.to_builtins(metrics),
        "fused": msgspec.to_builtins(_fused(run)),
        "versions": manifest.versions,
        "date": manifest.date,
    }
