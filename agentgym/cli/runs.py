"""`agentgym replay | rescore | show | report`: what can be done with a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agentgym.cli import console
from agentgym.core.errors import ConfigError
from agentgym.core.records import Part, Trajectory
from agentgym.evaluation.run import Run

Folder = Annotated[Path, typer.Argument(help="Run folder, or a folder of run folders.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


def replay(
    folder: Folder,
    fast: Annotated[bool, typer.Option("--fast", help="Feed recorded rankings without computing them again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play every stored trajectory again in a fresh environment and compare all that it says.

    Exit status 1 when anything differs: a byte of a file, a view, a ranking beyond its rule, a score.

    Example: agentgym replay runs/a
    """
    problems: list[dict[str, str]] = []
    checked = planned = 0
    for run in _runs(folder):
        planned += len(run.manifest.episodes)
        found = [{"run": str(run.path), "problem": text} for text in (*run.store.verify(), *run.problems())]
        problems += found
        if found:
            continue
        with console.progress(f"replaying {run.manifest.agent}") as update:
            results = run.replay(verify=not fast, progress=update)
        checked += len(results)
        problems += [
            {"run": str(run.path), "task": result.task, "problem": text}
            for result in results
            for text in result.problems
        ]
    if as_json:
        console.print_json({"episodes": checked, "planned": planned, "problems": problems})
    else:
        for item in problems[:20]:
            console.out.print(console.plain(" ".join(item.values())), soft_wrap=True)
        of = "" if checked == planned else f" of {planned} planned"
        console.out.print(f"{checked}{of} episodes replayed, {len(problems)} differences")
    if problems:
        raise typer.Exit(1)


def rescore(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run with its new scores.")],
    as_json: AsJson = False,
) -> None:
    """Score stored trajectories again with this version's scorer, without running anything.

    Example: agentgym rescore runs/a --out runs/a-rescored
    """
    (run,) = _runs(folder, single=True)
    new = run.rescore(out)
    before = {row.key: row.score for row in run.rows}
    changed = [row.key for row in new.rows if row.score != before[row.key]]
    if as_json:
        metrics = msgspec.to_builtins(new.metrics())
        console.print_json({"run": str(new.path), "changed": [list(key) for key in changed], "metrics": metrics})
        return
    console.out.print(f"{len(new.rows)} episodes scored again, {len(changed)} scores changed: {new.path}", markup=False)


def show(
    folder: Folder,
    task: Annotated[str | None, typer.Option(help="Show this task's trajectory turn by turn.")] = None,
    trial: Annotated[int, typer.Option(help="Which trial of it.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List a run's episodes, or show one trajectory turn by turn, pruned chunks struck out.

    Example: agentgym show runs/a --task q7
    """
    (run,) = _runs(folder, single=True)
    if task is None:
        rows = run.rows
        if as_json:
            console.print_json(rows)
            return
        console.table(
            ["task", "trial", "status", "stop", "score", "reward", "turns", "tokens in", "seconds"],
            [
                [
                    row.task,
                    str(row.trial),
                    str(row.status),
                    str(row.stop or "–"),
                    "–" if row.score.value is None else f"{row.score.value:.3f}",
                    "–" if row.reward is None else f"{row.reward:.3f}",
                    str(row.steps),
                    f"{row.usage.tokens_in:,}",
                    f"{row.wall_s:.2f}",
                ]
                for row in rows
            ],
        )
        for failed in rows:
            if failed.error is not None:
                console.out.print(f"{failed.task}, trial {failed.trial}: {failed.error}", markup=False, soft_wrap=True)
        return
    row = next((row for row in run.rows if row.key == (task, trial)), None)
    if row is None:
        raise ConfigError(
            f"{run.path} has no finished episode of task {task!r}, trial {trial}; `agentgym show` lists them"
        )
    trajectory = run.store.trajectory(row)
    if as_json:
        console.print_json(trajectory)
    else:
        _print_trajectory(trajectory)
        if row.error is not None:
            console.out.print(f"{row.status}: {row.error}", markup=False, soft_wrap=True)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them.")],
    html: Annotated[Path, typer.Option("--html", help="File to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page with tables, plots and a trajectory turn by turn.

    Example: agentgym report runs/a runs/b --html report.html
    """
    from agentgym.evaluation.report import write_report

    runs = [run for folder in folders for run in _runs(folder)]
    write_report([run.path for run in runs], html, truths=dict(runs[0].truths()))
    console.out.print(f"report: {html}", markup=False)


def _runs(folder: Path, *, single: bool = False) -> list[Run]:
    """The run at a folder, or the runs in it."""
    if (folder / "run.json").is_file():
        return [Run(folder)]
    found = sorted(path.parent for path in folder.glob("*/run.json")) if folder.is_dir() else []
    if not found:
        raise ConfigError(f"{folder} is no run folder and holds none: `agentgym eval` makes them")
    if single and len(found) > 1:
        raise ConfigError(f"{folder} holds {len(found)} runs; name one: {', '.join(path.name for path in found)}")
    return [Run(path) for path in found]


def _print_trajectory(trajectory: Trajectory) -> None:
    gone = {chunk: number for number, step in enumerate(trajectory.steps, 1) for chunk in step.pruned}
    for message in trajectory.opening:
        console.out.print(f"[bold]{message.role}[/bold]  {console.plain(message.text)}", soft_wrap=True)
    for number, step in enumerate(trajectory.steps, 1):
        console.out.rule(f"turn {number} · {step.used:,} tokens", align="left")
        if step.turn.content:
            console.out.print(console.plain(step.turn.content), soft_wrap=True)
        for call in step.turn.tool_calls:
            console.out.print(
                f"[cyan]{console.plain(call.name)}[/cyan] {console.plain(call.arguments[:300])}", soft_wrap=True
            )
        for message in step.messages:
            for part in message.parts:
                _print_part(part, gone, message.error is not None)
    console.out.rule(f"{trajectory.stop}", align="left")


def _print_part(part: Part, gone: dict[str, int], error: bool) -> None:
    text = console.plain(part.text if len(part.text) <= 200 else part.text[:200].replace("\n", " ") + "…")
    if error:
        console.out.print(f"  [red]{text}[/red]", soft_wrap=True)
    elif part.chunk in gone:
        console.out.print(
            f"  [strike dim]{text}[/strike dim] [dim](pruned in turn {gone[part.chunk]})[/dim]", soft_wrap=True
        )
    else:
        console.out.print(f"  {text}", soft_wrap=True)
