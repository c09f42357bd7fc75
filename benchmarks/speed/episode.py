"""Speed of the harness: environment steps per CPU-second, without any search, against other ways to play the same game.

    python benchmarks/speed/episode.py                                   # about two minutes
    python benchmarks/speed/episode.py --gem-python /path/to/bin/python  # beside gem-llm, from an interpreter that has it
    python benchmarks/speed/episode.py --quick                           # for tests

A scripted episode looks keys of a table up, turn by turn, and answers. `text` is the game as a history-free text
environment behind `gym.make`, `tools` is a `ToolEnv` behind `gym.make`; both draw a table at each reset. Drawing takes a
third of the text environment's time, so both are given with tables drawn before, too: the difference of those two is what
the harness costs. The text environment calls `super().reset(seed=seed)`, as Gymnasium asks, which seeds a generator
at once; `ToolEnv` seeds its own when somebody draws from it. Ids, messages and counts are made when asked for: the
rates with `view.id`, with `view.messages` and with the token budget on (o200k) are given apart.

Contestants take turns, round by round, in one run on one thread; a figure is the median over rounds and a ratio the median
of the rounds' ratios. The last part lets a vector environment copy its observations, and shows that it costs nothing.
Results: `benchmarks/results/speed_episode.json` and `.svg`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
from _kv import ANSWER, CALL, QUESTION, THOUGHT, cpu_s, draw, keys, padding, play, texts  # noqa: E402

import agentgym as ag  # noqa: E402
from agentgym.envs.wrappers import TextActions  # noqa: E402
from agentgym.rollouts.manifest import machine, versions  # noqa: E402

TABLES = 64
SIZES = ((8, 200), (32, 2000), (128, 200))
TARGETS = {"text": {(8, 200): 0.7}, "gem-llm": {(8, 200): 1.0, (32, 2000): 1.5}}


class TextSpace(gym.Space[str]):
    """Texts of any kind."""

    def __init__(self) -> None:
        super().__init__(None, str)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "x"


class TextGame(gym.Env[str, str]):
    """The game as a plain text environment without history."""

    def __init__(self, turns: int, chars: int, drawn: bool = False) -> None:
        self.observation_space = self.action_space = TextSpace()
        self.turns, self.padding = turns, padding(chars)
        self.tables = [draw(seed) for seed in range(TABLES)] if drawn else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.facts = draw(seed) if self.tables is None else self.tables[(seed or 0) % TABLES]
        self.turn = 0
        return QUESTION, {"turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        info = {"turn": self.turn}
        found = ANSWER.search(action)
        if found:
            return "done", float(found[1].strip() == self.facts["k00"]), True, False, info
        found = CALL.search(action)
        if found:
            result = f"<result>{self.facts.get(found[1], 'missing')}</result>{self.padding}"
            return result, 0.0, self.turn >= self.turns + 2, False, info
        return "error: no tool call", -0.1, self.turn >= self.turns + 2, False, info


class Tools(ag.Toolset):
    """The game's only tool."""

    def __init__(self, facts: dict[str, str], padding: str) -> None:
        self.facts, self.padding = facts, padding

    @ag.tool
    def lookup(self, key: str) -> str:
        """The value stored under a key."""
        return f"<result>{self.facts.get(key, 'missing')}</result>{self.padding}"


