"""The client against a real local server: what it sends, what it retries, what it hides."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.errors import AgentgymError, ConfigError, InfraError, ToolError
from agentgym.core.records import Message, Part, ToolCall, ToolSpec, Usage
from agentgym.llm import CONTENT_FILTER, CONTEXT_OVERFLOW, ChatClient, Reply, request_hash
from tests.support.openai_server import Fault, OpenAIServer, call, error_body, refused_url, say, script

ASK = [Message("user", (Part("Who wrote it?"),))]
SEARCH = ToolSpec("search_corpus", "Find chunks.", {"type": "object", "properties": {"query": {"type": "string"}}})
KEY = "sk-test-3141592653589793"
EPOCH_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_MODEL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


class Waits:
    """A sleep that takes no time and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked_s.append(seconds)


def ask(server: OpenAIServer | str, waits: Waits | None = None, messages: list[Message] = ASK, **options: Any) -> Reply:
    url = server if isinstance(server, str) else server.base_url
    params = options.pop("params", None)
    tools = options.pop("tools", ())
    fixed = {"sleep": waits or Waits(), "now": lambda: EPOCH_S, "rng": random.Random(0)}
    client = ChatClient("test-model", url, **{**fixed, **options})
    return asyncio.run(client.complete(messages, tools, params))


# -- what is sent and read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_call_with_usage(stream: bool) -> None:
    with OpenAIServer(script(call("search_corpus", query="naïve \u2028 ☃", text="Let me look."))) as server:
        reply = ask(server, tools=[SEARCH], stream=stream, params={"temperature": 0.5, "max_tokens": None})
    assert reply.turn.content == "Let me look."
    (made,) = reply.turn.tool_calls
    assert (made.id, made.name, json.loads(made.arguments)) == ("call_1", "search_corpus", {"query": "naïve \u2028 ☃"})
    assert (reply.finish_reason, reply.model, reply.from_cache) == ("tool_calls", "test-model", False)
    assert reply.turn.usage is not None
    assert reply.turn.usage.tokens_in == 3
    body = server.requests[0].body
    assert body["temperature"] == 0.5
    assert "max_tokens" not in body
    assert body["tools"][0]["function"]["name"] == "search_corpus"
    assert body.get("stream_options") == ({"include_usage": True} if stream else None)


def test_cached_tokens_are_counted() -> None:
    longer = [*ASK, Message("assistant", (Part("I do not know."),)), Message("user", (Part("Look again."),))]
    with OpenAIServer() as server:
        ask(server)
        usage = ask(server, messages=longer).turn.usage
    assert usage == Usage(9, 1, 3)


@pytest.mark.parametrize("stream", [False, True])
def test_usage_that_is_not_reported_is_none(stream: bool) -> None:
    with OpenAIServer(usage=False) as server:
        assert ask(server, stream=stream).turn.usage is None


def test_a_server_that_ignores_stream_is_read_all_the_same() -> None:
    whole = {"choices": [{"message": say("plain"), "finish_reason": "stop"}]}
    with OpenAIServer(faults=[Fault(status=200, body=whole)]) as server:
        assert ask(server, stream=True).turn.content == "plain"


def test_lone_surrogates_do_not_crash_it() -> None:
    bad = "a\ud800b"
    history = [
        Message("user", (Part(bad),)),
        Message("assistant", (), (ToolCall(bad, bad, json.dumps({"q": bad})),)),
        Message("tool", (Part(bad),), (), bad),
    ]
    with OpenAIServer(script(say(bad))) as server:
        reply = ask(server, messages=history, params={"user": bad})
    assert reply.turn.content == "a�b"
    sent = server.requests[0].body
    assert sent["messages"][0]["content"] == sent["user"] == "a�b"


def test_a_broken_call_in_history_is_no_dead_end() -> None:
    history = [
        *ASK,
        Message("assistant", (), (ToolCall("a", "f", '{"q": "cut o'),)),
        Message("tool", (Part("error"),), (), "a"),
    ]
    with OpenAIServer(strict_history=True) as server:
        assert ask(server, messages=history).turn.content == "ok"


