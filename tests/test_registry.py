"""Every environment that is registered keeps the contract: what Gymnasium asks, exact determinism, replay, honest floors."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

import agentgym
from agentgym import testing
from agentgym.envs.base import ToolEnv

IDS = sorted(env_id for env_id, spec in gym.registry.items() if str(spec.entry_point).startswith("agentgym."))


def test_the_table_is_registered() -> None:
    assert agentgym.__version__
    assert IDS == ["PruneSearch-v0", "PruneSearchCandidates-v0"]


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_checks(env_id: str) -> None:
    gymnasium_check(gym.make(env_id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_same_seed_same_bytes(env_id: str) -> None:
    def play() -> list[bytes]:
        env = gym.make(env_id)
        env.action_space.seed(5)
        observation, info = env.reset(seed=5)
        lived = [repr((observation, info)).encode()]
        for _ in range(12):
            *step, info = env.step(env.action_space.sample())
            lived.append(repr((step, info)).encode())
            if step[2] or step[3]:
                break
        return lived

    assert play() == play()


@pytest.mark.parametrize("env_id", IDS)
def test_make_without_importing_agentgym(env_id: str) -> None:
    code = f"import gymnasium as g; e = g.make('agentgym:{env_id}'); e.reset(seed=0); e.step(e.action_space.sample())"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("env_id", [env_id for env_id in IDS if "Candidates" not in env_id])
class TestTextEnvironments:
    """The conformance suite that users run on theirs, on ours."""

    def env(self, env_id: str) -> ToolEnv:
        env = gym.make(env_id).unwrapped
        assert isinstance(env, ToolEnv)
        return env

    def test_env(self, env_id: str) -> None:
        testing.check_env(self.env(env_id))

    def test_replay(self, env_id: str) -> None:
        testing.check_replay(self.env(env_id), ("null", "random", "malformed", "greedy-prune", "informed", "oracle"))

    def test_integrity(self, env_id: str) -> None:
        testing.check_integrity(self.env(env_id))

    def test_oracle_reaches_one(self, env_id: str) -> None:
        rows = [row for row, _ in testing.play(self.env(env_id), "oracle", tasks=6)]
        assert [row.score.value for row in rows] == [1.0] * 6
