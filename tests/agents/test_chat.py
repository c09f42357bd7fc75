"""The chat agent in real episodes, against a real local server."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents.base import Agent, Brief
from agentgym.agents.chat import ChatAgent
from agentgym.core.errors import ConfigError, InfraError, ToolError
from agentgym.core.graph import View, grow
from agentgym.core.records import Message, Part, StopReason, Task, Turn
from agentgym.harness.episode import Episode
from agentgym.harness.profiles import Profile
from agentgym.harness.tool import Toolset, tool
from tests.support.openai_server import Fault, OpenAIServer, call, calls, refused_url, say, script

KEY = "sk-test-3141592653589793"
TASK = Task("t1", "toy", "Which word is in the drawer?")
OPENING = [Message("system", (Part("You may open the drawer."),)), Message("user", (Part(TASK.prompt),))]


class Drawer(Toolset):
    @tool
    def look(self, place: str) -> str:
        """Look into a place."""
        return f"in the {place} lies the word 'ibex'"


BRIEF = Brief(TASK, Drawer.specs(), 7, None, 8)
VIEW = View(grow(None, OPENING))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_MODEL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


def agent_for(server: OpenAIServer | str, **options: Any) -> ChatAgent:
    return ChatAgent("test-model", base_url=server if isinstance(server, str) else server.base_url, **options)


def act(agent: Agent, view: View = VIEW) -> Turn:
    return asyncio.run(agent.begin(BRIEF).act(view))


async def play(agent: Agent) -> Episode:
    episode = Episode(TASK, Drawer(), Profile(name="toy", max_turns=8), OPENING)
    policy = agent.begin(BRIEF)
    while episode.stop is None:
        await episode.step(await policy.act(episode.view))
    return episode


def reader(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A model that looks once and answers with what it saw."""
    last = messages[-1]
    if last["role"] != "tool":
        return call(tools[0]["function"]["name"], place="drawer")
    return say(last["content"].split("'")[1])


@pytest.mark.parametrize("stream", [False, True])
def test_an_episode_from_question_to_answer(stream: bool) -> None:
    with OpenAIServer(reader, key=KEY) as server:
        episode = asyncio.run(play(agent_for(server, api_key=KEY, stream=stream)))
    trajectory = episode.trajectory()
    assert (trajectory.stop, trajectory.answer) == (StopReason.ANSWER, "ibex")
    assert [step.turn.usage is not None for step in trajectory.steps] == [True, True]
    second = server.requests[1].body["messages"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "tool"]
    assert second[3]["tool_call_id"] == second[2]["tool_calls"][0]["id"]


def test_what_the_model_gets_wrong_reaches_the_harness() -> None:
    wrong = script(
        calls(("a", "look", '{"place": "dra'), (None, "peek", "{}"), ("a", "", ""), text="Let me see."),
        say("half a sen", finish_reason="length"),
        say("ibex"),
    )
    with OpenAIServer(wrong, strict_history=True) as server:
        episode = asyncio.run(play(agent_for(server)))
    steps = episode.trajectory().steps
    assert [result.error for step in steps for result in step.results] == [
        "bad_json",
        "unknown_tool",
        "unknown_tool",
        "malformed",
    ]
    assert steps[0].turn.tool_calls[0].arguments == '{"place": "dra'
    assert episode.stop is StopReason.ANSWER


def test_an_empty_reply_is_an_empty_answer() -> None:
    with OpenAIServer(script(say(""))) as server:
        turn = act(agent_for(server))
    assert turn == Turn(usage=turn.usage)


def test_a_dead_endpoint_is_an_infra_error() -> None:
    with pytest.raises(InfraError, match="gave up after 1 attempt"):
        act(agent_for(refused_url(), retries=0))


def test_a_context_overflow_is_the_agents_error() -> None:
    with OpenAIServer(context_tokens=5) as server, pytest.raises(ToolError, match="does not fit") as caught:
        act(agent_for(server))
    assert caught.value.kind == "context_overflow"


