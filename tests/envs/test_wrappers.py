"""`TextActions`: raw model text in, the same episode as with turns."""

from __future__ import annotations

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.records import ToolCall, Turn
from agentgym.envs.spaces import TextSpace
from agentgym.envs.wrappers import TextActions
from tests.lookup_env import LookupEnv

CALL = '<tool_call>{"name": "lookup", "arguments": {"key": "k03"}}</tool_call>'


def test_texts_are_turns() -> None:
    env, plain = TextActions(LookupEnv()), LookupEnv()
    env.reset(seed=3)
    plain.reset(seed=3)
    view = env.step(f"<think>hm</think>I look. {CALL}")[0]
    same = plain.step(Turn("I look.", tool_calls=(ToolCall("c0", "lookup", '{"key": "k03"}'),)))[0]
    assert view == same
    assert view.messages[-1].text == "v21"
    assert env.step("v21")[1:3] == (1.0, True)


def test_a_broken_call_is_an_error_result_and_counted() -> None:
    env = TextActions(LookupEnv())
    env.reset(seed=3)
    view, _, terminated, _, info = env.step(f'{CALL}<tool_call>{{"name": ')
    assert not terminated
    assert [message.error for message in view.messages[-2:]] == [None, "malformed"]
    assert info["usage"]["calls"] == 1
    view, _, terminated, _, _ = env.step("<tool_call>lookup k03</tool_call>")
    assert not terminated
    assert "tool call 0 cannot be read" in view.messages[-1].text


def test_it_is_a_wrapper_like_any_other() -> None:
    env = TextActions(LookupEnv())
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)
    assert isinstance(env.action_space, TextSpace)
    assert isinstance(env.unwrapped, LookupEnv)
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(50):
        action = env.action_space.sample()
        assert action in env.action_space
        if env.step(action)[2]:
            env.reset()


def test_what_is_no_text_or_no_such_environment_is_refused() -> None:
    env = TextActions(LookupEnv())
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="an action is a str, not Turn"):
        env.step(Turn())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="whose actions are turns"):
        TextActions(gym.make("CartPole-v1"))


@settings(deadline=None)
@given(st.text(st.characters(), max_size=300))
def test_any_text_is_an_action(text: str) -> None:
    env = TextActions(LookupEnv())
    env.reset(seed=0)
    assert env.step(text)[0] in env.observation_space