def test_model_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer(key=KEY, models=["m-env"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url + "/")
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
        monkeypatch.setenv("OPENAI_MODEL", "m-env")
        assert asyncio.run(ChatClient().complete(ASK)).turn.content == "ok"
    assert server.requests[0].path == "/v1/chat/completions"


def test_arguments_beat_the_environment_and_no_key_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with OpenAIServer() as server:
        ask(server, api_key="", headers={"X-Team": "blue"})
        ask(server.base_url + "/chat/completions", api_key=KEY)
    first, second = (request.headers for request in server.requests)
    assert "authorization" not in first
    assert first["x-team"] == "blue"
    assert second["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"base_url": "http://h/v1"}, "no model: pass model= or set OPENAI_MODEL"),
        ({"model": "m"}, "no base_url: pass base_url= or set OPENAI_BASE_URL"),
        ({"model": "m", "base_url": "localhost:8000/v1"}, "no http"),
        ({"model": "m", "base_url": "http://"}, "no http"),
        ({"model": "m", "base_url": "http://h:port/v1"}, "no address"),
        ({"model": "m", "base_url": "http://h/v1", "timeout_s": 0}, "timeout_s=0"),
        ({"model": "m", "base_url": "http://h/v1", "retries": -1}, "retries=-1"),
    ],
)
def test_a_client_that_cannot_work_is_refused_at_once(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        ChatClient(**arguments)


def test_a_parameter_that_is_no_json_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nan at \$.temperature"):
        ask("http://127.0.0.1:9/v1", params={"temperature": float("nan")})


# -- what is tried again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
@pytest.mark.parametrize("stream", [False, True])
def test_statuses_that_may_pass_are_tried_again(status: int, stream: bool) -> None:
    waits = Waits()
    with OpenAIServer(faults=[Fault(status=status)] * 2) as server:
        assert ask(server, waits, stream=stream).turn.content == "ok"
    assert len(server.requests) == 3
    assert len(waits.asked_s) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("drop"),
        Fault("cut"),
        Fault(status=200, body=b"{not json"),
        Fault(status=200, body=b"[" * 200_000),
        Fault(status=200, body=b"\xff\xfe\x00"),
        Fault(status=200, body=gzip.compress(b" " * (65 << 20), mtime=0), headers={"Content-Encoding": "gzip"}),
        Fault(status=200, body={"choices": []}),
        Fault(status=200, body=b"<html>Log in</html>", headers={"Content-Type": "text/html"}),
        Fault(status=200, body=error_body("upstream is down", 502)),
        Fault(status=200, body=error_body("no status in here", "overloaded")),
        Fault(status=200, body=b"data: {oops}\n\n", headers={"Content-Type": "text/event-stream"}),
        Fault(status=200, body=b"", headers={"Content-Type": "text/event-stream"}),
        Fault(status=200, body=b"junk", headers={"Content-Encoding": "gzip"}),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.body!r:.24}",
)
def test_broken_answers_are_tried_again(fault: Fault) -> None:
    with OpenAIServer(faults=[fault]) as server:
        assert ask(server).turn.content == "ok"
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", ["cut", "stream_error"])
def test_a_stream_that_breaks_is_tried_again_from_the_start(kind: Any) -> None:
    with OpenAIServer(script(say("one two three four")), faults=[Fault(kind)]) as server:
        reply = ask(server, stream=True)
    assert reply.turn.content == "one two three four"
    assert len(server.requests) == 2


def test_silence_ends_in_a_timeout_and_is_tried_again() -> None:
    with OpenAIServer(faults=[Fault("hang")]) as server:
        assert ask(server, timeout_s=0.3).turn.content == "ok"


def test_a_trickle_does_not_escape_the_timeout() -> None:
    with OpenAIServer(faults=[Fault("trickle")] * 2) as server:
        started_s = time.monotonic()
        with pytest.raises(InfraError, match=r"no full reply within timeout_s=0\.3"):
            ask(server, timeout_s=0.3, retries=1)
        assert time.monotonic() - started_s < 3


