"""The commands. Each file of this room holds one group; `agentgym COMMAND --help` teaches each with an example."""

from __future__ import annotations

import importlib.metadata

import typer

from agentgym.cli import environments, evaluate, index, runs

app = typer.Typer(
    name="agentgym",
    help="Score and train agents that search, code and delegate.\n\n"
    "First result: agentgym eval sample --agent greedy-prune",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("envs")(environments.envs)
app.command("eval")(evaluate.evaluate)
app.command("replay")(runs.replay)
app.command("rescore")(runs.rescore)
app.command("show")(runs.show)
app.command("report")(runs.report)
app.add_typer(index.app, name="index")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"agentgym {importlib.metadata.version('agentgym-suite')}")
        raise typer.Exit
