"""What an HTTP answer that is no reply means: try again, give up, the user's mistake, or the agent's.

| answer | becomes |
|---|---|
| 408, 409, 425, 429, 5xx, an error inside a 200 or a stream | `Retry`, then `InfraError` |
| 429 because the account has no money left | `InfraError` at once |
| the conversation does not fit, or a content filter refuses it | `ToolError`: the agent wrote or gathered it |
| any other (bad key, unknown model, refused parameter, redirect) | `ConfigError` at once |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agentgym.core.errors import AgentgymError, ConfigError, InfraError, ToolError
from agentgym.llm.wire import clean

CONTEXT_OVERFLOW = "context_overflow"
"""Kind of the `ToolError` for a conversation that is longer than the model's context."""
CONTENT_FILTER = "content_filter"
"""Kind of the `ToolError` for a conversation that the provider's filter refuses."""

_RETRIED = (408, 409, 425, 429)
_NEVER_THE_AGENT = (401, 403, 404, 429)
_ERROR_CHARS = 500
# Codes and sentences of OpenAI, vLLM, SGLang, llama.cpp, TGI, Anthropic and Google.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (?:length|window)|"
    r"available context size|prompt is too long|longer than the model|"
    r"input token count .* exceeds|`?inputs`? tokens \+ `?max_new_tokens`? must be",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|content_policy_violation|content management policy", re.IGNORECASE)
_WAYS_OUT = {
    401: "the key is missing or wrong: set OPENAI_API_KEY or pass api_key=",
    402: "the account has to be paid for",
    403: "the key may not do this: use another key, or a model it may use",
    404: "no such model or path: check model= and base_url= (most end in /v1)",
    405: "this path takes no chat completions: check base_url= (most end in /v1)",
}
_OTHER_WAY_OUT = "the server does not take this request: leave out parameters that it does not know"


class Retry(Exception):
    """An attempt that failed in a way that may pass; `wait_s` is how long the server asks to wait, None if it does not.

    Never leaves the room.
    """

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def judge(status: int, headers: Mapping[str, str], body: str, now_s: float, where: str) -> Retry | AgentgymError:
    """The exception for an answer with this status. `where` names model and URL; `now_s` is Unix time."""
    text, code = read_error(body)
    what = f"{where}: HTTP {status}: {text}"
    if status not in _NEVER_THE_AGENT:
        if _OVERFLOW.search(f"{code} {text}"):
            return ToolError(f"the conversation does not fit into the model's context: {text}", CONTEXT_OVERFLOW)
        if _FILTERED.search(f"{code} {text}"):
            return ToolError(f"the provider's content filter refuses the conversation: {text}", CONTENT_FILTER)
    if status == 429 and "insufficient_quota" in code:
        return InfraError(f"{what}; the account's quota is used up: raise it, then resume")
    if status in _RETRIED or status >= 500:
        return Retry(f"HTTP {status}: {text}", retry_after_s(headers, now_s))
    if 300 <= status < 400:
        return ConfigError(
            f"{what}; it redirects to {headers.get('location', 'nowhere')!r}: name that address in base_url="
        )
    return ConfigError(f"{what}; {_WAYS_OUT.get(status, _OTHER_WAY_OUT)}")


def judge_error(body: str, now_s: float, where: str) -> Retry | AgentgymError:
    """The exception for an error inside a 200 or a stream: by its code where that is a status, else as for a 502."""
    error = json.loads(body)["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return judge(code if isinstance(code, int) and 400 <= code < 600 else 502, {}, body, now_s, where)


def read_error(body: str) -> tuple[str, str]:
    """The server's message and its codes, from any of the shapes in use; the body's beginning where it has none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    error = value.get("error", value) if isinstance(value, dict) else value
    message, codes = error, ""
    if isinstance(error, dict):
        codes = " ".join([str(error[name]) for name in ("code", "type") if error.get(name)])
        message = error.get("message") or error.get("detail")
    if not isinstance(message, str):
        message = body if message is None else json.dumps(message)
    message = " ".join(clean(message).split()) or "no message"
    return (message if len(message) <= _ERROR_CHARS else message[:_ERROR_CHARS] + "…"), codes


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that `Retry-After` (seconds or a date) or `Retry-After-Ms` asks for; None without or when unreadable."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
