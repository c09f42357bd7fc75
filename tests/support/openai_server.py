"""A real local HTTP server that speaks `/v1/chat/completions`, and misbehaves on demand.

    def policy(messages, tools):                     # the model: conversation in, assistant message out
        return say("done") if messages[-1]["role"] == "tool" else call("search_corpus", query="x")

    with OpenAIServer(policy, faults=[Fault(status=429, headers={"Retry-After": "2"})]) as server:
        ChatAgent("test-model", base_url=server.base_url, api_key=server.key)
    server.requests[0].body["messages"]

Faults are used up first, one a request, in order of arrival; then the policy answers. Usage is counted in words.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

JSON = dict[str, Any]
Policy = Callable[[list[JSON], list[JSON]], JSON]


def say(text: str, **fields: Any) -> JSON:
    """An assistant message of text. `finish_reason=` is taken out and used."""
    return {"role": "assistant", "content": text, **fields}


def call(name: str, *, id_: str = "call_1", text: str | None = None, **arguments: Any) -> JSON:
    """An assistant message with one tool call."""
    return calls((id_, name, json.dumps(arguments)), text=text)


def calls(*triples: tuple[str | None, str, Any], text: str | None = None) -> JSON:
    """An assistant message with several calls, each (id, name, raw arguments)."""
    tool_calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in triples
    ]
    return {"role": "assistant", "content": text, "tool_calls": tool_calls}


def script(*replies: JSON) -> Policy:
    """A policy that gives these replies one after another, whoever asks; the last one for ever."""
    left, lock = list(replies), threading.Lock()

    def policy(messages: list[JSON], tools: list[JSON]) -> JSON:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return policy


def error_body(message: str, code: str | int | None = None, type_: str | None = None) -> JSON:
    """OpenAI's error shape."""
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


@dataclass(frozen=True)
class Fault:
    """One misbehaviour.

    kind: `reply` sends `status`, `headers` and `body` (JSON, or raw bytes) as they are; `hang` says nothing until the
    server is closed; `trickle` sends a byte now and then instead, so that no read ever times out; `drop` closes the
    connection without an answer; `cut` sends a reply of the policy and breaks off in the middle; `stream_error` does so
    with an error event (streams only).
    """

    kind: Literal["reply", "hang", "trickle", "drop", "cut", "stream_error"] = "reply"
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JSON | bytes = field(default_factory=lambda: error_body("scripted failure"))


@dataclass(frozen=True)
class Request:
    """What the server was asked. `at_s` is monotonic time of arrival."""

    path: str
    headers: dict[str, str]
    body: JSON
    at_s: float


