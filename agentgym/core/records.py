"""The records that everything else passes around: frozen, typed, and the same on disk, on the wire and in memory.

Files open with a header line that names a schema such as `trajectory/1`; within a version an unknown key is an error.
`ext` fields are free for users and stay outside every hash.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

from agentgym.core import hashing
from agentgym.core.errors import DataError

Role = Literal["system", "user", "assistant", "tool"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all records: frozen, strict, compact on disk."""


class Part(Record, frozen=True, gc=False):
    """A piece of a message. `chunk` names the corpus chunk it shows; `tokens` is its count by the pinned counter."""

    text: str
    chunk: str | None = None
    tokens: int = 0


class ToolCall(Record, frozen=True, gc=False):
    """A call as the model wrote it: `arguments` is the raw JSON string, valid or not. `tokens` is set by the harness."""

    id: str
    name: str
    arguments: str
    tokens: int = 0


class Message(Record, frozen=True, gc=False):
    """One message of a conversation. `call_id` ties a tool result to its call; `error` is the kind of a failed one."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        """All parts, joined by newlines."""
        return "\n".join([part.text for part in self.parts])


class Usage(Record, frozen=True, gc=False):
    """Counts of one turn or the sum of many. Tokens by the policy's own tokeniser where it reports them."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    calls: int = 0
    turns: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            self.calls + other.calls,
            self.turns + other.turns,
        )


class Turn(Record, frozen=True, gc=False):
    """The action: what an agent says and which tools it calls. No calls at all is the final answer.

    `raw` is the model's text before parsing and `malformed` says why parts of it could not be read as calls: the
    harness answers with an error result and counts it; it is never dropped.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    raw: str | None = None
    malformed: str | None = None
    usage: Usage | None = None


class ToolSpec(Record, frozen=True):
    """What an agent is told of a tool: name, description, JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Task(Record, frozen=True):
    """A task as agents may see it. `cluster` groups tasks that share a source, for honest intervals; no truth in here."""

    id: str
    family: str
    prompt: str
    cluster: str = ""
    payload: dict[str, Any] = {}

    def digest(self) -> str:
        """Content hash of the task."""
        return hashing.digest(self)


class Truth(Record, frozen=True):
    """What scoring knows of a task; kept in a file of its own and never shown to an agent."""

    id: str
    family: str
    payload: dict[str, Any] = {}


class StopReason(StrEnum):
    """Why an episode ended by its own rules."""

    ANSWER = "answer"
    TURN_LIMIT = "turn_limit"
    CONTEXT_EXHAUSTED = "context_exhausted"
    CANCELLED = "cancelled"
    ERROR = "error"


class Status(StrEnum):
    """How an episode ended for the runner; all count in the denominator."""

    COMPLETED = "completed"
    TRUNCATED = "truncated"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"


class Effect(Record, frozen=True):
    """A recorded result of something that is not a pure function, with the rule by which a replay checks it.

    `rule`: `exact`, `ranking` (no inversion above 1e-5 by the verifier's own scores), `normalised`, `recorded-only`.
    `request` is the hash of what was asked; `value` is JSON.
    """

    rule: Literal["exact", "ranking", "normalised", "recorded-only"]
    request: str
    value: Any


class CallResult(Record, frozen=True, gc=False):
    """What became of one call: `error` is None or the kind of failure; `tokens` is the size of its result."""

    name: str
    error: str | None = None
    tokens: int = 0


class Step(Record, frozen=True, gc=False):
    """One turn of an episode: the action as sent, what became of its calls, what was pruned, the messages it added.

    `shown` are chunk ids that this turn brought into view, in order; `pruned` those it took out. `used` is the context in
    tokens after the turn, `leaf` the id of the view after it.
    """

    turn: Turn
    results: tuple[CallResult, ...] = ()
    shown: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    effects: tuple[Effect, ...] = ()
    used: int = 0
    leaf: str = ""


class Trajectory(Record, frozen=True):
    """The full, unpruned record of one episode; scoring reads nothing else but task and truth.

    `opening` are the messages before the first turn; every later message is in its step. `parent` is the snapshot this
    episode was branched from, if any.
    """

    env: str
    fingerprint: str
    task: str
    task_hash: str
    seed: int
    opening: tuple[Message, ...]
    steps: tuple[Step, ...]
    stop: StopReason | None
    usage: Usage
    opening_leaf: str = ""
    parent: str | None = None
    reward: dict[str, Any] = {}
    ext: dict[str, Any] = {}

    @property
    def answer(self) -> str:
        """Text of the final answer, empty when none was given."""
        return self.steps[-1].turn.content if self.steps and self.stop is StopReason.ANSWER else ""


class Score(Record, frozen=True):
    """`value` is the headline in [0, 1] (None without judgements); `metrics` all others by name."""

    value: float | None
    metrics: dict[str, float | None] = {}


def settings_of(record: Record | None) -> dict[str, Any]:
    """All fields of a record of settings, defaults written out: what a trajectory keeps must not depend on later defaults."""
    return {} if record is None else msgspec.structs.asdict(record)


def upgrade(schema: str, expected: str) -> None:
    """Accept the schema of a file or say what to do; upgraders of older versions are added here, one pure function each."""
    if schema != expected:
        kind = expected.partition("/")[0]
        hint = f"update agentgym to read {schema}" if schema.startswith(f"{kind}/") else f"this is no {kind} file"
        raise DataError(f"schema {schema!r} cannot be read as {expected!r}: {hint}")
