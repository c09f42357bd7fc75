"""`ChatAgent`: any model behind an OpenAI-compatible endpoint, with native tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentgym.agents.base import Brief
from agentgym.core.graph import View
from agentgym.core.records import Message, Part, ToolSpec, Turn
from agentgym.core.seeding import derive
from agentgym.llm import ChatClient, Endpoint


class ChatAgent:
    """A model at an endpoint as an agent: each view is sent as it is, each reply is the turn.

    Whatever the model writes is passed on: calls with broken arguments, calls of unknown tools, empty replies. The
    harness answers and counts them. `Turn.usage` holds the server's own token counts (None where it reports none).

    Args:
        model: name of the model; else `OPENAI_MODEL`.
        base_url: address up to `/v1`; else `OPENAI_BASE_URL`.
        api_key: else `OPENAI_API_KEY`, which each worker process reads for itself. A key given here travels to workers
            with the agent; it is never shown or stored in results.
        temperature: left to the server when None.
        max_tokens: longest reply in the model's tokens; left to the server when None.
        system: further instructions, put after the environment's own system message (or first, where it has none).
        stream: receive replies as server-sent events.
        send_seed: send a `seed` derived from the episode's seed and the length of the conversation. Off by default:
            some endpoints refuse the field, and few keep its promise.
        params: further fields of every request, e.g. `{"max_completion_tokens": 4096, "top_p": 0.9}`.
        timeout_s, retries, headers: see `agentgym.llm.ChatClient`.
        name: how results call the agent; `chat:<model>` by default.

    `act` raises, and the runner records (other episodes go on):
        InfraError: the endpoint is down or keeps failing → `infra_error`.
        ToolError: the conversation does not fit the model's context (kind `context_overflow`), or the provider filters
            it (`content_filter`) → `agent_error`. Our choice: what was gathered is the agent's doing, and a model that
            cannot be asked any more cannot take another turn. It counts as the failure that it is.
        ConfigError: wrong key, model, address or parameter: the user's to mend, and no other episode would fare better.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        system: str | None = None,
        stream: bool = False,
        send_seed: bool = False,
        params: Mapping[str, Any] | None = None,
        timeout_s: float = 300.0,
        retries: int = 5,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        endpoint = Endpoint(model, base_url, api_key, headers)  # a mistake is told here, not in a worker
        self.model, self.base_url = endpoint.model, endpoint.base_url
        self.name = name if name is not None else f"chat:{endpoint.model}"
        self.system, self.send_seed = system, send_seed
        self.params: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, **(params or {})}
        self.stream, self.timeout_s, self.retries = stream, timeout_s, retries
        self._api_key, self._headers = api_key, dict(headers or {})
        self._client: ChatClient | None = None

    def __repr__(self) -> str:
        given = {key: value for key, value in self.params.items() if value is not None}
        return f"ChatAgent({self.model!r}, base_url={self.base_url!r}, params={given!r})"

    def __getstate__(self) -> dict[str, Any]:  # connections stay behind; a copy makes its own
        return {**self.__dict__, "_client": None}

    def begin(self, brief: Brief) -> ChatPolicy:
        """A policy for one episode; all episodes of a process share the connections."""
        if self._client is None:
            self._client = ChatClient(
                self.model,
                self.base_url,
                self._api_key,
                timeout_s=self.timeout_s,
                retries=self.retries,
                headers=self._headers,
                stream=self.stream,
            )
        seed = brief.seed if self.send_seed else None
        return ChatPolicy(self._client, brief.tools, self.params, self.system, seed)


class ChatPolicy:
    """A `ChatAgent` during one episode. Keeps nothing between turns: the view is all there is to know."""

    def __init__(
        self,
        client: ChatClient,
        tools: tuple[ToolSpec, ...],
        params: Mapping[str, Any],
        system: str | None,
        seed: int | None,
    ) -> None:
        self._client, self._tools, self._params = client, tools, params
        self._system, self._seed = system, seed

    async def act(self, view: View) -> Turn:
        """Ask the model; see `ChatAgent` for what is raised."""
        messages = view.messages
        if self._system:
            messages = _with_system(messages, self._system)
        params = self._params
        if self._seed is not None:
            params = {**params, "seed": derive(self._seed, "chat", len(view)) & 0x7FFF_FFFF}  # servers read 32 bits
        return (await self._client.complete(messages, self._tools, params)).turn


def _with_system(messages: tuple[Message, ...], system: str) -> tuple[Message, ...]:
    """The conversation with `system` in its first message: templates of many models take one system message only."""
    if messages and messages[0].role == "system":
        first = msgspec.structs.replace(messages[0], parts=(*messages[0].parts, Part(f"\n{system}")))
        return (first, *messages[1:])
    return (Message("system", (Part(system),)), *messages)