class OpenAIServer:
    """The server, as a context manager. Threads die with it.

    Args:
        policy: the model.
        faults: misbehaviours, one a request, before the policy is asked.
        key: the key that requests must carry (401 otherwise); None takes any or none.
        models: names that exist (404 otherwise); None takes any.
        context_tokens: longest conversation in words (400 `context_length_exceeded` past it); None for no limit.
        usage: whether token counts are reported. Words of the conversation's beginning that an earlier request shared
            count as cached.
        latency_s: wait before each reply.
        strict_history: refuse past calls whose arguments are no JSON object, as vLLM does.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        faults: Iterable[Fault] = (),
        key: str | None = None,
        models: Iterable[str] | None = None,
        context_tokens: int | None = None,
        usage: bool = True,
        latency_s: float = 0.0,
        strict_history: bool = False,
    ) -> None:
        self.policy: Policy = policy if policy is not None else script(say("ok"))
        self.key, self.models = key, None if models is None else set(models)
        self.context_tokens, self.usage, self.latency_s = context_tokens, usage, latency_s
        self.strict_history = strict_history
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._faults = list(faults)
        self._at_once = 0
        self._seen: list[list[str]] = []
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """Address up to `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    # -- used by the handler ------------------------------------------------------------------------------------------

    def arrive(self, request: Request) -> Fault | None:
        """Record a request; the fault it meets, if any is left."""
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self._faults.pop(0) if self._faults else None

    def leave(self) -> None:
        with self._lock:
            self._at_once -= 1

    def refusal(self, request: Request) -> tuple[int, JSON] | None:
        """What a well-behaved server answers to a request that it cannot serve."""
        if request.path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            given = request.headers.get("authorization", "none")
            return 401, error_body(f"Incorrect API key provided: {given}", "invalid_api_key")
        if self.models is not None and request.body.get("model") not in self.models:
            return 404, error_body(f"The model `{request.body.get('model')}` does not exist", "model_not_found")
        words = _words(request.body.get("messages", []))
        if self.context_tokens is not None and len(words) > self.context_tokens:
            text = f"This model's maximum context length is {self.context_tokens} tokens, you sent {len(words)}"
            return 400, error_body(text, "context_length_exceeded")
        if self.strict_history:
            for message in request.body["messages"]:
                for past in message.get("tool_calls") or []:
                    if not _is_object(past["function"]["arguments"]):
                        return 400, error_body("Expecting property name enclosed in double quotes", 400)
        return None

    def complete(self, request: Request) -> JSON:
        """The policy's reply as a chat completion."""
        body = request.body
        message = dict(self.policy(body["messages"], body.get("tools", [])))
        default = "tool_calls" if message.get("tool_calls") else "stop"
        finish = message.pop("finish_reason", default)
        reply: JSON = {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        if self.usage:
            reply["usage"] = self._count(body["messages"], message)
        return reply

    def _count(self, messages: list[JSON], reply: JSON) -> JSON:
        words, out = _words(messages), len(_words([reply]))
        with self._lock:
            cached = max((_shared(words, earlier) for earlier in self._seen), default=0)
            self._seen.append(words)
        return {
            "prompt_tokens": len(words),
            "completion_tokens": out,
            "total_tokens": len(words) + out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


def refused_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def stream_events(reply: JSON, piece_chars: int = 3) -> list[JSON]:
    """A completion as the chunks of a stream: role, text in pieces, calls in pieces, finish, usage in a last chunk."""
    choice = reply["choices"][0]
    message = choice["message"]
    deltas: list[JSON] = [{"role": "assistant", "content": "" if message.get("content") is not None else None}]
    for name in ("reasoning_content", "content", "refusal"):
        deltas += [{name: piece} for piece in _pieces(message.get(name) or "", piece_chars)]
    for index, past in enumerate(message.get("tool_calls") or []):
        function = past["function"]
        opening = {"name": function["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": past["id"], "type": "function", "function": opening}]})
        for piece in _pieces(function["arguments"], piece_chars):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    head = {"id": reply["id"], "object": "chat.completion.chunk", "created": 0, "model": reply["model"]}
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in reply:
        chunks.append({**head, "choices": [], "usage": reply["usage"]})
    return chunks


def _pieces(text: str, chars: int) -> list[str]:
    return [text[i : i + chars] for i in range(0, len(text), chars)]


def _words(messages: list[JSON]) -> list[str]:
    texts = []
    for message in messages:
        texts.append(message.get("content") or "")
        texts += [
            f"{past['function']['name']} {past['function']['arguments']}" for past in message.get("tool_calls") or []
        ]
    return " ".join(map(str, texts)).split()


def _shared(a: list[str], b: list[str]) -> int:
    same = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        same += 1
    return same


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, json.loads(raw), time.monotonic())
            fault = server.arrive(request)
            try:
                self._answer(request, fault)
            finally:
                server.leave()

        def _answer(self, request: Request, fault: Fault | None) -> None:
            if fault is not None and fault.kind in ("hang", "trickle", "drop"):
                if fault.kind == "hang":
                    server.closing.wait(30)
                elif fault.kind == "trickle":
                    self._trickle()
                self.close_connection = True
                return
            if fault is not None and fault.kind == "reply":
                self._send(fault.status, fault.body, fault.headers)
                return
            refusal = server.refusal(request)
            if refusal is not None:
                self._send(*refusal)
                return
            if server.latency_s:
                server.closing.wait(server.latency_s)
            reply = server.complete(request)
            if request.body.get("stream"):
                self._stream(reply, fault, bool(request.body.get("stream_options", {}).get("include_usage")))
            elif fault is not None:
                self._cut(json.dumps(reply).encode())
            else:
                self._send(200, reply)

        def _send(self, status: int, body: JSON | bytes, headers: Mapping[str, str] | None = None) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _trickle(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            while not server.closing.wait(0.05):
                self.wfile.write(b" ")

        def _cut(self, content: bytes) -> None:
            """Promise the whole body, send half, hang up."""
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True

        def _stream(self, reply: JSON, fault: Fault | None, usage: bool) -> None:
            chunks = stream_events(reply)
            if not usage:
                chunks = [chunk for chunk in chunks if chunk["choices"]]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._event(": this is a comment, as servers send to keep connections open\n\n")
            for place, chunk in enumerate(chunks):
                if fault is not None and place >= len(chunks) // 2:
                    if fault.kind == "stream_error":
                        self._event(f"data: {json.dumps(error_body('the engine died', 503))}\n\n")
                        self._end()
                    self.close_connection = True  # a chunked body without its end: the client sees a broken stream
                    return
                self._event(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n")
            self._event("data: [DONE]\n\n")
            self._end()

        def _event(self, text: str) -> None:
            data = text.encode("utf-8", "surrogatepass")
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def _end(self) -> None:
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler
