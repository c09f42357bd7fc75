"""The one chat client: an OpenAI-compatible endpoint, and the way between its JSON and our records.

`wire` converts and reads, without a network; `client` sends, waits, retries and caches. Everything that talks to a
model behind HTTP (the `chat` agent, task writers, judges) goes through `ChatClient`, so that usage is counted, secrets
are kept and failures are told apart in one place.
"""

from __future__ import annotations

from agentgym.llm.client import ChatClient, request_hash
from agentgym.llm.endpoint import Endpoint
from agentgym.llm.failures import CONTENT_FILTER, CONTEXT_OVERFLOW
from agentgym.llm.wire import Reply, message_from_openai, messages_to_openai, tool_from_openai, tool_to_openai

__all__ = [
    "CONTENT_FILTER",
    "CONTEXT_OVERFLOW",
    "ChatClient",
    "Endpoint",
    "Reply",
    "message_from_openai",
    "messages_to_openai",
    "request_hash",
    "tool_from_openai",
    "tool_to_openai",
]
