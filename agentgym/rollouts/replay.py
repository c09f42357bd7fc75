"""Replay: run a trajectory's recorded actions in a fresh environment and compare all that it says.

Recorded effects (rankings, endpoint replies) are fed back and checked by their declared rules; everything else must be
equal: the leaf id of every view, and what each turn's record says besides.
"""

from __future__ import annotations

from agentgym.core.errors import AgentgymError
from agentgym.core.records import Record, Score, Status, Step, StopReason, Trajectory
from agentgym.envs.base import Outcome, ToolEnv, run
from agentgym.harness.effects import ReplayLog
from agentgym.harness.episode import Episode
from agentgym.rollouts.manifest import EpisodeRow
from agentgym.rollouts.play import tags_of


class Replay(Record, frozen=True):
    """What a replay found: `problems` is empty when everything agreed; `outcome` is the replayed score and reward."""

    task: str
    problems: tuple[str, ...]
    outcome: Outcome | None = None


def replay(env: ToolEnv, trajectory: Trajectory, *, score: Score | None = None, verify: bool = True) -> Replay:
    """Play a trajectory again.

    Args:
        env: a fresh environment like the recorded one.
        trajectory: sealed record.
        score: the recorded score, compared too when given.
        verify: check recorded effects by their rules (computes them again); False only feeds them.
    """
    return run(replay_async(env, trajectory, score=score, verify=verify))


async def replay_async(
    env: ToolEnv, trajectory: Trajectory, *, score: Score | None = None, verify: bool = True
) -> Replay:
    """`replay` inside a running event loop."""
    problems: list[str] = []
    fingerprint = env.fingerprint()
    if trajectory.fingerprint != fingerprint:
        problems.append(
            f"recorded in another environment: fingerprint {trajectory.fingerprint[:12]}, this one has {fingerprint[:12]} "
            "(profile, tools, prompts, index or scorer differ)"
        )
        return Replay(trajectory.task, tuple(problems))
    log = ReplayLog([step.effects for step in trajectory.steps], verify=verify)
    try:
        episode = env.open(trajectory.task, trajectory.seed, log)
        problems += await _steps(episode, trajectory)
    except AgentgymError as error:
        return Replay(trajectory.task, (*problems, *log.problems, str(error)))
    problems += log.problems
    if episode.stop is None and trajectory.stop is StopReason.CANCELLED:
        episode.cancel()
    if episode.stop != trajectory.stop:
        problems.append(f"the episode ended with {episode.stop}, on record is {trajectory.stop}")
    outcome = env.outcome(episode.trajectory(sealed=False))
    if score is not None and trajectory.stop is not StopReason.CANCELLED:
        problems += _score_problems(outcome.score, score)
    return Replay(trajectory.task, tuple(problems), outcome)


def check_row(env: ToolEnv, row: EpisodeRow, outcome: Outcome | None) -> list[str]:
    """What a run's row says of an episode that is not so.

    Args:
        env: the environment of the replay.
        row: as recorded.
        outcome: of the replay; None where there is none, and nothing can be said.

    A broken episode has score and reward 0, whatever its trajectory would score. Not checked: `wall_s`, `cost_usd`, `error`.
    """
    if outcome is None:
        return []
    problems = []
    broken = row.status in (Status.AGENT_ERROR, Status.INFRA_ERROR)
    if row.status is Status.COMPLETED and row.stop in (None, StopReason.CANCELLED):
        problems.append(f"status is {row.status}, but the episode was cut ({row.stop})")
    if broken and row.stop not in (None, StopReason.CANCELLED):
        problems.append(f"status is {row.status}, but the episode came to its end ({row.stop})")
    expected = Outcome(Score(0.0), 0.0, {}) if broken else outcome
    problems += _score_problems(expected.score, row.score)
    task = env.task(row.task)
    tags = {key: value for key, value in row.tags.items() if key != "attempts"}
    for name, mine, theirs in (
        ("reward", expected.reward, row.reward),
        ("reward_terms", expected.terms, row.reward_terms),
        ("cluster", task.cluster or task.id, row.cluster),
        ("tags", tags_of(task), tags),
    ):
        if mine != theirs:
            problems.append(f"{name} is {mine}, on record is {theirs}")
    return problems


def _score_problems(mine: Score, recorded: Score) -> list[str]:
    """Each value of a score that differs from the record."""
    problems = []
    if mine.value != recorded.value:
        problems.append(f"score {mine.value} differs from the recorded {recorded.value}")
    for name in sorted(mine.metrics.keys() | recorded.metrics.keys()):
        ours, theirs = mine.metrics.get(name), recorded.metrics.get(name)
        if ours != theirs:
            problems.append(f"metric {name} is {ours}, on record is {theirs}")
    return problems


async def _steps(episode: Episode, trajectory: Trajectory) -> list[str]:
    """Play all turns; stops at the first view that differs and says where."""
    if episode.view.id != trajectory.opening_leaf:
        return ["the opening messages differ from the record"]
    if episode.task.digest() != trajectory.task_hash:
        return [f"task {trajectory.task!r} differs from the recorded one"]
    for number, step in enumerate(trajectory.steps, 1):
        if episode.stop is not None:
            return [f"turn {number}: on record, but the episode has ended ({episode.stop})"]
        view = await episode.step(step.turn)
        difference = _difference(episode.last_step, step)
        if difference:
            return [f"turn {number}: {difference}"]
        if view.id != step.leaf:
            return [f"turn {number}: the view differs from the record (in an earlier message, or in the action itself)"]
    if episode.usage != trajectory.usage:
        return [f"usage is {episode.usage}, on record is {trajectory.usage}"]
    return []


def _difference(lived: Step, recorded: Step) -> str | None:
    """The first field of a turn's record that came out differently; scores are computed from these."""
    for field in ("messages", "results", "shown", "pruned", "used"):
        mine, theirs = getattr(lived, field), getattr(recorded, field)
        if mine == theirs:
            continue
        if field == "used" or len(mine) != len(theirs):
            return f"{field} is {str(mine)[:160]}, on record is {str(theirs)[:160]}"
        place = next(i for i, item in enumerate(mine) if item != theirs[i])
        return f"{field}[{place}] is {str(mine[place])[:160]}, on record is {str(theirs[place])[:160]}"
    return None
