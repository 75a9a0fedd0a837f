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
from anthropic.types import MessageParam, ToolParam

from plait.testing import AnthropicServer, Call, Say, eventually
from plait.testing.llm.turns import Cut, Refuse
from plait.traces.messages.message import UsageMetadata

ADD: ToolParam = {
    "name": "add",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
HELLO: Any = {"role": "user", "content": "hello"}


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
    return client.messages.stream(
        model="claude-test", max_tokens=100, messages=[HELLO], tools=[ADD]
    )


def _ask(client: anthropic.Anthropic, *messages: MessageParam) -> anthropic.types.Message:
    return client.messages.create(
        model="claude-test", max_tokens=100, messages=messages or [HELLO], tools=[ADD]
    )


@beta_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def test_a_message_has_its_thoughts_its_text_its_calls_and_its_usage() -> None:
    usage = {"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 5}
    calls = (Call("add", {"a": 1}, id="toolu_1"), Call("add", {"a": 2}))
    with AnthropicServer([Say("text", calls, "thought", usage), "done"]) as server:
        client = _client(server)
        first = _ask(client)
        second = _ask(client)

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
    spent = second.usage.input_tokens, second.usage.output_tokens
    assert server.spent == UsageMetadata(
        input_tokens=11 + spent[0],
        output_tokens=7 + spent[1],
        total_tokens=18 + sum(spent),
        cache_read_tokens=5,
        cache_creation_tokens=0,
    )


def test_a_stream_makes_the_same_message() -> None:
    said = Say("two words ", (Call("add", {"text": "ä€\n" * 9}),), thinking="let me see")
    with AnthropicServer([said]) as server, _stream(_client(server)) as stream:
        kinds = [event.type for event in stream]
        message: anthropic.types.Message = stream.get_final_message()

    thought, text, call = message.content
    assert thought.type == "thinking"
    assert (thought.thinking, bool(thought.signature)) == ("let me see", True)
    assert text.type == "text"
    assert text.text == "two words "
    assert call.type == "tool_use"
    assert call.input == {"text": "ä€\n" * 9}
    assert message.stop_reason == "tool_use"
    assert {"thinking", "text", "input_json", "signature"} <= set(kinds)
    assert message.usage.input_tokens == server.reported[0]["input_tokens"]
    assert message.usage.output_tokens == server.reported[0]["output_tokens"] > 1


def test_the_last_events_of_a_stream_have_the_whole_usage() -> None:
    with AnthropicServer() as server:
        answer = httpx2.post(
            f"{server.url}/v1/messages?beta=true",
            headers={"anthropic-version": "2023-06-01", "x-api-key": "k"},
            json={"model": "m", "max_tokens": 1, "stream": True, "messages": [HELLO]},
        )

    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    assert [name for name, _ in events] == [
        "event: message_start",
        "event: ping",
        "event: content_block_start",
        "event: content_block_delta",
        "event: content_block_delta",
        "event: content_block_stop",
        "event: message_delta",
        "event: message_stop",
    ]
    delta = json.loads(events[-2][1].removeprefix("data: "))
    assert delta["usage"]["input_tokens"] == server.reported[0]["input_tokens"]
    assert delta["usage"]["output_tokens"] == server.reported[0]["output_tokens"]


def test_without_a_script_the_calls_of_the_user_are_done() -> None:
    question = 'CALL add {"a": 1, "b": 2}\nCALL add {"a": "x"}\nTHEN CALL add {"a": 3, "b": 4}'
    with AnthropicServer() as server:
        runner = _client(server).beta.messages.tool_runner(
            model="claude-test",
            max_tokens=100,
            tools=[add],
            messages=[{"role": "user", "content": question}],
            thread=False,
        )
        final = runner.until_done()

    (block,) = final.content
    assert block.type == "text"
    one, error, seven = block.text.split("; ")
    assert (one, error[:7], seven) == ("3", "ERROR: ", "7")
    assert len(server.requests) == 3


@pytest.mark.parametrize(("threads", "asked"), [("support", 2), ("refuse", 3)])
def test_a_runner_of_tools_comes_to_its_end_with_and_without_threads(
    threads: Any, asked: int
) -> None:
    script = [Say(calls=(Call("add", {"a": 2, "b": 3}),)), Say("five")]
    with AnthropicServer(script, threads=threads) as server:
        runner = _client(server).beta.messages.tool_runner(
            model="claude-test", max_tokens=100, tools=[add], messages=[HELLO]
        )
        final = runner.until_done()

    assert [block.text for block in final.content if block.type == "text"] == ["five"]
    assert len(server.bodies) == asked
    last = server.bodies[-1]
    if threads == "support":
        assert last["thread"]["type"] == "continue"
        assert len(last["messages"]) == 1
    else:
        assert "thread" not in last
        assert len(last["messages"]) == 3


def test_an_endpoint_that_does_not_know_threads_needs_a_runner_without() -> None:
    with AnthropicServer(["fine"], threads="unknown") as server:
        run = _client(server).beta.messages.tool_runner
        with pytest.raises(anthropic.BadRequestError, match="Extra inputs"):
            run(model="m", max_tokens=9, tools=[add], messages=[HELLO]).until_done()
        final = run(
            model="m", max_tokens=9, tools=[add], messages=[HELLO], thread=False
        ).until_done()

    assert [block.text for block in final.content if block.type == "text"] == ["fine"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, anthropic.RateLimitError), (529, anthropic.APIStatusError)],
)
def test_a_busy_provider_is_asked_again(status: int, kind: type[Exception]) -> None:
    busy = Refuse(status=status, retry_after="0.01")
    with AnthropicServer([busy, "there", busy]) as server:
        message = _ask(_client(server))
        with pytest.raises(kind) as caught:
            _ask(_client(server, max_retries=0))

    assert [block.text for block in message.content if block.type == "text"] == ["there"]
    assert len(server.requests) == 3
    assert len(server.reported) == 1
    assert isinstance(caught.value, anthropic.APIStatusError)
    assert caught.value.response.headers["retry-after"] == "0.01"