def test_nobody_listens() -> None:
    url, waits = refused_url(), Waits()
    with pytest.raises(InfraError, match=r"ConnectError.*gave up after 3 attempts") as caught:
        ask(url, waits, retries=2)
    assert url in str(caught.value)
    assert len(waits.asked_s) == 2


def test_giving_up_names_model_address_status_and_message() -> None:
    with OpenAIServer(faults=[Fault(body=error_body("the GPU is on fire"))] * 3) as server:
        with pytest.raises(InfraError) as caught:
            ask(server, retries=2)
        for part in ("'test-model'", server.base_url, "HTTP 500", "the GPU is on fire", "3 attempts"):
            assert part in str(caught.value)


def test_backoff_doubles_with_jitter_up_to_a_limit() -> None:
    waits = Waits()
    with OpenAIServer(faults=[Fault()] * 6) as server:
        ask(server, waits, retries=6, backoff_s=1.0, backoff_max_s=8.0)
    for waited, most in zip(waits.asked_s, [1, 2, 4, 8, 8, 8], strict=True):
        assert most / 2 <= waited <= most
    assert len({round(waited / most, 6) for waited, most in zip(waits.asked_s, [1, 2, 4, 8, 8, 8], strict=True)}) > 1


@pytest.mark.parametrize(
    ("headers", "asked_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "7.5"}, 7.5),
        ({"Retry-After-Ms": "2500", "Retry-After": "9"}, 2.5),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:40 GMT"}, 20.0),
    ],
)
def test_retry_after_is_honoured(headers: dict[str, str], asked_s: float) -> None:
    waits = Waits()
    with OpenAIServer(faults=[Fault(status=429, headers=headers)]) as server:
        ask(server, waits, backoff_s=0.01)
    assert waits.asked_s == [pytest.approx(asked_s)]


@pytest.mark.parametrize("value", ["-5", "soon", "nan", "inf", "", "Tue, 14 Nov 2023 22:12:00 GMT", "Tue, 99 Nov 2023"])
def test_a_retry_after_that_says_nothing_leaves_the_backoff(value: str) -> None:
    waits = Waits()
    with OpenAIServer(faults=[Fault(status=503, headers={"Retry-After": value})]) as server:
        ask(server, waits, backoff_s=1.0)
    assert 0.5 <= waits.asked_s[0] <= 1.0


def test_a_wait_that_is_too_long_is_not_begun() -> None:
    waits = Waits()
    with (
        OpenAIServer(faults=[Fault(status=429, headers={"Retry-After": "86400"})]) as server,
        pytest.raises(InfraError, match="asks to wait 86400 s"),
    ):
        ask(server, waits)
    assert waits.asked_s == []


# -- what is not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "way_out"),
    [
        (400, "leave out parameters"),
        (401, "api_key="),
        (402, "paid"),
        (403, "another key"),
        (404, "check model="),
        (405, "base_url="),
        (422, "leave out"),
    ],
)
def test_refusals_are_the_users_to_mend_and_never_tried_again(status: int, way_out: str) -> None:
    with OpenAIServer(faults=[Fault(status=status, body=error_body("no, because"))]) as server:
        with pytest.raises(ConfigError) as caught:
            ask(server)
        assert len(server.requests) == 1
        for part in ("'test-model'", server.base_url, f"HTTP {status}", "no, because", way_out):
            assert part in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    with (
        OpenAIServer(faults=[Fault(status=308, headers={"Location": "https://elsewhere/v1"}, body=b"")]) as server,
        pytest.raises(ConfigError, match=r"redirects to 'https://elsewhere/v1'"),
    ):
        ask(server)


def test_an_unknown_model() -> None:
    with OpenAIServer(models=["other"]) as server, pytest.raises(ConfigError, match="`test-model` does not exist"):
        ask(server)


