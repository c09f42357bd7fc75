"""The private event loop on which synchronous code runs asynchronous tools.

It lives on a thread of its own, so that it works inside a running loop (a notebook) too, and for as long as the process,
so that what a tool keeps between turns (an HTTP client's connections) stays bound to a loop that is alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_running: list[tuple[threading.Thread, asyncio.AbstractEventLoop]] = []


def on_private_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return what it returns or raise what it raises (~80 µs for the way there and back)."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _private_loop())
    try:
        return future.result()
    finally:
        future.cancel()  # Ctrl-C while waiting; without effect on one that is done


def _private_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if _running and not _running[-1][0].is_alive():  # a forked process has the parent's loop, but not its thread
            _running.clear()
        if not _running:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="agentgym-loop", daemon=True)
            thread.start()
            _running.append((thread, loop))
        return _running[-1][1]
