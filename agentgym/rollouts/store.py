"""A run on disk: a folder that survives kills, full disks and doubt.

    run.json                          the plan and how the run was made (`RunManifest`)
    episodes.jsonl                    a header line, then one `EpisodeRow` a finished episode
    trajectories/<sha256>.jsonl.zst   one a trajectory, named by the end of its hash chain
    texts.jsonl.zst                   corpus texts that trajectories refer to, each once; a zstd frame an episode
    writer.lock                       held by the one process that writes

An episode counts when its line in `episodes.jsonl` is whole, and that line is written last: texts, then the trajectory
under a temporary name, then its rename, then the line. A process killed at any byte therefore loses at most the episode
in flight, and what it left behind (a torn line, a torn frame, a temporary file) is removed when the run is continued.
There is no fsync: a kill of the process loses nothing that was written, a power cut may (our choice: fsync would cost
more than most episodes). `verify` tells.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from agentgym.core import hashing, records
from agentgym.core.errors import AgentgymError, ConfigError, DataError, Tampered
from agentgym.core.graph import message_tokens
from agentgym.core.records import Status, Trajectory
from agentgym.rollouts import trajectory_file
from agentgym.rollouts.files import Appender, Lock, unreadable, unwritable, write_whole
from agentgym.rollouts.manifest import EPISODES_SCHEMA, RUN_SCHEMA, EpisodeRow, Key, Planned, RunManifest
from agentgym.rollouts.texts import Texts

__all__ = ["EpisodeRow", "Key", "Planned", "RunManifest", "RunStore"]

_ROW = msgspec.json.Decoder(EpisodeRow)
_ROUNDING = 1e-9
_HEADER = hashing.canonical({"schema": EPISODES_SCHEMA}) + b"\n"


class RunStore:
    """A run folder. `create` opens it for writing (a new run, or the same one again), `open` for reading only.

    Not for several threads at once: the runner's one event loop writes. Usable in a `with` statement.
    """

    def __init__(self, path: Path, manifest: RunManifest, lock: Lock | None) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._plan = {(episode.task, episode.trial): i for i, episode in enumerate(manifest.episodes)}
        self._texts = Texts(path / "texts.jsonl.zst", writer=lock is not None)
        self._rows, whole = _read_rows(path / "episodes.jsonl", self._plan)
        self._headed = whole > 0 or lock is not None
        self._episodes: Appender | None = None
        if lock is not None:
            (path / "trajectories").mkdir(exist_ok=True)
            for left_over in (path / "trajectories").glob("*.tmp"):
                left_over.unlink()
            self._episodes = Appender(path / "episodes.jsonl", whole)
            if not whole:
                self._episodes.append(_HEADER)

    @classmethod
    def create(cls, path: str | os.PathLike[str], manifest: RunManifest) -> Self:
        """Open `path` for writing: a new run, or the continuation of the same one.

        Raises ConfigError when the folder holds another run (naming the first field that differs) or when another
        process writes it, InfraError when it cannot be written.
        """
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error
        lock = Lock(folder)
        try:
            if (folder / "run.json").exists():
                stored = _read_manifest(folder)
                difference = stored.difference(manifest)
                if difference:
                    raise ConfigError(
                        f"{folder} holds another run: {difference}; give another folder, or delete this one"
                    )
                manifest = stored
            elif (folder / "episodes.jsonl").exists():
                raise Tampered(f"{folder} holds episodes but no run.json: restore it, or give another folder")
            else:
                _write_manifest(folder, manifest)
            return cls(folder, manifest, lock)
        except (AgentgymError, OSError) as error:
            lock.release()
            if isinstance(error, OSError) and not isinstance(error, AgentgymError):
                raise unwritable(folder, error) from error
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open `path` for reading, also while another process writes it: what is finished now is what it shows."""
        folder = Path(path)
        return cls(folder, _read_manifest(folder), None)

    def forget(self, statuses: Collection[Status]) -> int:
        """Take finished episodes of these statuses out, so that they are played again; returns how many.

        Their trajectories stay on disk. The file is replaced as a whole: a kill leaves the old one or the new one.
        """
        if self._episodes is None:
            raise ConfigError(f"{self.path} is open for reading only, or closed: write through RunStore.create")
        kept = {key: row for key, row in self._rows.items() if row.status not in statuses}
        forgotten = len(self._rows) - len(kept)
        if forgotten:
            file = self.path / "episodes.jsonl"
            data = _HEADER + b"".join(hashing.canonical_strict(row) + b"\n" for row in kept.values())
            self._episodes.close()
            write_whole(file, data)
            self._episodes = Appender(file, len(data))
            self._rows = kept
        return forgotten

    def done(self) -> set[Key]:
        """`(task, trial)` of every finished episode, whatever its status."""
        return set(self._rows)

    def rows(self) -> list[EpisodeRow]:
        """Finished episodes in the order of the plan, however they finished."""
        return [self._rows[key] for key in sorted(self._rows, key=self._plan.__getitem__)]

    def add(self, row: EpisodeRow, trajectory: Trajectory | None = None) -> EpisodeRow:
        """Record a finished episode; returns the row as stored, with the trajectory's hashes filled in.

        All or nothing. Raises ConfigError for an episode that is not in the plan or already recorded, InfraError when
        the disk refuses; the store stays usable and the same call may be made again.
        """
        if self._episodes is None:
            raise ConfigError(f"{self.path} is open for reading only, or closed: write through RunStore.create")
        if row.key not in self._plan:
            raise ConfigError(f"task {row.task!r}, trial {row.trial} is not in the plan of {self.path}")
        if row.key in self._rows:
            raise ConfigError(f"task {row.task!r}, trial {row.trial} is already recorded in {self.path}")
        if trajectory is not None:
            if (trajectory.task, trajectory.seed) != (row.task, row.seed):
                raise ConfigError(
                    f"row and trajectory differ: task {row.task!r} seed {row.seed} against "
                    f"task {trajectory.task!r} seed {trajectory.seed}"
                )
            link, data, texts = trajectory_file.encode(trajectory)
            self._texts.add(texts)
            digest = self._write_trajectory(link, data)
            row = msgspec.structs.replace(row, trajectory=link, file=digest, ext=trajectory.ext)
        self._episodes.append(hashing.canonical_strict(row) + b"\n")
        self._rows[row.key] = row
        return row

    def trajectory(self, which: EpisodeRow | str) -> Trajectory:
        """The trajectory of a row (or by its hash alone, then without `ext`), every hash checked.

        Raises Tampered, naming file and line, for anything that is not as it was written.
        """
        row = None if isinstance(which, str) else which
        link = which if isinstance(which, str) else which.trajectory
        if row is not None and not link:
            raise DataError(f"task {row.task!r}, trial {row.trial} left no trajectory ({row.status})")
        file = self._file(link)
        name = f"trajectories/{file.name}"
        try:
            data = file.read_bytes()
        except FileNotFoundError as error:
            raise Tampered(f"{name} is missing from {self.path}") from error
        except OSError as error:
            raise unreadable(file, error) from error
        found = trajectory_file.decode(data, name, link, lambda key: self._texts.get(key, name))
        if row is None:
            return found
        if hashing.sha256(data) != row.file:
            raise Tampered(f"{name}: its lines are whole, but its bytes are not those that were written")
        return msgspec.structs.replace(found, ext=row.ext) if row.ext else found

    def verify(self) -> list[str]:
        """Every problem of the folder, each naming file and line; empty when all is as it was written."""
        problems = self._texts.problems()
        if not self._headed:
            problems.append("episodes.jsonl is missing, or lacks its header line: rows may have been lost")
        for row in self.rows():
            if abs(sum(row.reward_terms.values()) - (row.reward or 0.0)) > _ROUNDING:
                problems.append(
                    f"episodes.jsonl: reward of task {row.task!r}, trial {row.trial} is {row.reward}, its terms add up "
                    f"to {sum(row.reward_terms.values())}"
                )
            if not row.trajectory:
                if row.status is Status.COMPLETED:
                    problems.append(
                        f"episodes.jsonl: task {row.task!r}, trial {row.trial} is {row.status}, but names no trajectory"
                    )
                continue
            try:
                found = self.trajectory(row)
            except DataError as error:
                problems.append(str(error))
                continue
            for field, stored in (
                ("task", found.task),
                ("seed", found.seed),
                ("stop", found.stop),
                ("usage", found.usage),
                ("steps", len(found.steps)),
                ("context_tokens_peak", _peak(found)),
            ):
                if getattr(row, field) != stored:
                    problems.append(
                        f"episodes.jsonl: {field} of task {row.task!r}, trial {row.trial} is "
                        f"{getattr(row, field)!r}, its trajectory says {stored!r}"
                    )
        return problems

    def close(self) -> None:
        """Let go of the files and the lock; further `add` calls are refused, reading goes on."""
        if self._episodes is not None:
            self._episodes.close()
            self._episodes = None
        self._texts.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _file(self, link: str) -> Path:
        return self.path / "trajectories" / f"{link}.jsonl.zst"

    def _write_trajectory(self, link: str, data: bytes) -> str:
        """Write under the name of its content; returns the SHA-256 of the bytes on disk."""
        file = self._file(link)
        if file.exists():  # another trial went exactly the same way, perhaps under another zstd version
            return hashing.file_digest(file)
        write_whole(file, data)
        return hashing.sha256(data)


