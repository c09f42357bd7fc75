"""`agentgym envs`: what there is to run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agentgym.cli import console


def envs(as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False) -> None:
    """List environments, profiles, scripted agents and suites.

    Example: agentgym envs --json
    """
    listing = _listing()
    if as_json:
        console.print_json(listing)
        return
    for env in listing["environments"]:
        console.out.print(f"[bold]{env['id']}[/bold]  family {env['family']}; as numbers: {env['candidates']}")
        budgets = [f"{name} ({tokens:,} {counter})" for name, (tokens, counter) in env["budgets"].items()]
        console.out.print(f"  profiles  {', '.join(budgets)}")
        console.out.print(f"  agents    {', '.join(env['agents'])}, chat (any OpenAI-compatible endpoint)")
    console.table(
        ["suite", "split", "tasks", "env", "profile", "retrieval"],
        [
            [suite["id"], split, str(tasks), suite["env"], suite["profile"], suite["retrieval"]]
            for suite in listing["suites"]
            for split, tasks in suite["splits"].items()
        ],
    )


def _listing() -> dict[str, Any]:
    from agentgym.corpus.tasksets import suites
    from agentgym.envs.prune_search.env import PruneSearchEnv
    from agentgym.envs.prune_search.profiles import PROFILES

    return {
        "environments": [
            {
                "id": PruneSearchEnv.name,
                "family": PruneSearchEnv.family,
                "candidates": "PruneSearchCandidates-v0",
                "profiles": list(PROFILES),
                "budgets": {
                    name: (profile.budget_tokens, "words" if profile.counter == "words" else "tokens")
                    for name, profile in PROFILES.items()
                },
                "agents": list(PruneSearchEnv.agents),
            }
        ],
        "suites": [
            {
                "id": suite.id,
                "title": suite.title,
                "family": suite.family,
                "env": suite.env,
                "profile": suite.profile,
                "retrieval": suite.retrieval,
                "splits": {name: pin.tasks for name, pin in suite.splits.items()},
            }
            for suite in suites().values()
        ],
    }
