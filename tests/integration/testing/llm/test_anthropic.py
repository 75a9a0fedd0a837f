"""The stand-in for Anthropic's API, as Anthropic's own client finds it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import beta_tool
from anthropic.types import ToolParam

from plait.testing import AnthropicServer, Call, Say, eventually
from plait.testing.llm.turns import Cut, Refuse
from plait.traces.messages.message import UsageMetadata

ADD: ToolParam = {
    "name": "add",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
HELLO: Any = {"role": "user", "content": "hello"}
ASK: dict[str, Any] = {"model": "claude-test", "max_tokens": 100, "messages": [HELLO]}
VERSION = {"anthropic-version": "2023-06-01"}

_open = ExitStack()
"""The clients of the test: left to the garbage collector, their sockets would be complained of."""


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    with _open:
        yield


def _client(server: AnthropicServer, key: str = "k", **options: Any) -> anthropic.Anthropic:
    client = anthropic.Anthropic(base_url=server.url, api_key=key, **options)
    return _open.enter_context(client)


def _stream(client: anthropic.Anthropic) -> Any:
    return client.messages.stream(**ASK, tools=[ADD])


def _ask(client: anthropic.Anthropic) -> anthropic.types.Message:
    return client.messages.create(**ASK, tools=[ADD])


def _text(message: Any) -> list[str]:
    return [block.text for block in message.content if block.type == "text"]


@beta_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def test_a_message_has_its_thoughts_its_text_its_calls_and_its_usage() -> None:
    usage = {"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 5}
    calls = (Call("add", {"a": 1}, id="toolu_1"), Call("add", {"a": 2}))
    with AnthropicServer([Say("text", calls, "thought", usage), "done"]) as server:
        client = _client(server)
        first, second = _ask(client), _ask(client)

    thought, text, one, two = (block.model_dump() for block in first.content)
    assert (thought["type"], thought["thinking"]) == ("thinking", "thought")
    assert (text["type"], text["text"]) == ("text", "text")
    assert (one["id"], one["input"], two["input"]) == ("toolu_1", {"a": 1}, {"a": 2})
    assert two["id"].startswith("toolu_")
    assert two["id"] != one["id"]
    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (11, 7)
    assert first.usage.cache_read_input_tokens == 5
    assert first._request_id is not None
    assert server.reported[0] == {**usage, "cache_creation_tokens": 0}
    read, written = second.usage.input_tokens, second.usage.output_tokens
    assert server.spent == UsageMetadata(
        11 + read, 7 + written, 18 + read + written, None, cache_read_tokens=5,
        cache_creation_tokens=0,
    )  # fmt: skip


def test_a_stream_makes_the_same_message() -> None:
    said = Say("two words ", (Call("add", {"text": "ä€\n" * 9}),), thinking="let me see")
    with AnthropicServer([said]) as server, _stream(_client(server)) as stream:
        kinds = [event.type for event in stream]
        message: anthropic.types.Message = stream.get_final_message()

    thought, text, call = (block.model_dump() for block in message.content)
    assert (thought["thinking"], bool(thought["signature"])) == ("let me see", True)
    assert (text["text"], call["input"]) == ("two words ", {"text": "ä€\n" * 9})
    assert message.stop_reason == "tool_use"
    assert {"thinking", "text", "input_json", "signature"} <= set(kinds)
    assert message.usage.input_tokens == server.reported[0]["input_tokens"]
    assert message.usage.output_tokens == server.reported[0]["output_tokens"] > 1


def test_the_last_events_of_a_stream_have_the_whole_usage() -> None:
    with AnthropicServer() as server:
        url = f"{server.url}/v1/messages?beta=true"
        answer = httpx2.post(url, headers=VERSION, json={**ASK, "stream": True})

    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    block = ("content_block_start", *["content_block_delta"] * 2, "content_block_stop")
    names = ("message_start", "ping", *block, "message_delta", "message_stop")
    assert [name for name, _ in events] == [f"event: {name}" for name in names]
    usage = json.loads(events[-2][1].removeprefix("data: "))["usage"]
    for name in ("input_tokens", "output_tokens"):
        assert usage[name] == server.reported[0][name]


def test_without_a_script_the_calls_of_the_user_are_done() -> None:
    question = 'CALL add {"a": 1, "b": 2}\nCALL add {"a": "x"}\nTHEN CALL add {"a": 3, "b": 4}'
    asked: Any = {**ASK, "messages": [{"role": "user", "content": question}]}
    with AnthropicServer() as server:
        runner = _client(server).beta.messages.tool_runner(**asked, tools=[add], thread=False)
        (text,) = _text(runner.until_done())

    one, error, seven = text.split("; ")
    assert (one, error[:7], seven) == ("3", "ERROR: ", "7")
    assert len(server.requests) == 3


@pytest.mark.parametrize(("threads", "asked"), [("support", 2), ("refuse", 3)])
def test_a_runner_of_tools_comes_to_its_end_with_and_without_threads(
    threads: Any, asked: int
) -> None:
    script = [Say(calls=(Call("add", {"a": 2, "b": 3}),)), Say("five")]
    with AnthropicServer(script, threads=threads) as server:
        runner = _client(server).beta.messages.tool_runner(**ASK, tools=[add])
        assert _text(runner.until_done()) == ["five"]

    assert len(server.bodies) == asked
    last = server.bodies[-1]
    assert last.get("thread", {}).get("type") == ("continue" if threads == "support" else None)
    assert len(last["messages"]) == (1 if threads == "support" else 3)


def test_an_endpoint_that_does_not_know_threads_needs_a_runner_without() -> None:
    with AnthropicServer(["fine"], threads="unknown") as server:
        run = _client(server).beta.messages.tool_runner
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs"):
            run(**ASK, tools=[add]).until_done()
        assert _text(run(**ASK, tools=[add], thread=False).until_done()) == ["fine"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, anthropic.RateLimitError), (529, anthropic.APIStatusError)],
)
def test_a_busy_provider_is_asked_again(status: int, kind: type[Exception]) -> None:
    busy = Refuse(status=status, retry_after="0.01")
    with AnthropicServer([busy, "there", busy]) as server:
        assert _text(_ask(_client(server))) == ["there"]
        with pytest.raises(kind) as caught:
            _ask(_client(server, max_retries=0))

    assert (len(server.requests), len(server.reported)) == (3, 1)
    assert isinstance(caught.value, anthropic.APIStatusError)
    assert caught.value.response.headers["retry-after"] == "0.01"


def test_a_stream_that_is_cut_has_no_reason_to_stop_and_a_broken_one_is_an_error() -> None:
    cuts = [Cut(after=5, say="one two three four"), Cut(after=5, quiet=False), Cut(after=5), Cut()]
    with AnthropicServer(cuts) as server:
        client = _client(server, max_retries=0)
        with _stream(client) as stream:
            message: anthropic.types.Message = stream.get_final_message()
        assert (message.stop_reason, _text(message)) == (None, ["one two"])
        broken = pytest.raises((httpx2.TransportError, anthropic.APIConnectionError))
        with broken, _stream(client) as stream:
            stream.get_final_message()
        for _ in range(2):
            with pytest.raises(anthropic.APIConnectionError):
                _ask(client)
    assert server.reported == []


def test_only_requests_with_tools_use_up_a_script_which_may_leave_out_servers() -> None:
    tool: Any = {**ADD, "name": "mcp__calc__add"}
    calls = Say(calls=(Call("add"), Call("other")))
    with AnthropicServer([Say("scripted"), calls]) as server:
        create = _client(server).messages.create
        answers = [create(**ASK), create(**ASK, tools=[ADD]), create(**ASK, tools=[tool])]
    with AnthropicServer(["scripted"], only_with_tools=False) as server:
        answers.append(_client(server).messages.create(**ASK))

    assert [_text(one) for one in answers] == [["echo: hello"], ["scripted"], [], ["scripted"]]
    names = [block.model_dump()["name"] for block in answers[2].content]
    assert names == ["mcp__calc__add", "other"]


@pytest.mark.anyio
async def test_a_client_that_does_not_wait_for_a_slow_turn_is_counted() -> None:
    with AnthropicServer([Say("late", delay=60), Say("soon", delay=0.01)]) as server:
        options: Any = {"base_url": server.url, "api_key": "k", "max_retries": 0}
        async with anthropic.AsyncAnthropic(**options) as client:
            with pytest.raises(anthropic.APITimeoutError):
                await client.messages.create(**ASK, tools=[ADD], timeout=0.2)
            assert _text(await client.messages.create(**ASK, tools=[ADD])) == ["soon"]

        await eventually(lambda: server.abandoned > 0, timeout_seconds=30)
        assert len(server.reported) == 1


def _post(server: AnthropicServer, **body: Any) -> tuple[int, str]:
    sent = {name: value for name, value in {**ASK, **body}.items() if value is not None}
    answer = httpx2.post(f"{server.url}/v1/messages", headers=VERSION, json=sent)
    message: dict[str, Any] = answer.json()
    return answer.status_code, message.get("error", {}).get("message", "")


CALL = {"type": "tool_use", "id": "t1", "name": "add", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "1"}
THOUGHT = {"type": "thinking", "thinking": "mine", "signature": "forged"}


def _talk(*contents: Any) -> list[dict[str, Any]]:
    roles = ["user", "assistant"] * len(contents)
    return [{"role": role, "content": one} for role, one in zip(roles, contents, strict=False)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "at least one"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "first message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "role"),
        ({"messages": _talk("x", [CALL])}, "without `tool_result`"),
        ({"messages": _talk("x", [CALL], "y")}, "without `tool_result`"),
        ({"messages": _talk("x", [CALL], [RESULT], "y", [RESULT])}, "unexpected `tool_use_id`"),
        ({"messages": _talk("x", [CALL], [RESULT, RESULT])}, "single result"),
        ({"messages": _talk("x", [CALL], [RESULT], [CALL], [RESULT])}, "must be unique"),
        ({"messages": _talk("x", [THOUGHT], "y")}, "signature"),
        ({"tools": [ADD, ADD]}, "must be unique"),
        ({"tools": [{**ADD, "name": "a.b"}]}, "must match"),
        ({"tools": [{**ADD, "input_schema": {}}]}, "input_schema.type"),
        ({"thread": {"type": "create"}}, "Extra inputs"),
    ],
)
def test_a_conversation_that_anthropic_refuses_is_refused(
    strict_server: AnthropicServer, body: dict[str, Any], said: str
) -> None:
    status, message = _post(strict_server, **body)

    assert status == 400
    assert said in message


@pytest.fixture(scope="module")
def strict_server() -> Any:
    with AnthropicServer() as server:
        yield server


def test_a_conversation_that_anthropic_takes_is_taken(strict_server: AnthropicServer) -> None:
    reminder = {"role": "system", "content": "remember"}
    messages = [reminder, *_talk("x", [CALL], [RESULT]), reminder]
    web = {"type": "web_search_20260101", "name": "web_search"}
    assert _post(strict_server, messages=messages, tools=[ADD])[0] == 200
    assert _post(strict_server, tools=[ADD, web])[0] == 200
    with AnthropicServer(strict=False) as server:
        assert _post(server, messages=_talk("x", [CALL]), tools=[ADD])[0] == 200


def test_the_key_may_come_in_either_header() -> None:
    with AnthropicServer(key="right", models=["claude-a", "claude-b"]) as server:

        def status(**headers: str) -> int:
            return httpx2.get(f"{server.url}/v1/models", headers=VERSION | headers).status_code

        assert status(**{"x-api-key": "right"}) == status(authorization="Bearer right") == 200
        assert status(authorization="Bearer wrong") == status() == 401
        client = _client(server, "right", max_retries=0)
        assert [model.id for model in client.models.list()] == ["claude-a", "claude-b"]
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(model="claude-c", max_tokens=9, messages=[HELLO])
        with pytest.raises(anthropic.AuthenticationError) as caught:
            _ask(_client(server, "wrong", max_retries=0))
        assert caught.value.type == "authentication_error"


def test_the_small_endpoints_answer(strict_server: AnthropicServer) -> None:
    url = strict_server.url
    counted = _client(strict_server).messages.count_tokens(model="m", messages=[HELLO])

    assert 0 < counted.input_tokens < _ask(_client(strict_server)).usage.input_tokens
    assert {httpx2.head(url + path).status_code for path in ("/", "/api/hello")} == {200}
    assert httpx2.get(f"{url}/v1/no", headers=VERSION).status_code == 404
    assert httpx2.post(f"{url}/v1/messages", json={}).status_code == 400
    broken = httpx2.post(f"{url}/v1/messages", content=b"{", headers=VERSION)
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