def _peak(trajectory: Trajectory) -> int:
    """The fullest context of an episode; what it opened with where no turn was taken."""
    return max((step.used for step in trajectory.steps), default=sum(map(message_tokens, trajectory.opening)))


def _read_rows(path: Path, plan: dict[Key, int]) -> tuple[dict[Key, EpisodeRow], int]:
    """Rows by key, and the length in bytes of the whole lines; a torn last line is left out."""
    try:
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise unreadable(path, error) from error
    whole = data.rfind(b"\n") + 1
    rows: dict[Key, EpisodeRow] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            if number == 1:
                records.upgrade(msgspec.json.decode(line, type=dict[str, str])["schema"], EPISODES_SCHEMA)
                continue
            row = _ROW.decode(line)
        except (msgspec.DecodeError, KeyError, DataError) as error:
            raise Tampered(f"{path} line {number} is damaged: {error}") from error
        if row.key not in plan:
            raise Tampered(f"{path} line {number}: task {row.task!r}, trial {row.trial} is not in the plan of run.json")
        if row.key in rows:
            raise Tampered(f"{path} line {number}: task {row.task!r}, trial {row.trial} stands there a second time")
        rows[row.key] = row
    return rows, whole


def _read_manifest(folder: Path) -> RunManifest:
    path = folder / "run.json"
    try:
        content: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        records.upgrade(str(content.pop("schema", "")), RUN_SCHEMA)
        return msgspec.convert(content, RunManifest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(f"{folder} is no run folder: it has no run.json") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Tampered(f"{path} cannot be read: {error}") from error


def _write_manifest(folder: Path, manifest: RunManifest) -> None:
    content = {"schema": RUN_SCHEMA, **msgspec.structs.asdict(manifest)}
    lines = [b'"%b": %b' % (key.encode(), hashing.canonical_strict(value)) for key, value in content.items()]
    write_whole(folder / "run.json", b"{\n" + b",\n".join(lines) + b"\n}\n")  # a field a line: for people, too
