"""Token-exact rollouts: what a policy sampled is what it is shown again and trained on, each token once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym as ag
from agentgym.core.errors import ConfigError, UnknownName
from agentgym.core.records import Message, StopReason, Trajectory
from agentgym.core.tokens import O200k, counter
from agentgym.harness.profiles import Profile
from agentgym.harness.text import render_turn
from agentgym.rollouts.replay import replay
from agentgym.rollouts.segments import ChatMLCodec, Generation, Segment, Session, rollout
from tests.rollouts.shelf_env import PROFILE, ShelfEnv, drop, take

CODEC = ChatMLCodec()


class Script:
    """A policy that says what it is told to, and keeps what it was asked and what it answered."""

    def __init__(self, *texts: str, close: bool = True, version: int = 3) -> None:
        self._texts = list(texts)
        self._close = close
        self._version = version
        self.prompts: list[list[int]] = []
        self.answers: list[Generation] = []

    def __call__(self, prompt: list[int]) -> Generation:
        text = self._texts[len(self.answers)] + (CODEC.CLOSE if self._close else "")
        ids = CODEC.encode(text)
        self.prompts.append(list(prompt))
        self.answers.append(Generation(ids, [-0.5 - len(self.answers)] * len(ids), self._version + len(self.answers)))
        prompt.append(-1)  # the prompt is the policy's own copy
        return self.answers[-1]


def run(
    generate: Callable[[list[int]], object], env: ShelfEnv | None = None
) -> tuple[list[Segment], float, Trajectory]:
    built = env if env is not None else ShelfEnv()
    session = Session(built, built.open("shelf"))
    return asyncio.run(rollout(session, generate))  # type: ignore[arg-type]


def call(turn: ag.Turn) -> str:
    return render_turn(turn)


def sampled(segments: list[Segment]) -> list[int]:
    """All tokens that are trained, in order."""
    return [t for s in segments for t, on in zip(s.token_ids, s.mask, strict=True) if on]


GROWING = [call(take("a")), "I look again.\n" + call(take("b", "c")), call(take("d")), "the answer is a"]
PRUNING = [call(take("a", "b")), call(take("c")), call(drop("a")), call(take("d")), call(drop("c", "d")), "done"]


def test_without_a_prune_each_prompt_goes_on_from_the_last() -> None:
    policy = Script(*GROWING)
    segments, reward, trajectory = run(policy)
    for before, answer, after in zip(policy.prompts, policy.answers, policy.prompts[1:], strict=False):
        whole = [*before, *answer.token_ids]
        assert after[: len(whole)] == whole
    assert len(segments) == 1
    (segment,) = segments
    assert segment.branch == 0
    assert segment.token_ids == [*policy.prompts[-1], *policy.answers[-1].token_ids]
    assert reward == 1.0
    assert trajectory.answer == "the answer is a"


def test_a_prune_opens_a_segment_that_branches_where_the_view_did() -> None:
    policy = Script(*PRUNING)
    segments, _, _ = run(policy)
    assert len(segments) == 3
    ends = [2, 4, 5]  # each segment ends with what was sampled before the view changed in its middle
    for segment, end in zip(segments, ends, strict=True):
        assert segment.token_ids == [*policy.prompts[end], *policy.answers[end].token_ids]
    for before, after in itertools.pairwise(segments):
        assert after.branch > 0
        assert after.token_ids[: after.branch] == before.token_ids[: after.branch]
        assert after.token_ids[after.branch :] != before.token_ids[after.branch :]
    # What precedes the first pruned message is shared whole: the tools, the system message, the question, the first turn.
    shared = CODEC._decode(segments[1].token_ids[: segments[1].branch])
    assert shared.endswith(f"{call(take('a', 'b'))}{CODEC.CLOSE}\n")
    assert "text of a" in CODEC._decode(segments[0].token_ids)
    assert "text of a" not in CODEC._decode(segments[1].token_ids)
    assert "[a pruned]" in CODEC._decode(segments[1].token_ids)


def test_within_a_segment_prompts_go_on_after_a_prune_too() -> None:
    policy = Script(*PRUNING)
    run(policy)
    for start, stop in ((0, 2), (3, 4)):
        for i in range(start, stop):
            whole = [*policy.prompts[i], *policy.answers[i].token_ids]
            assert policy.prompts[i + 1][: len(whole)] == whole


@pytest.mark.parametrize("texts", [GROWING, PRUNING], ids=["growing", "pruning"])
def test_each_sampled_token_is_trained_once_with_its_own_log_probability(texts: list[str]) -> None:
    policy = Script(*texts)
    segments, _, _ = run(policy)
    assert sampled(segments) == [t for answer in policy.answers for t in answer.token_ids]
    lived = [(lp, v) for s in segments for on, lp, v in zip(s.mask, s.logprobs, s.versions, strict=True) if on]
    said = [(lp, answer.version) for answer in policy.answers for lp in answer.logprobs]
    assert lived == said
    for segment in segments:
        assert len(segment.token_ids) == len(segment.mask) == len(segment.logprobs) == len(segment.versions)
        assert set(segment.mask) == {0, 1}
        off = [(lp, v) for on, lp, v in zip(segment.mask, segment.logprobs, segment.versions, strict=True) if not on]
        assert set(off) == {(0.0, 0)}


def test_sampled_tokens_are_shown_again_as_they_were_and_never_encoded_anew() -> None:
    o200k = counter("o200k")
    assert isinstance(o200k, O200k)
    odd = [*o200k.encode("sea"), *o200k.encode("rching")]  # not how the tokeniser writes this word
    assert o200k.encode("searching") != odd
    asked = [*odd, *CODEC.encode(f"\n{call(take('a', 'b'))}"), *CODEC.encode(CODEC.CLOSE)]
    script = [asked, CODEC.encode(call(drop("a"))), CODEC.encode("done")]
    prompts: list[list[int]] = []

    def generate(prompt: list[int]) -> list[int]:
        prompts.append(prompt)
        return script[len(prompts) - 1]

    segments, _, _ = run(generate)
    for prompt in prompts[1:]:  # the branch after the prune included
        assert any(prompt[i : i + len(asked)] == asked for i in range(len(prompt)))
    assert sampled(segments) == [token for ids in script for token in ids]


def test_an_end_marker_is_closed_once() -> None:
    for close in (True, False):
        policy = Script(*GROWING, close=close)
        run(policy)
        text = CODEC._decode(policy.prompts[-1])
        assert text.count(CODEC.OPEN + "assistant") == 4
        assert f"{CODEC.CLOSE}{CODEC.CLOSE}" not in text
        assert text.count(CODEC.CLOSE) == text.count(CODEC.OPEN) - 1


def test_synchronous_and_asynchronous_policies_alike() -> None:
    async def later(prompt: list[int]) -> Generation:
        await asyncio.sleep(0)
        return policy(prompt)

    policy = Script(*PRUNING)
    first = run(policy)
    policy = Script(*PRUNING)
    assert run(later) == first

    def bare(prompt: list[int]) -> Awaitable[np.ndarray]:
        async def answer() -> np.ndarray:
            return np.asarray(policy(prompt).token_ids)

        return answer()

    policy = Script(*PRUNING)
    ids, _, trajectory = run(bare)
    assert [s.token_ids for s in ids] == [s.token_ids for s in first[0]]
    assert all(type(token) is int for segment in ids for token in segment.token_ids)
    assert set(ids[0].logprobs) == {0.0}
    assert trajectory == first[2]


def test_log_probabilities_must_fit() -> None:
    with pytest.raises(ConfigError, match="generate returned 3 token ids and 2 logprobs"):
        run(lambda prompt: Generation([1, 2, 3], [0.0, 0.0]))


@pytest.mark.parametrize("ids", [[10**7], [-1], [199_998]])
def test_ids_outside_the_vocabulary(ids: list[int]) -> None:
    with pytest.raises(ConfigError, match="give rollout a codec over its own tokeniser"):
        run(lambda prompt: ids)
    with pytest.raises(ConfigError, match="both encode and decode, or neither"):
        ChatMLCodec(encode=CODEC.encode)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 199_997), max_size=12), min_size=1, max_size=6))
def test_a_policy_that_emits_garbage(samples: list[list[int]]) -> None:
    turns = [*samples, []]
    prompts: list[list[int]] = []

    def generate(prompt: list[int]) -> list[int]:
        prompts.append(prompt)
        return turns[len(prompts) - 1]

    segments, _, trajectory = run(generate)
    assert sampled(segments) == [token for ids in turns[: len(prompts)] for token in ids]
    assert trajectory.usage.turns == len(trajectory.steps) == len(prompts)


BROKEN = ["<tool_call>{", "<tool_call>not json</tool_call>", '<tool_call>{"name": "fly", "arguments": {}}</tool_call>']


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from([*map(call, [take("a"), take("b", "c"), drop("a"), drop("b", "c"), drop("z")]), *BROKEN]),
        max_size=7,
    )
)
def test_any_course_of_calls_is_laid_down_exactly(texts: list[str]) -> None:
    policy = Script(*texts, "done")
    segments, _, trajectory = run(policy)
    assert sampled(segments) == [t for answer in policy.answers for t in answer.token_ids]
    for before, after in itertools.pairwise(segments):
        assert after.token_ids[: after.branch] == before.token_ids[: after.branch]
    prunes = sum(bool(step.pruned) for step in trajectory.steps)
    assert len(segments) == 1 + prunes
    assert segments[-1].leaf == (trajectory.steps[-2].leaf if len(trajectory.steps) > 1 else trajectory.opening_leaf)


def test_a_few_shot_opening_is_encoded_as_it_stands() -> None:
    class FewShot(ShelfEnv):
        def opening(self, task: ag.Task) -> list[Message]:
            example = [Message("user", (ag.Part("2?"),)), Message("assistant", (ag.Part("two"),))]
            return [*example, *super().opening(task)]

    policy = Script(*PRUNING)
    run(policy, FewShot())
    assert f"{CODEC.OPEN}assistant\ntwo{CODEC.CLOSE}\n" in CODEC._decode(policy.prompts[0])
    assert all(f"{CODEC.OPEN}assistant\ntwo{CODEC.CLOSE}\n" in CODEC._decode(prompt) for prompt in policy.prompts)


def test_the_turn_limit_ends_a_rollout() -> None:
    env = ShelfEnv(Profile(name="short", budget_tokens=None, max_turns=2))
    segments, reward, trajectory = run(Script(*GROWING), env)
    assert trajectory.stop is StopReason.TURN_LIMIT
    assert (len(segments), reward) == (1, 0.0)


def test_the_policys_own_counts_and_the_record() -> None:
    env = ShelfEnv()
    policy = Script(*PRUNING)
    _, _, trajectory = run(policy, env)
    for step, prompt, answer in zip(trajectory.steps, policy.prompts, policy.answers, strict=True):
        assert step.turn.usage is not None
        assert (step.turn.usage.tokens_in, step.turn.usage.tokens_out) == (len(prompt), len(answer.token_ids))
    assert replay(env, trajectory).problems == ()


@pytest.fixture
def registered() -> Iterator[str]:
    """The environment under an id, as a package would register it."""
    gym.register("Shelf-v0", entry_point="tests.rollouts.shelf_env:ShelfEnv")
    yield "Shelf-v0"
    del gym.registry["Shelf-v0"]


def test_ag_episode_opens_what_reset_would(registered: str) -> None:
    session = ag.episode(registered, seed=4, profile=PROFILE)
    env = ShelfEnv()
    assert session.view.id == env.reset(seed=4)[0].id == ag.episode(registered, task="shelf").view.id
    assert (session.done, session.tools) == (False, env.specs)
    asyncio.run(session.step(ag.Turn("a")))
    assert session.done
    assert session.outcome().score.value == 1.0
    assert session.trajectory().answer == "a"
    with pytest.raises(UnknownName, match="unknown task 'shelv'; did you mean shelf"):
        ag.episode(registered, task="shelv")
    with pytest.raises(ConfigError, match="'NoSuch-v0' is not registered"):
        ag.episode("NoSuch-v0")