def test_an_empty_account_is_not_waited_for() -> None:
    fault = Fault(status=429, body=error_body("You exceeded your current quota", "insufficient_quota"))
    with OpenAIServer(faults=[fault]) as server:
        with pytest.raises(InfraError, match="quota is used up"):
            ask(server)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error_body("too long", "context_length_exceeded")),
        (400, {"object": "error", "message": "This model's maximum context length is 9 tokens.", "code": 400}),
        (400, error_body("request (4476 tokens) exceeds the available context size", 400, "exceed_context_size_error")),
        (400, error_body("prompt is too long: 210000 tokens > 200000 maximum")),
        (400, error_body("The input (9 tokens) is longer than the model's context length (8 tokens).")),
        (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"}),
        (413, error_body("The input token count (9) exceeds the maximum number of tokens allowed (8)")),
        (500, error_body("the request exceeds the available context size")),
    ],
)
def test_a_conversation_that_is_too_long_is_the_agents_fault(status: int, body: Any) -> None:
    with OpenAIServer(faults=[Fault(status=status, body=body)]) as server:
        with pytest.raises(ToolError) as caught:
            ask(server)
        assert caught.value.kind == CONTEXT_OVERFLOW
        assert len(server.requests) == 1


def test_a_filtered_conversation_is_the_agents_fault() -> None:
    body = error_body("The response was filtered due to the prompt triggering our content management policy.")
    with OpenAIServer(faults=[Fault(status=400, body=body)]) as server, pytest.raises(ToolError) as caught:
        ask(server)
    assert caught.value.kind == CONTENT_FILTER


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no message"),
        (b"plain   text\n", "plain text"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"]}]}, '[{"loc": ["body"]}]'),
        ({"error": "short"}, "short"),
        ({"error": {"message": None, "code": 3}}, '"code": 3'),
        (b"[1, 2]", "[1, 2]"),
        (b"x" * 9_000, "x" * 500 + "…"),
    ],
)
def test_error_bodies_of_all_shapes_are_read(body: Any, message: str) -> None:
    with OpenAIServer(faults=[Fault(status=400, body=body)]) as server, pytest.raises(ConfigError) as caught:
        ask(server)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 900


