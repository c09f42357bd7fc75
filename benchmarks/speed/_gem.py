"""gem-llm's side of `episode.py`, run by an interpreter that has gem-llm and nothing of ours.

Reads lines `turns chars episodes` from standard input and answers each with the CPU seconds they took.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from _kv import ANSWER, CALL, QUESTION, cpu_s, draw, padding, play, texts
from gem.core import Env
from gem.tools.base_tool import BaseTool
from gem.tools.tool_env_wrapper import ToolEnvWrapper
from gem.wrappers.observation_wrapper import ObservationWrapper


class Game(Env):
    """The task; looking up is a tool of gem's."""

    def __init__(self) -> None:
        super().__init__()
        self.facts = draw(0)

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed)
        self.facts = draw(seed)
        return QUESTION, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        found = ANSWER.search(action)
        return "done", float(bool(found) and found[1].strip() == self.facts["k00"]), True, False, {}


class Lookup(BaseTool):
    """The tool."""

    tool_type = "lookup"

    def __init__(self, game: Game, padding: str) -> None:
        super().__init__()
        self.name, self.game, self.padding = "lookup", game, padding

    def instruction_string(self) -> str:
        return "Use <tool>lookup key</tool>."

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        found = CALL.search(action)
        if not found:
            return False, True, "", ""
        result = f"<result>{self.game.facts.get(found[1], 'missing')}</result>{self.padding}"
        return True, False, result, action[: found.end()]


def main() -> None:
    print("gem-llm", importlib.metadata.version("gem-llm"), flush=True)
    for line in sys.stdin:
        turns, chars, episodes = map(int, line.split())
        game = Game()
        tools = ToolEnvWrapper(game, [Lookup(game, padding(chars))], max_tool_uses=turns)
        env = ObservationWrapper(tools, include_chat_template=False)
        episode = play(env, texts(turns))
        cpu_s(episode, 20)
        print(cpu_s(episode, episodes), flush=True)


if __name__ == "__main__":
    main()
