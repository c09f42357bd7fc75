"""Run many episodes at once: asyncio within a process, worker processes beside it, one writer.

The parent hands each worker as many episodes as it has free slots and stores every result as it arrives, so a kill loses
at most the episodes in flight. What is already in the store is not played again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from agentgym.agents.base import Agent
from agentgym.core.errors import ConfigError, InfraError
from agentgym.core.records import Trajectory
from agentgym.envs.base import run as run_coroutine
from agentgym.rollouts.manifest import EpisodeRow, Planned
from agentgym.rollouts.play import EnvSpec, Player
from agentgym.rollouts.store import RunStore
from agentgym.rollouts.worker import Answer, Setup, frame, read_frame

_GOODBYE_S = 10.0  # a worker with nothing to do gets so long to end by itself
Progress = Callable[[EpisodeRow], None]
Finish = Callable[[EpisodeRow, Trajectory], None]


def run_episodes(
    store: RunStore,
    spec: EnvSpec,
    agent: Agent | str,
    *,
    concurrency: int = 8,
    processes: int = 1,
    time_limit_s: float | None = None,
    infra_retries: int = 2,
    price: Callable[[Trajectory], float | None] | None = None,
    progress: Progress | None = None,
) -> None:
    """Play what of the store's plan is not done yet.

    Args:
        store: open for writing; its plan says which episodes.
        spec: how each process builds the environment.
        agent: a name that the environment knows, or an agent (picklable when `processes > 1`).
        concurrency: episodes live at once, over all processes.
        processes: 1 plays in this process.
        time_limit_s: wall-clock seconds after which an episode is cut as `truncated`. A thread cannot be stopped: a
            blocking tool needs a limit of its own.
        infra_retries: how often an episode that ended as `infra_error` is played again.
        price: cost of an episode in dollars, None where unknown.
        progress: called with each stored row.

    Raises:
        InfraError: the disk refused, or a worker died; everything finished is stored, run again to go on.
    """
    if concurrency < 1 or processes < 1:
        raise ConfigError(f"concurrency={concurrency} and processes={processes} must be at least 1")
    if time_limit_s is not None and not time_limit_s > 0:
        raise ConfigError(f"time_limit_s={time_limit_s} must be above 0; leave it out for no limit")
    done = store.done()
    waiting = deque(planned for planned in store.manifest.episodes if (planned.task, planned.trial) not in done)

    def finish(row: EpisodeRow, trajectory: Trajectory) -> None:
        if price is not None:
            row = msgspec.structs.replace(row, cost_usd=price(trajectory))
        stored = store.add(row, trajectory)
        if progress is not None:
            progress(stored)

    if not waiting:
        return
    if processes == 1:
        player = Player(spec, agent, time_limit_s=time_limit_s, infra_retries=infra_retries)
        run_coroutine(_here(player, waiting, concurrency, finish))
        return
    processes = min(processes, len(waiting), concurrency)
    slots = -(-concurrency // processes)
    if spec.entry_point.startswith("__main__:"):
        raise ConfigError(f"{spec.id} is defined in the script itself: move it to a module, or use processes=1")
    pickled = b"" if isinstance(agent, str) else _pickled(agent)
    setup = Setup(spec, agent if isinstance(agent, str) else None, pickled, slots, time_limit_s, infra_retries)
    run_coroutine(_together([_tend(setup, waiting, finish) for _ in range(processes)]))


def _pickled(agent: Agent) -> bytes:
    try:
        data = pickle.dumps(agent)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(f"agent {agent.name!r} cannot be sent to a process ({error}); use processes=1") from None
    if b"__main__" in data:  # by reference, and in a worker that name is the worker's own script
        raise ConfigError(
            f"agent {agent.name!r} is defined in the script itself: move it to a module, or use processes=1"
        )
    return data


async def _here(player: Player, waiting: deque[Planned], concurrency: int, finish: Finish) -> None:
    async def slot() -> None:
        while waiting:
            finish(*await player.play(waiting.popleft()))
            await asyncio.sleep(0)

    await _together([slot() for _ in range(min(concurrency, len(waiting)))])


async def _together(work: list[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first error stops the others and is raised as it is."""
    tasks = [asyncio.create_task(item) for item in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tend(setup: Setup, waiting: deque[Planned], finish: Finish) -> None:
    """Keep one worker process busy until nothing waits."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agentgym.rollouts.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process alone, which then ends its workers
        env={
            "OMP_NUM_THREADS": "1",  # a process a core: threads of torch and BLAS would only fight over them
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        limit=2**20,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(frame(setup))
        flying = 0
        while waiting or flying:
            while waiting and flying < setup.slots:
                process.stdin.write(frame(waiting.popleft()))
                flying += 1
            message = await read_frame(process.stdout)
            if message is None:
                code = await process.wait()
                raise InfraError(
                    f"a worker process ended with status {code} and {flying} episodes in flight; "
                    "what is finished is stored: run again to go on"
                )
            answer = msgspec.msgpack.decode(message, type=Answer)
            if answer.failure is not None or answer.row is None or answer.trajectory is None:
                raise ConfigError(f"{answer.failure}")
            flying -= 1
            finish(answer.row, answer.trajectory)
        process.stdin.close()
        with contextlib.suppress(TimeoutError):  # all results are here; a thread of some tool may hang for ever
            await asyncio.wait_for(process.wait(), _GOODBYE_S)
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
        # asyncio closes it a few turns of the loop later, and complains where the loop ends before; no public name closes it.
        process._transport.close()  # type: ignore[attr-defined]
