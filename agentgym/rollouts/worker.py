"""Episodes in processes of their own: `python -m agentgym.rollouts.worker` plays what it is sent and answers as it goes.

A plain subprocess with length-prefixed msgpack on its pipes, not `multiprocessing`: no module of the user's is imported
again, no guard is needed in scripts, and only records cross.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
from typing import Any

import msgspec

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record, Trajectory
from agentgym.rollouts.manifest import EpisodeRow, Planned
from agentgym.rollouts.play import EnvSpec, Player

_LENGTH = struct.Struct(">Q")


class Setup(Record, frozen=True):
    """First message to a worker: what to build. `agent` is a name, `pickled` an agent object of the caller's."""

    spec: EnvSpec
    agent: str | None
    pickled: bytes
    slots: int
    time_limit_s: float | None
    infra_retries: int


class Answer(Record, frozen=True):
    """A finished episode, or the reason why the worker could not start."""

    row: EpisodeRow | None = None
    trajectory: Trajectory | None = None
    failure: str | None = None


def frame(value: Any) -> bytes:
    """A record as one length-prefixed message."""
    body = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next message, None at the end of the stream or when the sender died in the middle of one."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


async def _serve(reader: asyncio.StreamReader, out: int) -> None:
    first = await read_frame(reader)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    try:
        agent = setup.agent if setup.agent is not None else pickle.loads(setup.pickled)
        player = Player(setup.spec, agent, time_limit_s=setup.time_limit_s, infra_retries=setup.infra_retries)
    except Exception as error:  # noqa: BLE001 — told to the parent, which raises it to the user
        _send(out, Answer(failure=f"{type(error).__name__}: {error}"))
        return
    running: set[asyncio.Task[None]] = set()
    while (message := await read_frame(reader)) is not None:
        planned = msgspec.msgpack.decode(message, type=Planned)
        task = asyncio.create_task(_play(player, planned, out))
        running.add(task)
        task.add_done_callback(running.discard)
    if running:  # the parent closes the pipe only when nothing is in flight: it has died
        os._exit(1)


async def _play(player: Player, planned: Planned, out: int) -> None:
    try:
        row, trajectory = await player.play(planned)
    except ConfigError as error:
        _send(out, Answer(failure=str(error)))
    except Exception as error:  # noqa: BLE001 — a fault of our own: the parent must hear of it, or it would wait for ever
        _send(out, Answer(failure=f"task {planned.task!r}: {type(error).__name__}: {error}"))
    else:
        _send(out, Answer(row, trajectory))


def _send(out: int, answer: Answer) -> None:
    data = memoryview(frame(answer))
    while data:
        data = data[os.write(out, data) :]


async def _main() -> None:
    # Answers go to a copy of the pipe, and print() of a library or agent to standard error, where it can do no harm.
    out = os.dup(1)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await _serve(reader, out)


if __name__ == "__main__":
    asyncio.run(_main())
