"""Agents that do one thing wrong each, and the lookup environment to do it in. Importable, so that workers find them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.agents.base import Brief
from agentgym.core.errors import ConfigError, InfraError
from agentgym.core.graph import View
from agentgym.core.records import ToolCall, Turn
from agentgym.rollouts.manifest import Planned, RunManifest
from agentgym.rollouts.play import EnvSpec
from tests.lookup_env import LookupEnv

SPEC = EnvSpec("Lookup-v0", "tests.lookup_env:LookupEnv")


def plan(count: int, trials: int = 1) -> RunManifest:
    """A run of the first tasks."""
    episodes = tuple(Planned(f"t{i}", trial, i) for i in range(count) for trial in range(trials))
    return RunManifest("Lookup-v0", "trouble", "lookup", episodes, trials=trials, fingerprint=LookupEnv().fingerprint())


@dataclass(frozen=True)
class Trouble:
    """Solves every task, but does `kind` in those named; `marks` is a folder where it notes what it has done."""

    kind: str = ""
    tasks: tuple[str, ...] = ()
    marks: str = ""
    pause_s: float = 0.0
    name: str = field(default="trouble", init=False)

    def begin(self, brief: Brief) -> Policy:
        return Policy(self, brief)

    def mark(self, text: str) -> int:
        """Note something; returns how often it was noted before."""
        path = Path(self.marks) / text
        seen = len(path.read_text()) if path.exists() else 0
        with path.open("a") as file:
            file.write(".")
        return seen


class Policy:
    """One episode."""

    def __init__(self, agent: Trouble, brief: Brief) -> None:
        self.agent = agent
        self.task = brief.task.id
        self.key = brief.task.prompt[18:21]

    async def act(self, view: View) -> Turn:
        agent = self.agent
        if agent.marks:
            agent.mark(f"pid-{os.getpid()}")
        await asyncio.sleep(agent.pause_s)
        last = view.messages[-1]
        if self.task in agent.tasks:
            made = await self.trouble(agent.kind)
            if made is not None:
                return made
        if last.role == "tool":
            return Turn(last.text)
        return Turn(tool_calls=(ToolCall("c0", "lookup", json.dumps({"key": self.key})),))

    async def trouble(self, kind: str) -> Turn | None:
        agent = self.agent
        match kind:
            case "raise":
                raise KeyError("agent\nbug")
            case "cancels":
                raise asyncio.CancelledError
            case "exits":
                sys.exit(3)
            case "hang":
                await asyncio.Event().wait()
            case "spin":
                return Turn(tool_calls=(ToolCall("c0", "lookup", "{}"),))
            case "timeout":
                raise TimeoutError("the endpoint was slow")
            case "infra" if agent.mark(f"infra-{self.task}") < 2:
                raise InfraError("endpoint down")
            case "always infra":
                raise InfraError("endpoint down")
            case "config":
                raise ConfigError("no such model")
            case "die" if agent.mark("died") == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            case "print":
                print("\x00" * 10_000, flush=True)
                os.write(1, b"not a frame")
            case "huge":
                return Turn("x" * 30_000_000)
        return None