def test_a_wrong_key_is_the_users_error() -> None:
    with OpenAIServer(key=KEY) as server, pytest.raises(ConfigError, match="HTTP 401"):
        act(agent_for(server, api_key="sk-wrong"))


def test_mistakes_are_told_when_the_agent_is_made() -> None:
    with pytest.raises(ConfigError, match="OPENAI_MODEL"):
        ChatAgent(base_url="http://h/v1")
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        ChatAgent("m")


def test_parameters_and_headers_are_sent() -> None:
    with OpenAIServer() as server:
        act(agent_for(server, temperature=0.2, max_tokens=99, params={"top_p": 0.9}, headers={"X-Team": "blue"}))
        act(agent_for(server))
    first, second = (request.body for request in server.requests)
    assert (first["temperature"], first["max_tokens"], first["top_p"]) == (0.2, 99, 0.9)
    assert server.requests[0].headers["x-team"] == "blue"
    assert second.keys() == {"model", "messages", "tools"}


def test_further_instructions_join_the_first_system_message() -> None:
    with OpenAIServer() as server:
        agent = agent_for(server, system="Be brief.")
        act(agent)
        act(agent, View(grow(None, OPENING[1:])))
    first, second = (request.body["messages"] for request in server.requests)
    assert first[0] == {"role": "system", "content": "You may open the drawer.\n\nBe brief."}
    assert second[0] == {"role": "system", "content": "Be brief."}
    assert len(first) == len(second) == 2


def test_seeds_follow_the_episode_and_the_turn() -> None:
    longer = View(grow(VIEW.leaf, [Message("user", (Part("And now?"),))]))
    with OpenAIServer() as server:
        for view in (VIEW, VIEW, longer):
            act(agent_for(server, send_seed=True), view)
    seeds = [request.body["seed"] for request in server.requests]
    assert seeds[0] == seeds[1] != seeds[2]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_its_names() -> None:
    assert agent_for("http://h/v1").name == "chat:test-model"
    assert agent_for("http://h/v1", name="mine").name == "mine"


def test_neither_repr_nor_results_show_the_key() -> None:
    agent = agent_for("http://h/v1", api_key=KEY, headers={"X-Token": KEY}, temperature=0)
    assert repr(agent) == "ChatAgent('test-model', base_url='http://h/v1', params={'temperature': 0})"
    assert KEY not in repr(agent.begin(BRIEF))


def test_a_key_from_the_environment_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    agent = agent_for("http://h/v1")
    agent.begin(BRIEF)  # has made its client, which knows the key
    assert KEY.encode() not in pickle.dumps(agent)


def test_a_copy_works_in_another_process(tmp_path: Path) -> None:
    with OpenAIServer(key=KEY) as server:
        agent = agent_for(server, stream=True)
        (tmp_path / "agent").write_bytes(pickle.dumps((agent, BRIEF, VIEW)))
        code = (
            "import asyncio, pathlib, pickle, sys\n"
            "agent, brief, view = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
            "print(asyncio.run(agent.begin(brief).act(view)).content)\n"
        )
        command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "agent")]
        environment = {"OPENAI_API_KEY": KEY, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_many_episodes_at_once() -> None:
    async def main(agent: Agent) -> list[str]:
        episodes = await asyncio.gather(*(play(agent) for _ in range(24)))
        return [episode.trajectory().answer for episode in episodes]

    faults = [Fault(status=503, headers={"Retry-After": "0.05"}), Fault("drop"), Fault("cut"), Fault("hang")]
    with OpenAIServer(reader, faults=faults, latency_s=0.1) as server:
        agent = agent_for(server, timeout_s=1.0)
        for _ in range(2):  # a second run in the same process gets a new event loop
            assert asyncio.run(main(agent)) == ["ibex"] * 24
        assert server.most_at_once >= 12