# -- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_appear_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = "token-2718281828"
    shown: list[str] = []
    options: dict[str, Any] = {"api_key": KEY, "headers": {"X-Api-Token": token}}
    quoting = error_body("x" * 480 + f" {KEY} and {token} are wrong")  # the cut of long messages falls into the key
    ends: list[Fault] = [
        Fault(status=401, body=error_body(f"Incorrect API key provided: {KEY}")),
        Fault(status=400, body=quoting),
        Fault(status=500, body=quoting),
        Fault(status=200, body=f"{'<' * 190}{KEY}{token}".encode()),
        Fault(status=200, body=quoting),
        Fault("drop"),
    ]
    for fault in ends:
        with OpenAIServer(faults=[fault] * 2) as server, pytest.raises(AgentgymError) as caught:
            ask(server, retries=1, **options)
        shown += traceback.format_exception(caught.value)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    client = ChatClient("m", "http://h/v1", **options)
    shown += [repr(client), str(client.endpoint), repr(client.endpoint), repr(client.endpoint._headers), caplog.text]
    for text in shown:
        for secret in (KEY, token):
            assert secret not in text
            assert secret[:12] not in text


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-ключ", "sk-\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigError, match="api_key cannot be sent") as caught:
        ChatClient("m", "http://h/v1", key)
    assert key not in str(caught.value)
    with pytest.raises(ConfigError, match="header 'X-Key' cannot be sent") as caught:
        ChatClient("m", "http://h/v1", headers={"X-Key": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["http://me:hunter22@h/v1", "http://h/v1?key=hunter22"])
def test_an_address_with_a_secret_is_refused_unseen(url: str) -> None:
    with pytest.raises(ConfigError, match="api_key=") as caught:
        ChatClient("m", url)
    assert "hunter22" not in "".join(traceback.format_exception(caught.value))


def test_hiding_secrets_leaves_replies_alone() -> None:
    with OpenAIServer(script(say("the EMPTY set"))) as server:  # "EMPTY" is what vLLM's users give as key
        assert ask(server, api_key="EMPTY").turn.content == "the EMPTY set"


# -- cache --------------------------------------------------------------------------------------------------------


def test_a_cached_reply_is_not_asked_again(tmp_path: Path) -> None:
    with OpenAIServer(script(call("search_corpus", query="x"), say("other"))) as server:
        first = ask(server, cache=tmp_path / "c", tools=[SEARCH])
        again = ask(server, cache=tmp_path / "c", tools=[SEARCH], stream=True)
        other = ask(server, cache=tmp_path / "c", tools=[SEARCH], params={"seed": 1})
    assert len(server.requests) == 2
    assert not first.from_cache
    assert again.from_cache
    assert again.turn == first.turn
    assert other.turn.content == "other"
    assert ask(refused_url(), cache=tmp_path / "c", tools=[SEARCH]).turn == first.turn


def test_failures_are_not_cached_and_damaged_entries_are_asked_again(tmp_path: Path) -> None:
    with OpenAIServer(faults=[Fault()]) as server:
        with pytest.raises(InfraError):
            ask(server, cache=tmp_path, retries=0)
        ask(server, cache=tmp_path)
        (entry,) = tmp_path.rglob("*.json")
        entry.write_bytes(entry.read_bytes()[:20])
        assert not ask(server, cache=tmp_path).from_cache
        assert ask(server, cache=tmp_path).from_cache
        entry.write_bytes(entry.read_bytes().replace(b"llm-reply/1", b"llm-reply/9"))
        assert not ask(server, cache=tmp_path).from_cache
    assert len(list(tmp_path.rglob("*"))) == 2  # a folder and a file: nothing temporary is left


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with OpenAIServer() as server, pytest.raises(InfraError, match=r"cannot store a reply in .*cache="):
        ask(server, cache=tmp_path / "file")


def test_the_request_hash_is_of_what_is_asked() -> None:
    def hashed(url: str = "http://a/v1", **params: Any) -> str:
        return request_hash(ChatClient("m", url).request(ASK, [SEARCH], params))

    assert hashed() == hashed("http://b/v1") == hashed(seed=None)
    assert hashed() != hashed(seed=1)
    assert hashed() == "08c74c90ba1354240d39186e2cbc7d2e79dbff0ec9f7b2f2897eb403bb746561"  # old caches stay good


# -- many at once -------------------------------------------------------------------------------------------------


def test_many_requests_share_a_client_and_keep_apart() -> None:
    def echo(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        return say(f"echo {messages[-1]['content']}")

    async def main() -> list[str]:
        client = ChatClient("m", server.base_url, stream=True, sleep=Waits())
        replies = await asyncio.gather(*(client.complete([Message("user", (Part(f"q{i}"),))]) for i in range(60)))
        return [reply.turn.content for reply in replies]

    with OpenAIServer(echo, faults=[Fault(), Fault("drop"), Fault("cut"), Fault(status=429)], latency_s=0.2) as server:
        assert asyncio.run(main()) == [f"echo q{i}" for i in range(60)]
        assert server.most_at_once > 20


def test_a_client_outlives_its_event_loops_without_leaking() -> None:
    with OpenAIServer() as server:
        client = ChatClient("m", server.base_url)
        for _ in range(3):
            assert asyncio.run(client.complete(ASK)).turn.content == "ok"
        assert len(client._open) == 1  # the last loop's; its connections are closed
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            asyncio.run(client.complete(ASK))
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def test_closing_is_possible_and_not_final() -> None:
    async def main() -> None:
        async with ChatClient("m", server.base_url) as client:
            await client.complete(ASK)
            await client.aclose()
            await client.complete(ASK)

    with OpenAIServer() as server:
        asyncio.run(main())
    assert len(server.requests) == 2


def test_cancelling_leaves_the_client_usable() -> None:
    async def main() -> str:
        client = ChatClient("m", server.base_url)
        task = asyncio.create_task(client.complete(ASK))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await client.complete(ASK)).turn.content

    with OpenAIServer(faults=[Fault("hang")]) as server:
        assert asyncio.run(main()) == "ok"
