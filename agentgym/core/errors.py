"""Everything that agentgym raises on purpose, drawn once.

    AgentgymError
    ├── ConfigError          an argument, profile, suite or file is not what it must be
    │   ├── UnknownName      a task, profile, agent, suite or environment that does not exist
    │   └── MissingExtra     an optional dependency is not installed; names the command
    ├── DataError            bytes on disk are not what they must be
    │   ├── CorpusError      a corpus that cannot be read (empty, duplicate ids, wrong encoding)
    │   ├── IndexDamaged     an index whose files are incomplete or altered
    │   ├── IndexMismatch    an index built from another corpus or with other settings
    │   └── Tampered         a trajectory or store whose hashes do not agree
    ├── ReplayMismatch       a replay whose environment answered differently
    ├── EpisodeOver          a step after the end
    ├── ToolError            the agent's fault: becomes an error *result*, never leaves an episode
    └── InfraError           the surroundings' fault: endpoint down, disk full

A bad rollout is data, not an exception: whatever an agent does ends as an error result or as an episode status
(`completed, truncated, agent_error, infra_error`), is kept, and counts in the denominator. Exceptions are for the
person who runs the experiment; each message names the value and the way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AgentgymError(Exception):
    """Base of all errors raised on purpose."""


class ConfigError(AgentgymError, ValueError):
    """An argument, profile, suite or file is not what it must be."""


class UnknownName(ConfigError):
    """A name that is in no table; the message lists near misses."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3)
        if near:
            hint = f"did you mean {', '.join(near)}?"
        elif len(names) <= 12:
            hint = f"known: {', '.join(names) or 'none'}"
        else:
            hint = f"{len(names)} are known, from {names[0]} to {names[-1]}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")
        self.kind, self.name = kind, name

    def __reduce__(self) -> tuple[object, ...]:  # survives the way back from a worker process
        return _rebuild_unknown, (self.kind, self.name, str(self))


def _rebuild_unknown(kind: str, name: str, message: str) -> UnknownName:
    error = UnknownName.__new__(UnknownName)
    Exception.__init__(error, message)
    error.kind, error.name = kind, name
    return error


class MissingExtra(ConfigError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str, *, instead: str = "") -> None:
        way_out = f"; or {instead}" if instead else ""
        super().__init__(f"{module} is not installed: pip install 'agentgym-suite[{extra}]'{way_out}")
        self.module, self.extra, self.instead = module, extra, instead

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_missing, (self.module, self.extra, self.instead)


def _rebuild_missing(module: str, extra: str, instead: str) -> MissingExtra:
    return MissingExtra(module, extra, instead=instead)


class DataError(AgentgymError):
    """Bytes on disk are not what they must be."""


class CorpusError(DataError):
    """A corpus that cannot be read: empty, duplicate ids, wrong encoding, malformed line."""


class IndexDamaged(DataError):
    """An index whose files are incomplete or altered; rebuild it."""


class IndexMismatch(DataError):
    """An index built from another corpus or with other settings than asked for."""


class Tampered(DataError):
    """A trajectory or store whose hashes do not agree; names the file and the line."""


class ReplayMismatch(AgentgymError):
    """A replay in which the environment answered differently from the record."""


class EpisodeOver(AgentgymError):
    """A step was taken after the episode had ended."""


class ToolError(AgentgymError):
    """The agent's fault. The harness turns it into an error result of kind `kind`."""

    def __init__(self, message: str, kind: str = "tool") -> None:
        super().__init__(message)
        self.kind = kind


class InfraError(AgentgymError):
    """The fault of the surroundings (endpoint down, disk full); retried by rule, never blamed on the agent."""