def test_a_stream_that_is_cut_leaves_a_message_without_a_reason_to_stop() -> None:
    script = [Cut(after=5, say="one two three four")]
    with AnthropicServer(script) as server, _stream(_client(server)) as stream:
        message: anthropic.types.Message = stream.get_final_message()

    assert message.stop_reason is None
    assert [block.text for block in message.content if block.type == "text"] == ["one two"]
    assert server.reported == []


def test_a_stream_whose_connection_breaks_is_an_error() -> None:
    with AnthropicServer([Cut(after=5, quiet=False), Cut(after=5), Cut()]) as server:
        client = _client(server, max_retries=0)
        broken = pytest.raises((httpx2.TransportError, anthropic.APIConnectionError))
        with broken, _stream(client) as stream:
            stream.get_final_message()
        for _ in range(2):
            with pytest.raises(anthropic.APIConnectionError):
                _ask(client)


def test_only_requests_with_tools_use_up_a_script() -> None:
    plain: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [HELLO]}
    with AnthropicServer([Say("scripted")]) as server:
        client = _client(server)
        title = client.messages.create(**plain)
        answer = _ask(client)
    with AnthropicServer(["scripted"], only_with_tools=False) as server:
        without = _client(server).messages.create(**plain)

    texts = [message.content[0] for message in (title, answer, without)]
    assert [text.text for text in texts if text.type == "text"] == [
        "echo: hello",
        "scripted",
        "scripted",
    ]


@pytest.mark.anyio
async def test_a_client_that_does_not_wait_for_a_slow_turn_is_counted() -> None:
    with AnthropicServer([Say("late", delay=60), Say("soon", delay=0.01)]) as server:
        async with anthropic.AsyncAnthropic(
            base_url=server.url, api_key="k", max_retries=0
        ) as client:
            ask: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [HELLO]}
            with pytest.raises(anthropic.APITimeoutError):
                await client.messages.create(**ask, tools=[ADD], timeout=0.2)
            message = await client.messages.create(**ask, tools=[ADD])

        assert [block.text for block in message.content] == ["soon"]
        await eventually(lambda: server.abandoned == 1, timeout_seconds=30)
        assert len(server.reported) == 1


def _post(server: AnthropicServer, **body: Any) -> tuple[int, str]:
    whole = {"model": "m", "max_tokens": 9, "messages": [HELLO], **body}
    answer = httpx2.post(
        f"{server.url}/v1/messages",
        headers={"anthropic-version": "2023-06-01"},
        json={name: value for name, value in whole.items() if value is not None},
    )
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
    messages = [*_talk("x", [CALL], [RESULT]), reminder]

    assert _post(strict_server, messages=[reminder, *messages], tools=[ADD])[0] == 200
    web = {"type": "web_search_20260101", "name": "web_search"}
    assert _post(strict_server, tools=[ADD, web])[0] == 200


def test_a_server_that_is_not_strict_takes_what_it_gets() -> None:
    with AnthropicServer(strict=False) as server:
        assert _post(server, messages=_talk("x", [CALL]), tools=[ADD])[0] == 200


def test_the_key_may_come_in_either_header() -> None:
    url, version = "/v1/models", {"anthropic-version": "2023-06-01"}
    with AnthropicServer(key="right", models=["claude-a", "claude-b"]) as server:

        def status(**headers: str) -> int:
            return httpx2.get(server.url + url, headers={**version, **headers}).status_code

        assert status(**{"x-api-key": "right"}) == 200
        assert status(authorization="Bearer right") == 200
        assert status(authorization="Bearer wrong") == status() == 401
        client = _client(server, "right", max_retries=0)
        assert [model.id for model in client.models.list()] == ["claude-a", "claude-b"]
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(model="claude-c", max_tokens=9, messages=[HELLO])
        with pytest.raises(anthropic.AuthenticationError) as caught:
            _ask(_client(server, "wrong", max_retries=0))
        assert caught.value.type == "authentication_error"


def test_the_small_endpoints_answer() -> None:
    with AnthropicServer() as server:
        counted = _client(server).messages.count_tokens(model="m", messages=[HELLO])
        message = _ask(_client(server))

        assert 0 < counted.input_tokens < message.usage.input_tokens
        for path in ("/", "/api/hello"):
            assert httpx2.head(server.url + path).status_code == 200
        version = {"anthropic-version": "2023-06-01"}
        assert httpx2.get(f"{server.url}/v1/no", headers=version).status_code == 404
        assert httpx2.post(f"{server.url}/v1/messages", json={}).status_code == 400
        broken = httpx2.post(f"{server.url}/v1/messages", content=b"{", headers=version)
        assert broken.status_code == 400
        assert broken.json()["error"]["type"] == "invalid_request_error"


def test_a_script_may_leave_out_the_server_of_a_tool() -> None:
    tool: Any = {**ADD, "name": "mcp__calc__add"}
    with AnthropicServer([Say(calls=(Call("add"), Call("other")))]) as server:
        answer = _client(server).messages.create(
            model="claude-test", max_tokens=100, messages=[HELLO], tools=[tool]
        )

    assert [block.model_dump()["name"] for block in answer.content] == ["mcp__calc__add", "other"]
