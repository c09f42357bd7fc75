"""agentgym: environments, benchmarks and training for agents that search, code and delegate.

`import agentgym` registers the environments with Gymnasium and loads nothing heavy; every public name is fetched from its
room when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as _gymnasium

__version__ = "0.1.0"

# Public name → module that defines it. `__init__.pyi` says the same to type checkers.
_PUBLIC = {
    "Agent": "agentgym.agents.base",
    "Brief": "agentgym.agents.base",
    "ChatAgent": "agentgym.agents.chat",
    "ChatMLCodec": "agentgym.rollouts.segments",
    "Index": "agentgym.retrieval.index",
    "Message": "agentgym.core.records",
    "Part": "agentgym.core.records",
    "Policy": "agentgym.agents.base",
    "Profile": "agentgym.harness.profiles",
    "Run": "agentgym.evaluation.run",
    "Score": "agentgym.core.records",
    "SearchReward": "agentgym.envs.prune_search.reward",
    "Task": "agentgym.core.records",
    "TextActions": "agentgym.envs.wrappers",
    "ToolCall": "agentgym.core.records",
    "ToolEnv": "agentgym.envs.base",
    "ToolError": "agentgym.core.errors",
    "Toolset": "agentgym.harness.tool",
    "Trajectory": "agentgym.core.records",
    "Truth": "agentgym.core.records",
    "Turn": "agentgym.core.records",
    "View": "agentgym.core.graph",
    "episode": "agentgym.rollouts.segments",
    "evaluate": "agentgym.evaluation.run",
    "load_rewards": "agentgym.evaluation.frames",
    "load_runs": "agentgym.evaluation.frames",
    "load_steps": "agentgym.evaluation.frames",
    "read_corpus": "agentgym.corpus.readers",
    "read_tasks": "agentgym.corpus.queries",
    "rollout": "agentgym.rollouts.segments",
    "tool": "agentgym.harness.tool",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'agentgym' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


# Environment id → entry point. A row here is all that registration takes.
_ENVIRONMENTS = {
    "PruneSearch-v0": "agentgym.envs.prune_search.env:PruneSearchEnv",
    "PruneSearchCandidates-v0": "agentgym.envs.prune_search.candidates:PruneSearchCandidatesEnv",
}

for _id, _entry_point in _ENVIRONMENTS.items():
    if _id not in _gymnasium.registry:
        _gymnasium.register(_id, entry_point=_entry_point)
