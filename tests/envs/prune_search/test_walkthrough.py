"""The walk-through that the report tells, message by message: search, search, a refusal, prunes, and an answer.

Report (reports.md §1): search → 11k; search → 24k, soft message; search refused (needs 10.4k, 8.5k left); prune three → 13k;
search → 23k; prune one → 18k; search; answer. Chunks are made of the sizes that this takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.core.graph import View
from agentgym.core.records import Task, Truth, Turn
from agentgym.core.tokens import counter
from agentgym.corpus.document import Document
from agentgym.corpus.tasks import TaskSet, write_taskset
from agentgym.envs.prune_search.env import SYSTEM, PruneSearchEnv
from agentgym.harness.episode import SOFT_MESSAGE
from tests.envs.prune_search.world import answer, last, live, prune, search, turn

QUESTION = "Which river is it?"
SIZES = {
    "alpha0": 3_600,
    "alpha1": 3_600,
    "alpha2": 3_700,
    "beta0": 5_200,
    "beta1": 4_300,
    "gamma0": 10_400,
    "delta0": 900,
}
ONE_CALL = 30  # tokens of a search call and the usage line after it, about


def document(name: str, tokens: int) -> Document:
    """A document of one chunk that counts `tokens` with its header."""
    o200k = counter("o200k")
    count = tokens - o200k.count(f"[{name}_0] {name}") - 40
    while o200k.count(f"[{name}_0] {name}") + o200k.count(text := f"{name[:-1]}{' river' * count}.") < tokens:
        count += 1
    return Document(name, text, name)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> PruneSearchEnv:
    """A corpus over which each word of the Greek alphabet finds chunks of known size."""
    o200k = counter("o200k")
    opening = o200k.count(SYSTEM) + o200k.count(QUESTION)
    before = opening + sum(SIZES.values()) - SIZES["gamma0"] - SIZES["delta0"] + 2 * ONE_CALL
    sizes = {**SIZES, "beta2": 24_270 - before}
    truth = Truth("w", "prune-search", {"level": "document", "relevant": ["beta2", "gamma0"], "answer_ids": ["gamma0"]})
    taskset = TaskSet(
        "walk",
        tuple(document(name, tokens) for name, tokens in sizes.items()),
        (Task("w", "prune-search", QUESTION),),
        (truth,),
        {"chunking": {"counter": "o200k", "max_tokens": 12_000, "slack": 0}},
    )
    folder: Path = tmp_path_factory.mktemp("walkthrough")
    write_taskset(taskset, folder)
    return PruneSearchEnv(str(folder), profile="walkthrough")


def used(view: View) -> int:
    """The number on the last usage line."""
    found = re.findall(r"^\[Token usage: ([\d,]+)/32,768\]$", view.messages[-1].text, re.M)
    assert len(found) == 1
    return int(found[0].replace(",", ""))


def thousands(number: int) -> float:
    return round(number / 1000, 1)


def test_the_reports_walk_through(env: PruneSearchEnv) -> None:
    view, _ = env.reset(options={"task": "w"}, seed=0)
    assert [message.role for message in view.messages] == ["system", "user"]
    steps: Iterator[Turn] = iter(
        [
            turn(search("alpha")),
            turn(search("beta")),
            turn(search("gamma")),
            turn(prune("alpha0_0", "alpha1_0", "beta1_0")),
            turn(search("gamma")),
            turn(prune("beta0_0")),
            turn(search("delta")),
            answer("gamma0_0", "beta2_0"),
        ]
    )

    view = env.step(next(steps))[0]
    assert thousands(used(view)) == 11.0
    assert live(view) == ["alpha0_0", "alpha1_0", "alpha2_0"]
    assert SOFT_MESSAGE not in view.messages[-1].text

    view = env.step(next(steps))[0]
    assert round(used(view) / 1000) == 24
    assert last(view).endswith(SOFT_MESSAGE)
    assert set(live(view)) >= {"beta0_0", "beta1_0", "beta2_0"}

    view = env.step(next(steps))[0]
    message = view.messages[-1]
    assert message.error == "over_budget"
    needs, left = re.fullmatch(
        r"error: needs ([\d,]+) tokens, ([\d,]+) left: prune or conclude", message.parts[0].text
    ).groups()  # type: ignore[union-attr]
    assert thousands(int(needs.replace(",", ""))) == 10.4
    assert thousands(int(left.replace(",", ""))) == 8.5
    assert "gamma0_0" not in live(view)
    assert round(used(view) / 1000) == 24
    assert SOFT_MESSAGE not in message.text  # said once

    before = view
    view = env.step(next(steps))[0]
    assert round(used(view) / 1000) == 13
    assert view.messages[-1].parts[0].text == "pruned 3 chunks, 11,500 tokens"
    assert [part.text for part in view.messages[3].parts][:2] == ["[alpha0_0 pruned]", "[alpha1_0 pruned]"]
    assert view.messages[3].parts[-1] == before.messages[3].parts[-1]  # usage lines are never rewritten
    assert live(view) == [chunk for chunk in live(before) if chunk not in ("alpha0_0", "alpha1_0", "beta1_0")]
    assert view.kept == 3

    view = env.step(next(steps))[0]
    assert round(used(view) / 1000) == 23
    assert live(view)[-1] == "gamma0_0"
    assert last(view).endswith(SOFT_MESSAGE)  # half is passed anew

    view = env.step(next(steps))[0]
    assert round(used(view) / 1000) == 18
    assert "[beta0_0 pruned]" in view.messages[5].text

    view = env.step(next(steps))[0]
    assert round(used(view) / 1000) == 19
    assert live(view)[-1] == "delta0_0"

    view, reward, terminated, truncated, info = env.step(next(steps))
    assert (terminated, truncated, info["stop"]) == (True, False, "answer")
    assert info["score"] == 1.0
    assert info["metrics"]["recall"] == info["metrics"]["precision"] == 1.0
    assert info["metrics"]["prune_accuracy"] == 1.0
    assert reward == pytest.approx(2.0)
    assert "Token usage" not in last(view)
    assert [message.role for message in view.messages] == ["system", "user"] + ["assistant", "tool"] * 7 + ["assistant"]

    assert env.episode is not None
    record = env.episode.trajectory()  # keeps what the view lost
    assert {"alpha0_0", "alpha1_0", "beta0_0", "beta1_0"} <= {chunk for step in record.steps for chunk in step.shown}
    pruned = [step.pruned for step in record.steps]
    assert pruned == [(), (), (), ("alpha0_0", "alpha1_0", "beta1_0"), (), ("beta0_0",), (), ()]
