"""Replay: an honest record gives no problem; an altered one is found, and the turn named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym as ag
from agentgym.core.records import CallResult, Message, Part, Status, Step, StopReason, ToolCall, Trajectory, Turn, Usage
from agentgym.harness.effects import EffectLog
from agentgym.harness.episode import Episode
from agentgym.rollouts.manifest import Planned
from agentgym.rollouts.play import Player
from agentgym.rollouts.replay import check_row, replay
from tests.harness.toolkit import SMALL, Tools, call, calls
from tests.rollouts.trouble import Trouble

replaced = msgspec.structs.replace


class ToolkitEnv(ag.ToolEnv):
    """All tools of the harness tests; the world answers a question with the number of times it was asked."""

    name, family, tools = "Toolkit-v0", "test", Tools
    asked = 0

    def __init__(self, profile: ag.Profile = SMALL) -> None:
        super().__init__([ag.Task("t", "test", "Do it.")], profile, truths={"t": ag.Truth("t", "test")})

    def toolset(self, task: ag.Task, seed: int) -> Tools:
        class World(Tools):
            @ag.tool
            def ask(self, question: str) -> str:
                """What the world says now."""
                ToolkitEnv.asked += 1
                answer = str(ToolkitEnv.asked)
                return str(self.effects.call("recorded-only", question, lambda: answer))

            @ag.tool
            def rank(self, query: str) -> str:
                """Something that must come out the same."""
                return ",".join(self.effects.call("exact", query, lambda: sorted(query)))

        return World()

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        return [ag.Message("user", (ag.Part(task.prompt),))]

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        shown = [chunk for step in trajectory.steps for chunk in step.shown]
        return ag.Score(float("good" in shown), {"shown": float(len(shown))})


TURNS = [
    calls(call("show", chunks=["a", "b"]), call("rank", query="hello")),
    calls(call("prune_chunks", chunk_ids=["a"]), call("ask", question="?"), call("ask", question="?")),
    calls(call("show", chunks=["good"]), call("say", text="x")),
    Turn("The end."),
]


def lived(env: ag.ToolEnv, turns: Sequence[Turn], effects: EffectLog | None = None) -> tuple[Episode, Trajectory]:
    episode = env.open("t", 0, effects)
    for turn in turns:
        if episode.stop is None:
            episode.step_sync(turn)
    return episode, episode.trajectory(env=env.name, fingerprint=env.fingerprint())


def altered(record: Trajectory, number: int, /, **fields: Any) -> Trajectory:
    steps = list(record.steps)
    steps[number - 1] = replaced(steps[number - 1], **fields)
    return replaced(record, steps=tuple(steps))


def test_an_honest_record_replays() -> None:
    env = ToolkitEnv()
    _, record = lived(env, TURNS)
    outcome = env.outcome(record)
    assert outcome.score.value == 1.0
    for verify in (True, False):
        found = replay(env, record, score=outcome.score, verify=verify)
        assert found.problems == ()
        assert found.outcome == outcome
    read = msgspec.json.decode(msgspec.json.encode(record), type=Trajectory)
    assert replay(env, read, score=outcome.score).problems == ()


def test_replay_works_inside_a_running_loop() -> None:
    env = ToolkitEnv()
    record = lived(env, TURNS)[1]

    async def notebook() -> tuple[str, ...]:
        return replay(env, record).problems

    assert asyncio.run(notebook()) == ()


def step(record: Trajectory, turn: int) -> Step:
    return record.steps[turn - 1]


def with_text(record: Trajectory, turn: int) -> Trajectory:
    first, *rest = step(record, turn).messages
    return altered(record, turn, messages=(replaced(first, parts=(Part("another"), *first.parts[1:])), *rest))


def with_effect(record: Trajectory, turn: int, **fields: Any) -> Trajectory:
    first, *rest = step(record, turn).effects
    return altered(record, turn, effects=(replaced(first, **fields), *rest))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: altered(r, 4, turn=Turn("Another end.")), "turn 4: the view differs"),
        (
            lambda r: altered(r, 3, turn=calls(call("show", chunks=["bad"]), call("say", text="x"))),
            "turn 3: messages[0] is",
        ),
        (lambda r: altered(r, 1, turn=replaced(r.steps[0].turn, content="Hm.")), "turn 1: "),
        (lambda r: altered(r, 2, turn=Turn("done")), "turn 2: "),
        (lambda r: with_text(r, 1), "turn 1: messages[0] is"),
        (lambda r: with_text(r, 3), "turn 3: messages[0] is"),
        (lambda r: altered(r, 3, messages=step(r, 3).messages[:1]), "turn 3: messages is"),
        (lambda r: altered(r, 2, leaf="0" * 64), "turn 2: the view differs"),
        (lambda r: altered(r, 1, shown=("a", "b", "good")), "turn 1: shown is"),
        (lambda r: altered(r, 3, shown=("best",)), "turn 3: shown[0] is good, on record is best"),
        (lambda r: altered(r, 2, pruned=()), "turn 2: pruned is"),
        (lambda r: altered(r, 2, used=5), "turn 2: used is"),
        (lambda r: altered(r, 3, results=(CallResult("show"), CallResult("say"))), "turn 3: results[0] is"),
        (lambda r: with_effect(r, 1, value=["h"]), "turn 1: messages[1] is"),
        (lambda r: with_effect(r, 2, value="99"), "turn 2: messages[1] is"),
        (
            lambda r: with_effect(r, 2, request="0" * 64),
            "turn 2: the environment asked for an effect that is not on record",
        ),
        (lambda r: altered(r, 2, effects=step(r, 2).effects[:1]), "turn 2: the environment asked"),
        (lambda r: altered(r, 3, effects=step(r, 1).effects), "turn 3: 1 recorded effects were never asked for"),
        (lambda r: replaced(r, steps=r.steps[:3]), "the episode ended with None, on record is answer"),
        (lambda r: replaced(r, steps=(*r.steps, r.steps[-1])), "turn 5: on record, but the episode has ended (answer)"),
        (lambda r: replaced(r, stop=StopReason.TURN_LIMIT), "the episode ended with answer, on record is turn_limit"),
        (lambda r: replaced(r, usage=Usage(1)), "usage is"),
        (lambda r: replaced(r, opening_leaf="0" * 64), "the opening messages differ"),
        (lambda r: replaced(r, task_hash="0" * 64), "task 't' differs"),
        (lambda r: replaced(r, fingerprint="0" * 64), "recorded in another environment: fingerprint 000000000000"),
        (lambda r: replaced(r, task="nowhere"), "unknown task 'nowhere'"),
    ],
)
def test_an_altered_record_is_found_and_the_place_named(change: Callable[[Trajectory], Trajectory], says: str) -> None:
    env = ToolkitEnv()
    record = change(lived(env, TURNS)[1])
    problems = replay(env, record).problems
    assert problems
    assert any(problem.startswith(says) for problem in problems), problems


def test_a_forged_effect_that_changes_no_view_is_caught_by_its_rule() -> None:
    class Silent(ToolkitEnv):
        def toolset(self, task: ag.Task, seed: int) -> Tools:
            class Quiet(Tools):
                @ag.tool
                def rank(self, query: str) -> str:
                    """Ask and say nothing."""
                    self.effects.call("exact", query, lambda: sorted(query))
                    return "ranked"

            return Quiet()

    env = Silent()
    record = lived(env, [calls(call("rank", query="abc")), Turn("end")])[1]
    assert replay(env, record).problems == ()
    forged = with_effect(record, 1, value=["a"])
    assert replay(env, forged).problems[0].startswith("turn 1: the effect's value differs from the record")
    assert replay(env, forged, verify=False).problems == ()


def test_a_forged_score_is_found() -> None:
    env = ToolkitEnv()
    record = lived(env, TURNS[:2] + TURNS[3:])[1]
    forged = ag.Score(1.0, {"shown": 99.0})
    problems = replay(env, record, score=forged).problems
    assert problems[0] == "score 0.0 differs from the recorded 1.0"
    assert any(problem.startswith("metric shown is ") and problem.endswith("99.0") for problem in problems[1:])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"score": ag.Score(1.0, {"shown": 3.0})}, "score 0.0 differs from the recorded 1.0"),
        ({"score": ag.Score(0.0, {"shown": 9.0})}, "metric shown is"),
        ({"reward": 9.0}, "reward is 0.0, on record is 9.0"),
        ({"cluster": "elsewhere"}, "cluster is t, on record is elsewhere"),
        ({"tags": {"hops": 9}}, "tags is {}, on record is {'hops': 9}"),
        ({"status": Status.AGENT_ERROR}, "the episode came to its end"),
        ({"stop": StopReason.CANCELLED}, "the episode was cut"),
    ],
)
def test_a_row_that_says_other_than_the_replay_is_told(fields: dict[str, Any], says: str) -> None:
    env = ToolkitEnv()
    row, record = asyncio.run(Player(env, "malformed").play(Planned("t", 0, 0)))
    outcome = replay(env, record).outcome
    assert check_row(env, row, outcome) == []
    forged = replaced(row, **({"score": row.score} | fields))
    assert any(says in problem for problem in check_row(env, forged, outcome))


def test_a_broken_episode_is_worth_nothing_whatever_its_row_says() -> None:
    env = ToolkitEnv()
    row, record = asyncio.run(Player(env, Trouble("raise", ("t",))).play(Planned("t", 0, 0)))
    assert row.status is Status.AGENT_ERROR
    outcome = replay(env, record).outcome
    assert check_row(env, row, outcome) == []
    assert check_row(env, replaced(row, score=ag.Score(1.0)), outcome)
    assert check_row(env, replaced(row, status=Status.COMPLETED), outcome)


def test_cut_episodes_replay_and_nothing_follows_the_cut() -> None:
    env = ToolkitEnv()
    episode = env.open("t", 0)
    for turn in TURNS[:2]:
        episode.step_sync(turn)
    episode.cancel()
    record = episode.trajectory(env=env.name, fingerprint=env.fingerprint())
    assert record.stop is StopReason.CANCELLED
    assert replay(env, record).problems == ()
    longer = replaced(record, steps=(*record.steps, lived(env, TURNS)[1].steps[2]))
    assert replay(env, longer).problems != ()


def test_an_episode_cut_in_the_middle_of_a_turn_replays() -> None:
    from tests.lookup_env import LookupEnv

    async def cut() -> Trajectory:
        row, trajectory = await Player(LookupEnv(), Trouble("hang", ("t1",)), time_limit_s=0.05).play(
            Planned("t1", 0, 1)
        )
        assert row.status is Status.TRUNCATED
        return trajectory

    record = asyncio.run(cut())
    assert record.steps == ()
    assert replay(LookupEnv(), record).problems == ()


def test_a_malformed_action_replays_as_it_was_taken() -> None:
    env = ToolkitEnv()
    odd = [Turn(5), Turn(tool_calls=[None]), Turn("<tool", malformed="cut")]  # type: ignore[arg-type]
    hostile = Turn("\ud800", tool_calls=(ToolCall("\udfff", "say", '{"text": "\ud800"}'),))
    record = lived(env, [*odd, hostile, Turn("end")])[1]
    assert len(record.steps) == 5
    assert replay(env, msgspec.json.decode(msgspec.json.encode(record), type=Trajectory)).problems == ()


moves = st.one_of(
    st.builds(lambda ids: call("show", chunks=ids), st.lists(st.sampled_from(["a", "b", "good"]), max_size=3)),
    st.builds(lambda ids: call("prune_chunks", chunk_ids=ids), st.lists(st.sampled_from("ab"), max_size=2)),
    st.builds(lambda q: call("ask", question=q), st.sampled_from("pq")),
    st.builds(lambda q: call("rank", query=q), st.text(max_size=4)),
    st.builds(ToolCall, st.just("c"), st.just("say"), st.text(max_size=9)),
)


@settings(deadline=None)
@given(
    st.lists(st.lists(moves, min_size=1, max_size=5).map(lambda made: calls(*made)), min_size=1, max_size=5), st.data()
)
def test_any_record_replays_and_no_field_of_any_turn_can_be_changed(turns: list[Turn], data: st.DataObject) -> None:
    env = ToolkitEnv()
    record = lived(env, [*turns, Turn("end")])[1]
    score = env.outcome(record).score
    assert replay(env, record, score=score).problems == ()
    number = data.draw(st.integers(1, len(record.steps)))
    field = data.draw(st.sampled_from(["turn", "messages", "results", "shown", "pruned", "used", "leaf"]))
    forged = {
        "turn": Turn("forged", tool_calls=step(record, number).turn.tool_calls),
        "messages": (*step(record, number).messages, Message("tool")),
        "results": (*step(record, number).results, CallResult("forged")),
        "shown": (*step(record, number).shown, "forged"),
        "pruned": (*step(record, number).pruned, "forged"),
        "used": step(record, number).used + 1,
        "leaf": step(record, number).leaf[::-1] + "0",
    }
    problems = replay(env, altered(record, number, **{field: forged[field]})).problems
    assert problems[0].startswith(f"turn {number}: ")
