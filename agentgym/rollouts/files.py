"""How a run folder touches the disk: files that appear whole, files that grow by whole pieces, a lock.

Each leaves the folder readable whatever happens in the middle: a kill, Ctrl-C, a full disk.
"""

from __future__ import annotations

import fcntl
import os
import socket
import weakref
from pathlib import Path

from agentgym.core.errors import ConfigError, DataError, InfraError


class Appender:
    """A file that grows by whole pieces: a write that fails is taken back."""

    def __init__(self, path: Path, whole: int) -> None:
        """Open and cut to the first `whole` bytes: what stands after them was torn by a kill."""
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._fd, whole)
        except OSError as error:
            raise unwritable(path, error) from error
        self._size = whole

    def append(self, data: bytes) -> None:
        """Add a piece, or raise InfraError and leave the file as it was."""
        try:
            _write_all(self._fd, data)
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise unwritable(self._path, error) from error
        except BaseException:  # Ctrl-C in the middle: no half line may stay before the next one
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Lock:
    """The right to write a run folder. The kernel drops it when its process ends, so it cannot go stale."""

    _held: weakref.WeakSet[Lock] = weakref.WeakSet()
    _hooked = False

    def __init__(self, folder: Path) -> None:
        path = folder / "writer.lock"
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._fd, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(self._fd)
            raise ConfigError(
                f"{folder} is being written by {owner}: wait for it, stop it, or give another folder"
            ) from error
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except OSError as error:
            os.close(self._fd)
            raise unwritable(path, error) from error
        Lock._held.add(self)
        if not Lock._hooked:  # a forked worker that outlives its parent must not keep the lock
            os.register_at_fork(after_in_child=Lock._forget)
            Lock._hooked = True

    def release(self) -> None:
        """Give the right back; twice does nothing."""
        if self in Lock._held:
            Lock._held.discard(self)
            os.close(self._fd)

    @classmethod
    def _forget(cls) -> None:
        for lock in list(cls._held):
            lock.release()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either there and whole, or not there."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for a file of a run that is there and cannot be read."""
    return DataError(f"{path} cannot be read ({error.strerror or error}): allow it, or restore the file")


def unwritable(path: Path, error: OSError) -> InfraError:
    """The error for a write that the system refused: says which, why, and that nothing is lost."""
    return InfraError(
        f"{path} cannot be written ({error.strerror or error}): make room or allow it, then give the same command "
        "again; all finished episodes are kept"
    )