class ToolGame(ag.ToolEnv):
    """The game with the harness."""

    name, family, tools = "ToolGame-v0", "speed", Tools

    def __init__(self, turns: int, chars: int, drawn: bool = False, budget_tokens: int | None = None) -> None:
        tasks = [ag.Task(f"t{seed}", "speed", QUESTION, payload={"table": seed}) for seed in range(TABLES)]
        truths = {task.id: ag.Truth(task.id, "speed", {"value": draw(i)["k00"]}) for i, task in enumerate(tasks)}
        self.tables = [draw(seed) for seed in range(TABLES)] if drawn else None
        profile = ag.Profile(
            name="speed",
            budget_tokens=budget_tokens,
            soft_tokens=budget_tokens,
            hard_tokens=budget_tokens,
            max_turns=turns + 2,
        )
        super().__init__(tasks, profile, truths=truths)
        self.padding = padding(chars)

    def toolset(self, task: ag.Task, seed: int) -> Tools:
        table = task.payload["table"]
        return Tools(draw(table) if self.tables is None else self.tables[table], self.padding)

    def opening(self, task: ag.Task) -> Sequence[ag.Message]:
        return [ag.Message("user", (ag.Part(task.prompt),))]

    def score(self, task: ag.Task, truth: ag.Truth, trajectory: ag.Trajectory) -> ag.Score:
        return ag.Score(float(trajectory.answer.strip() == truth.payload["value"]))


def turns_of(turns: int) -> list[ag.Turn]:
    """The episode as turns."""
    calls = [ag.ToolCall("c0", "lookup", f'{{"key": "{key}"}}') for key in keys(turns)]
    return [ag.Turn(THOUGHT, tool_calls=(call,)) for call in calls] + [ag.Turn("v00")]


def written(turns: int) -> list[str]:
    """The episode as a model writes turns."""
    call = '{} <tool_call>{{"name": "lookup", "arguments": {{"key": "{}"}}}}</tool_call>'
    return [call.format(THOUGHT, key) for key in keys(turns)] + ["v00"]


def contestants(turns: int, chars: int) -> dict[str, Callable[[int], None]]:
    """Name → function that plays an episode, for all that run in this process."""
    text = partial(gym.make, "TextGame-v0", turns=turns, chars=chars)
    tools = partial(gym.make, "ToolGame-v0", turns=turns, chars=chars)
    return {
        "text": play(text(), texts(turns)),
        "text, drawn before": play(text(drawn=True), texts(turns)),
        "tools": play(tools(), turns_of(turns)),
        "tools, drawn before": play(tools(drawn=True), turns_of(turns)),
        "tools, view.id each step": play(tools(), turns_of(turns), lambda view: view.id),
        "tools, view.messages each step": play(tools(), turns_of(turns), lambda view: view.messages),
        "tools, token budget": play(tools(budget_tokens=1_000_000), turns_of(turns)),
        "tools, actions as text": play(TextActions(tools()), written(turns)),
    }


class Gem:
    """gem-llm in a process of its own, asked for CPU seconds round by round."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, str(HERE / "_gem.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self._line().removeprefix("gem-llm ")

    def cpu_s(self, turns: int, chars: int, episodes: int) -> float:
        """CPU seconds of that many episodes."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{turns} {chars} {episodes}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"--gem-python: {self.process.args!r} ended with status {self.process.wait()}")
        return line


def measure(turns: int, chars: int, gem: Gem | None, rounds: int, round_s: float) -> dict[str, Any]:
    """Rates of all contestants at one size, and ratios to those of others."""
    runs = contestants(turns, chars)
    episodes = {}
    for name, run in runs.items():
        cpu_s(run, 20)
        episodes[name] = max(2, int(round_s / (cpu_s(run, 20) / 20)))
    rates: dict[str, list[float]] = {name: [] for name in (*runs, *(["gem-llm"] if gem else []))}
    for _ in range(rounds):
        for name, run in runs.items():
            rates[name].append(turns * episodes[name] / cpu_s(run, episodes[name]))
        if gem:
            number = episodes["tools"]
            rates["gem-llm"].append(turns * number / gem.cpu_s(turns, chars, number))
    harness_us = 1e6 * (
        1 / statistics.median(rates["tools, drawn before"]) - 1 / statistics.median(rates["text, drawn before"])
    )
    pairs = (("tools", "text"), ("tools, drawn before", "text, drawn before"), ("tools", "gem-llm"))
    ratios = {
        f"{mine} / {other}": round(statistics.median(np.divide(rates[mine], rates[other])), 3)
        for mine, other in pairs
        if other in rates
    }
    return {
        "turns": turns,
        "chars": chars,
        "steps_per_cpu_s": {name: round(statistics.median(values)) for name, values in rates.items()},
        "spread": {name: [round(value) for value in np.percentile(values, [10, 90])] for name, values in rates.items()},
        "ratios": ratios,
        "harness_us_per_step": round(harness_us, 2),
    }


