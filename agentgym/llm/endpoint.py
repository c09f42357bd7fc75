"""Which model, where, and with which key. What must stay secret is kept in here and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import httpx

from agentgym.core.errors import ConfigError

BASE_URL_VARIABLE, API_KEY_VARIABLE, MODEL_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_SECRET_CHARS = 4  # anything shorter is no secret, and hiding it would blank out words


class Endpoint:
    """A model at an OpenAI-compatible address, with its key and headers.

    Neither its `repr` nor any error shows the key or a header's value; `hide` takes them out of other texts.
    """

    __slots__ = ("_headers", "base_url", "model", "url")

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.model = _resolve("model", model, MODEL_VARIABLE, "my-model")
        self.base_url = _address(_resolve("base_url", base_url, BASE_URL_VARIABLE, "http://localhost:8000/v1"))
        self.url = f"{self.base_url}/chat/completions"
        key = (api_key if api_key is not None else os.environ.get(API_KEY_VARIABLE, "")).strip()
        self._headers = _Secrets({"Authorization": f"Bearer {key}"} if key else {})
        self._headers.values.update(headers or {})
        for name, value in self._headers.values.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                what = "api_key" if name == "Authorization" else f"header {name!r}"
                raise ConfigError(f"{what} cannot be sent: it must be plain ASCII on one line (its value is not shown)")

    def __repr__(self) -> str:
        return f"Endpoint({self.model!r}, base_url={self.base_url!r})"

    def __str__(self) -> str:
        return f"model {self.model!r} at {self.url}"

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers as sent, secrets included."""
        return self._headers.values

    def hide(self, text: str) -> str:
        """The text with every secret in it replaced by `<secret>`: servers quote what they were sent."""
        for value in self._headers.values.values():
            secret = value.removeprefix("Bearer ")
            if len(secret) >= _SECRET_CHARS:
                text = text.replace(secret, "<secret>")
        return text


class _Secrets:
    """Header values that a traceback with local variables does not print."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"<{len(self.values)} secret headers>"


def _resolve(name: str, value: str | None, variable: str, example: str) -> str:
    found = (value if value is not None else os.environ.get(variable, "")).strip()
    if not found:
        raise ConfigError(f"no {name}: pass {name}= or set {variable}, e.g. {example}")
    return found


def _address(base_url: str) -> str:
    """The address without a trailing slash or `/chat/completions`. Passwords and queries are refused: addresses end up
    in logs, errors and reports."""
    try:
        parsed = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"base_url is no address ({error}); it should look like http://localhost:8000/v1") from None
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ConfigError(
            f"base_url of host {parsed.host!r} holds a user name, password or query: pass them as api_key= or headers="
        )
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"base_url={base_url!r} is no http(s) address; it should look like http://localhost:8000/v1")
    return str(parsed).rstrip("/").removesuffix("/chat/completions")
