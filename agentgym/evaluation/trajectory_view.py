"""A trajectory as a reader sees it: turn by turn, with what was later pruned marked where it was shown.

Plain data for the report's template, which escapes it. Nothing here is trusted: texts, names, ids and arguments are the
agent's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.core.records import Message, Part, Step, Trajectory, Truth
from agentgym.envs.prune_search.score import document_of
from agentgym.evaluation.frames import recall_series
from agentgym.rollouts.manifest import EpisodeRow

_USAGE_LINE = re.compile(r"\[Token usage: [\d,]+/([\d,]+)\]")
_HEAD_CHARS = 170
_TEXT_CHARS = 6_000  # one result may be a whole document; the rest is counted, not shown


@dataclass(frozen=True)
class PartView:
    """A piece of a message: `head` always visible, `rest` on demand. Chunks carry the turn that pruned them."""

    head: str
    rest: str
    left_out: int
    chunk: str | None = None
    pruned_in: int | None = None
    relevant: bool = False
    usage_line: bool = False


@dataclass(frozen=True)
class CallView:
    """A call and what became of it."""

    name: str
    arguments: str
    error: str | None
    parts: tuple[PartView, ...]


@dataclass(frozen=True)
class TurnView:
    """A turn; `share` of the budget is in use after it, in percent."""

    number: int
    content: PartView
    reasoning: str
    calls: tuple[CallView, ...]
    notes: tuple[CallView, ...]
    pruned: tuple[str, ...]
    used_tokens: int
    share: float
    recall: float | None
    answer: bool


@dataclass(frozen=True)
class TrajectoryView:
    """An episode for the page."""

    label: str
    series: int
    row: EpisodeRow
    opening: tuple[tuple[str, PartView], ...]
    turns: tuple[TurnView, ...]
    budget_tokens: int
    budget_known: bool


def view(label: str, series: int, row: EpisodeRow, trajectory: Trajectory, truth: Truth | None) -> TrajectoryView:
    """Prepare a trajectory. `truth` marks the chunks that hold something relevant and gives recall after each turn."""
    budget = _budget(trajectory)
    top = budget or max((step.used for step in trajectory.steps), default=0) or 1
    marks = _Marks(trajectory, truth)
    recalls = recall_series(trajectory, truth)
    last = len(trajectory.steps)
    turns = tuple(
        _turn(number, step, marks, top, recall, answer=number == last and bool(trajectory.answer))
        for number, (step, recall) in enumerate(zip(trajectory.steps, recalls, strict=True), 1)
    )
    opening = tuple((message.role, _text(message.text)) for message in trajectory.opening)
    return TrajectoryView(label, series, row, opening, turns, top, budget is not None)


class _Marks:
    """When each chunk was pruned, and which chunks are relevant."""

    def __init__(self, trajectory: Trajectory, truth: Truth | None) -> None:
        self._pruned: dict[str, list[int]] = {}
        for number, step in enumerate(trajectory.steps, 1):
            for chunk in step.pruned:
                self._pruned.setdefault(chunk, []).append(number)
        payload: Mapping[str, Any] = {} if truth is None else truth.payload
        self._relevant = frozenset(payload.get("relevant", ()))
        self._documents = payload.get("level") == "document"

    def pruned_after(self, chunk: str, shown: int) -> int | None:
        """The first later turn that pruned it: a call sees the state before its turn, so never the same one."""
        return next((turn for turn in self._pruned.get(chunk, ()) if turn > shown), None)

    def relevant(self, chunk: str) -> bool:
        """Whether the truth names the chunk, or its document where it judges documents."""
        return (document_of(chunk) if self._documents else chunk) in self._relevant


def _turn(number: int, step: Step, marks: _Marks, top: int, recall: float | None, *, answer: bool) -> TurnView:
    results = [message for message in step.messages if message.role == "tool"]
    others = [message for message in step.messages if message.role not in ("tool", "assistant")]
    calls = []
    for call, message in itertools.zip_longest(step.turn.tool_calls, results):
        name = call.name if call is not None else "?"
        arguments = call.arguments if call is not None else ""
        error = message.error if message is not None else "not run"
        parts = () if message is None else _parts(message, number, marks)
        calls.append(CallView(_clip(name, 80), _clip(arguments, 600), error, parts))
    notes = tuple(CallView(message.role, "", message.error, _parts(message, number, marks)) for message in others)
    return TurnView(
        number,
        _text(step.turn.content),
        _clip(step.turn.reasoning, _TEXT_CHARS),
        tuple(calls),
        notes,
        step.pruned,
        step.used,
        round(min(100.0, 100 * step.used / top), 2),
        recall,
        answer,
    )


def _parts(message: Message, number: int, marks: _Marks) -> tuple[PartView, ...]:
    return tuple(_part(part, number, marks) for part in message.parts)


def _part(part: Part, number: int, marks: _Marks) -> PartView:
    if part.chunk is None:
        return _text(part.text, usage_line=_USAGE_LINE.fullmatch(part.text) is not None)
    return _text(
        part.text.removeprefix(f"[{part.chunk}]\n"),  # the id stands beside it
        chunk=part.chunk,
        pruned_in=marks.pruned_after(part.chunk, number),
        relevant=marks.relevant(part.chunk),
    )


def _text(text: str, **marks: Any) -> PartView:
    shown = text[:_TEXT_CHARS]
    if len(shown) <= 1.5 * _HEAD_CHARS:
        return PartView(shown, "", len(text) - len(shown), **marks)
    cut = shown.rfind(" ", _HEAD_CHARS // 2, _HEAD_CHARS)
    cut = cut if cut > 0 else _HEAD_CHARS
    return PartView(shown[:cut], shown[cut:], len(text) - len(shown), **marks)


def _clip(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text) - chars:,} more characters)"


def _budget(trajectory: Trajectory) -> int | None:
    """The budget that the usage line names; None for a profile without one."""
    for step in trajectory.steps:
        for message in step.messages:
            for part in message.parts:
                found = _USAGE_LINE.search(part.text) if part.chunk is None else None
                if found is not None:
                    return int(found[1].replace(",", ""))
    return None