def copies(turns: int, rounds: int, episodes: int) -> dict[str, Any]:
    """CPU microseconds per step in a vector environment that copies observations, and in one that does not."""
    action = turns_of(turns)
    found: dict[str, list[float]] = {"copied": [], "not copied": []}
    vectors = {
        name: gym.vector.SyncVectorEnv([lambda: ToolGame(turns, 200)] * 4, copy=name == "copied") for name in found
    }
    for name, env in vectors.items():
        assert isinstance(env.reset(seed=0)[0], tuple), name
    for _ in range(rounds):
        for name, env in vectors.items():
            start = time.process_time()
            for seed in range(episodes):
                env.reset(seed=seed)
                for turn in action:
                    env.step((turn,) * 4)
            found[name].append(1e6 * (time.process_time() - start) / (episodes * turns * 4))
    medians = {name: round(statistics.median(values), 2) for name, values in found.items()}
    ratio = statistics.median(np.divide(found["copied"], found["not copied"]))
    return {"turns": turns, "us_per_step": medians, "copied / not copied": round(ratio, 3)}


def chart(figures: dict[str, Any], path: Path) -> None:
    """Bars of rates at each size, and the cost of copies."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "agentgym"
    fig, axes = plt.subplots(1, len(figures["sizes"]) + 1, figsize=(15, 4), layout="constrained")
    for ax, size in zip(axes, figures["sizes"], strict=False):
        names = list(size["steps_per_cpu_s"])
        ax.barh(names[::-1], [size["steps_per_cpu_s"][name] / 1000 for name in names[::-1]], color="tab:blue")
        ax.set(title=f"{size['turns']} turns × {size['chars']:,} characters", xlabel="1,000 steps per CPU-second")
    for ax in axes[1:-1]:
        ax.set_yticklabels([])
    turns = [row["turns"] for row in figures["copies"]]
    for name in figures["copies"][0]["us_per_step"]:
        axes[-1].plot(turns, [row["us_per_step"][name] for row in figures["copies"]], marker="o", label=name)
    axes[-1].set(title="vector environment", xlabel="turns", ylabel="CPU µs per step", ylim=(0, None))
    axes[-1].legend()
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the harness, against text environments and gem-llm.")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; figures mean little")
    parser.add_argument("--gem-python", default=os.environ.get("AGENTGYM_GEM_PYTHON"), help="interpreter with gem-llm")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "speed_episode.json")
    options = parser.parse_args()
    rounds, round_s = (3, 0.002) if options.quick else (25, 0.1)
    gym.register("TextGame-v0", entry_point=f"{__name__}:TextGame", max_episode_steps=1000)
    gym.register("ToolGame-v0", entry_point=f"{__name__}:ToolGame")
    gem = Gem(options.gem_python) if options.gem_python else None
    sizes = [measure(turns, chars, gem, rounds, round_s) for turns, chars in SIZES]
    if gem:
        gem.close()
    figures = {
        "command": "python benchmarks/speed/episode.py" + (" --gem-python PYTHON" if gem else ""),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "gem-llm": gem.version if gem else "not run: give --gem-python",
        "seed": f"tables of seeds 0 to {TABLES - 1}",
        "load": [round(value, 2) for value in os.getloadavg()],
        "rounds": rounds,
        "targets": [
            {"turns": turns, "chars": chars, "tools / " + other: least}
            for other, rows in TARGETS.items()
            for (turns, chars), least in rows.items()
        ],
        "sizes": sizes,
        "copies": [copies(turns, *((3, 1) if options.quick else (15, 10))) for turns in (8, 32, 128)],
    }
    options.out.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    chart(figures, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
