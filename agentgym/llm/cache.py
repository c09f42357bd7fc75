"""Replies on disk by request hash, one file each: what was paid for once is not asked again.

Files are written whole under a temporary name and then renamed, so that workers can share a folder and a killed run
leaves no half reply. A file that cannot be read counts as missing and is written anew: the endpoint can be asked again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from agentgym.core.errors import InfraError
from agentgym.core.records import Record
from agentgym.llm.wire import Reply

_SCHEMA = "llm-reply/1"


class _Entry(Record, frozen=True):
    schema: str
    reply: Reply


class ReplyCache:
    """A folder of replies. Made at the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> Reply | None:
        """The reply stored under a request hash, marked `from_cache`; None without one."""
        try:
            entry = msgspec.json.decode(self._path(key).read_bytes(), type=_Entry)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return msgspec.structs.replace(entry.reply, from_cache=True) if entry.schema == _SCHEMA else None

    def write(self, key: str, reply: Reply) -> None:
        """Store a reply.

        Raises:
            InfraError: the folder cannot be written to.
        """
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                temporary = Path(file.name)
                try:
                    file.write(msgspec.json.encode(_Entry(_SCHEMA, reply)))
                    file.flush()
                    temporary.replace(path)
                except OSError:
                    temporary.unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise InfraError(
                f"cannot store a reply in {self.folder} ({error}): free space, choose another cache= or None"
            ) from error

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
