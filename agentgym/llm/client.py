"""`ChatClient`: one request in, one `Reply` out, with everything that goes wrong between sorted by whose fault it is.

Only what may pass is tried again: connection errors, timeouts, 408, 409, 425, 429, 5xx, bodies that are no chat
completion, streams that break off. `failures` says what becomes of the rest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from agentgym.core.errors import ConfigError, InfraError
from agentgym.core.hashing import canonical_strict, sha256
from agentgym.core.records import Message, ToolSpec
from agentgym.llm.cache import ReplyCache
from agentgym.llm.endpoint import Endpoint
from agentgym.llm.failures import Retry, judge, judge_error
from agentgym.llm.stream import Assembler, events
from agentgym.llm.wire import (
    MalformedReply,
    Reply,
    clean_json,
    messages_to_openai,
    reply_from_openai,
    tool_to_openai,
)

_log = logging.getLogger(__name__)

_REPLY_BYTES = 64 << 20  # a whole window of a million tokens has some 4 MiB


def request_hash(body: Mapping[str, Any]) -> str:
    """Hex SHA-256 of what is asked: model, messages, tools, parameters. Neither the address nor `stream` count, so that
    a cache moves with its folder."""
    return sha256(canonical_strict({k: v for k, v in body.items() if k not in ("stream", "stream_options")}))


class ChatClient:
    """A client of one model at one OpenAI-compatible endpoint. Safe to share between tasks, event loops and threads.

    Args:
        model: name of the model; else `OPENAI_MODEL`.
        base_url: address up to `/v1`; else `OPENAI_BASE_URL`. There is no default: nothing is sent to an address that
            nobody named.
        api_key: else `OPENAI_API_KEY`; local servers need none. It is never shown, logged or put into an error.
        timeout_s: for one attempt as a whole, the stream included.
        retries: further attempts after the first.
        backoff_s: wait before the first retry; doubles each time up to `backoff_max_s`, times a random 0.5–1, and is
            never shorter than the server's `Retry-After`.
        retry_after_max_s: a server that asks to wait longer is given up at once.
        headers: sent along; their values are treated as secrets.
        stream: receive the reply as server-sent events (for servers or proxies that cut off long silent replies).
        cache: folder of replies by request hash; a request that is in it is not sent. Same folder, same replies.
        rng, sleep, now: source of jitter, the wait, Unix time; for tests. Jitter is not seeded, because workers that
            share a seed would all come back at the same moment, and no result depends on it.

    Raises:
        ConfigError: no model, no address, or a key or header that cannot be sent.
    """

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 300.0,
        retries: int = 5,
        backoff_s: float = 0.5,
        backoff_max_s: float = 30.0,
        retry_after_max_s: float = 300.0,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        cache: Path | str | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint = Endpoint(model, base_url, api_key, headers)
        if timeout_s <= 0 or retries < 0 or backoff_s < 0:
            raise ConfigError(f"{timeout_s=} must be positive; {retries=} and {backoff_s=} at least 0")
        self.timeout_s, self.retries, self.stream = timeout_s, retries, stream
        self._backoff_s, self._backoff_max_s, self._retry_after_max_s = backoff_s, backoff_max_s, retry_after_max_s
        self._cache = ReplyCache(Path(cache)) if cache is not None else None
        self._rng = rng if rng is not None else random.Random()
        self._sleep, self._now = sleep, now
        self._lock = threading.Lock()
        self._open: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]] = {}

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint.model!r}, base_url={self.endpoint.base_url!r})"

    # -- asking -------------------------------------------------------------------------------------------------------

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The JSON that would be sent (unstreamed); `request_hash` of it is its key in the cache."""
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": messages_to_openai(messages, tools)}
        if tools:
            body["tools"] = [tool_to_openai(tool) for tool in tools]
        body.update({name: value for name, value in (params or {}).items() if value is not None})
        cleaned: dict[str, Any] = clean_json(body)
        return cleaned

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), params: Mapping[str, Any] | None = None
    ) -> Reply:
        """Ask the model for its next turn.

        Args:
            messages: the conversation; lone surrogates in it are sent as U+FFFD.
            tools: what it may call.
            params: further fields of the request (`temperature`, `max_tokens`, `seed`, `response_format`, …); a None
                is left out.

        Raises:
            InfraError: the endpoint failed `retries + 1` times, asks to wait too long, or the cache cannot be written.
            ConfigError: the endpoint refuses the key, the model, the address or a parameter.
            ToolError: the conversation is too long for the model (kind `CONTEXT_OVERFLOW`) or filtered by the provider
                (kind `CONTENT_FILTER`): the agent's doing.
        """
        body = self.request(messages, tools, params)
        key = request_hash(body)
        if self._cache is not None:
            stored = self._cache.read(key)
            if stored is not None:
                return stored
        if self.stream:
            body = {"stream_options": {"include_usage": True}, **body, "stream": True}
        content = msgspec.json.encode(body)
        for attempt in range(self.retries + 1):
            try:
                reply = await self._attempt(content, f"call_{len(messages)}")
                break
            except Retry as failure:
                await self._wait(attempt, failure)
        if self._cache is not None:
            self._cache.write(key, reply)
        return reply

    async def _wait(self, attempt: int, failure: Retry) -> None:
        """Sleep before the next attempt, or give up."""
        asked_s = failure.wait_s or 0.0
        what = self.endpoint.hide(f"{self.endpoint}: {failure}")
        if attempt == self.retries:
            raise InfraError(f"{what} (gave up after {attempt + 1} attempts)") from failure.__cause__
        if asked_s > self._retry_after_max_s:
            raise InfraError(
                f"{what} (asks to wait {asked_s:.0f} s, more than retry_after_max_s={self._retry_after_max_s})"
            )
        delay_s = min(self._backoff_max_s, self._backoff_s * 2.0 ** min(attempt, 32)) * self._rng.uniform(0.5, 1.0)
        delay_s = max(delay_s, asked_s)
        _log.info("%s; retry %d of %d in %.1f s", what, attempt + 1, self.retries, delay_s)
        await self._sleep(delay_s)

    async def _attempt(self, content: bytes, call_prefix: str) -> Reply:
        http, url = await self._http(), self.endpoint.url
        try:
            async with asyncio.timeout(self.timeout_s), http.stream("POST", url, content=content) as response:
                body = await self._read(response)
            if isinstance(body, dict) and body.get("error") and not body.get("choices"):
                raise judge_error(self.endpoint.hide(json.dumps(body)), self._now(), str(self.endpoint))
            return reply_from_openai(body, call_prefix)
        except MalformedReply as error:
            raise Retry(str(error)) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Retry(f"no full reply within timeout_s={self.timeout_s:g}") from error
        except httpx.RequestError as error:
            raise Retry(f"{type(error).__name__}: {error}") from error

    async def _read(self, response: httpx.Response) -> Any:
        """The body of a 2xx, whether it came whole or as events; other statuses raise."""
        kind = response.headers.get("content-type", "no content type")
        if response.is_success and "text/event-stream" in kind:
            return await self._assemble(response)
        text = b"".join([piece async for piece in _bounded(response)]).decode("utf-8", "replace")
        if not response.is_success:
            shown = self.endpoint.hide(text)
            raise judge(response.status_code, response.headers, shown, self._now(), str(self.endpoint))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            beginning = self.endpoint.hide(text)[:200]
            raise MalformedReply(f"the body ({kind}) is no JSON; is base_url right? it begins {beginning!r}") from error

    async def _assemble(self, response: httpx.Response) -> dict[str, Any]:
        assembler = Assembler()
        async for data in events(_bounded(response)):
            if not assembler.feed(data):
                break
        return {"error": assembler.error} if assembler.error else assembler.body()

    # -- connections --------------------------------------------------------------------------------------------------

    async def _http(self) -> httpx.AsyncClient:
        """This event loop's connection pool; it is closed with the loop, or by `aclose`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            entry = self._open.get(loop)
            if entry is not None:
                return entry[0]
            for closed in [other for other in self._open if other.is_closed()]:
                del self._open[closed]
            # The caller bounds concurrency; a bound here would let waiting requests time out.
            client = httpx.AsyncClient(
                headers=self.endpoint.headers, timeout=self.timeout_s, limits=httpx.Limits(max_connections=None)
            )
            keeper = _close_with_loop(client)
            self._open[loop] = client, keeper
        await anext(keeper)
        return client

    async def aclose(self) -> None:
        """Close this event loop's connections. Not needed under `asyncio.run`, which closes them at its end."""
        with self._lock:
            entry = self._open.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _bounded(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body in pieces, unpacked; MalformedReply past `_REPLY_BYTES`, since a server must not be able to fill the memory."""
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > _REPLY_BYTES:
            raise MalformedReply(f"the body is longer than {_REPLY_BYTES:,} bytes")
        yield piece


async def _close_with_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """`asyncio.run` finishes the asynchronous generators of its loop before it closes it: the hook that agents, which
    have no end of life of their own, need."""
    try:
        yield
    finally:
        await client.aclose()
