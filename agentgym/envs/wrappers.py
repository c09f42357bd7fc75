"""Wrappers around text environments."""

from __future__ import annotations

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from agentgym.core.errors import ConfigError
from agentgym.core.graph import View
from agentgym.core.records import Turn
from agentgym.envs.spaces import TextSpace, TurnSpace
from agentgym.harness.text import parse_turn


class TextActions(gym.ActionWrapper[View, str, Turn], RecordConstructorArgs):
    """Act by raw model text: `<tool_call>{"name": …, "arguments": {…}}</tool_call>` for calls, anything else is content.

    The text is kept in `Turn.raw`. What cannot be read as a call is answered with an error result, never dropped and never
    raised.

        env = TextActions(gym.make("PruneSearch-v0"))
        env.reset(seed=0)
        env.step('<tool_call>{"name": "search_corpus", "arguments": {"query": "who"}}</tool_call>')
    """

    def __init__(self, env: gym.Env[View, Turn]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        if not isinstance(env.action_space, TurnSpace):
            raise ConfigError(f"TextActions wraps environments whose actions are turns; {env} takes {env.action_space}")
        self.action_space = TextSpace(env.action_space.tools)

    def action(self, action: str) -> Turn:
        """The turn that the text says."""
        if not isinstance(action, str):
            raise ConfigError(f"TextActions: an action is a str, not {type(action).__name__}")
        return parse_turn(action)
