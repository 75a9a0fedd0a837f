"""The stand-in for endpoints of OpenAI's protocol, as the bytes that it sends."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from plait.testing import Call, OpenAIServer, Say
from plait.testing.llm.turns import Cut
from plait.traces.messages.message import UsageMetadata

ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}
USAGE = {"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 5}


@pytest.fixture(scope="module")
def server() -> Generator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def _ask(server: OpenAIServer, *messages: Any, **settings: Any) -> httpx2.Response:
    body = {"model": "test-model", "messages": messages or [_user("hello")], **settings}
    return httpx2.post(f"{server.base_url}/chat/completions", json=body)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _tool(call: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def _called(*ids: str) -> dict[str, Any]:
    function = {"name": "add", "arguments": "{}"}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _chunks(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, end = answer.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_a_completion_has_its_calls_and_its_usage(server: OpenAIServer) -> None:
    calls = (Call("add", {"a": 1}, id="c1"), Call("add", {"a": 2}))
    server.play([Say(calls=calls, usage=USAGE), Say("done", thinking="hm")])
    first = _ask(server, tools=[ADD]).json()
    second = _ask(server, tools=[ADD]).json()

    (choice,) = first["choices"]
    one, two = choice["message"]["tool_calls"]
    function = {"name": "add", "arguments": '{"a": 1}'}
    assert one == {"id": "c1", "type": "function", "function": function}
    assert two["id"].startswith("call_")
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert first["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    (choice,) = second["choices"]
    message = {"role": "assistant", "content": "done", "reasoning_content": "hm"}
    assert (choice["message"], choice["finish_reason"]) == (message, "stop")
    assert first["id"] != second["id"]
    read, written = second["usage"]["prompt_tokens"], second["usage"]["completion_tokens"]
    assert server.spent == UsageMetadata(11 + read, 7 + written, 18 + read + written, None, 5, 0)


def test_a_stream_says_the_same_in_pieces(server: OpenAIServer) -> None:
    arguments = {"text": "ä€\n" * 9}
    say = Say("two words", (Call("add", arguments, "c1"), Call("add", {}, "c2")), "so so", USAGE)
    server.play([say])

    *chunks, last = _chunks(
        _ask(server, stream=True, stream_options={"include_usage": True}, tools=[ADD])
    )

    assert (last["choices"], last["usage"]["prompt_tokens"]) == ([], 11)
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert len({chunk["id"] for chunk in [*chunks, last]}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "two words"
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "so so"
    calls: dict[int, list[dict[str, Any]]] = {}
    for delta in deltas:
        for piece in delta.get("tool_calls", ()):
            calls.setdefault(piece["index"], []).append(piece)
    assert [pieces[0]["id"] for pieces in calls.values()] == ["c1", "c2"]
    assert [pieces[0]["function"]["name"] for pieces in calls.values()] == ["add", "add"]
    written = ["".join(one["function"]["arguments"] for one in pieces) for pieces in calls.values()]
    assert [json.loads(text) for text in written] == [arguments, {}]
    assert len(calls[0]) > 3
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert finishes == [*[None] * (len(chunks) - 1), "tool_calls"]

    # It tells no usage unless it is asked to.
    server.play(None)
    chunks = _chunks(_ask(server, stream=True))

    assert not any("usage" in chunk for chunk in chunks)
    assert all(chunk["choices"] for chunk in chunks)
    assert len(server.reported) == 1


def test_a_stream_that_is_cut_has_no_end(server: OpenAIServer) -> None:
    server.play([Cut(after=2, say="one two three"), Cut(after=2, quiet=False)])
    answer = _ask(server, stream=True)

    assert len(answer.text.strip().split("\n\n")) == 2
    assert "[DONE]" not in answer.text
    with pytest.raises(httpx2.TransportError):
        _ask(server, stream=True)
    assert server.reported == []


def test_without_a_script_the_calls_of_the_user_are_done(server: OpenAIServer) -> None:
    server.play(None)
    asked = _user('CALL add {"a": 1}\nCALL add {"a": 2}')
    first = _ask(server, asked, tools=[ADD]).json()["choices"][0]["message"]
    ids = [call["id"] for call in first["tool_calls"]]
    results = [_tool(ids[0], "one"), _tool(ids[1], "two")]
    last = _ask(server, asked, first, *results, tools=[ADD]).json()["choices"][0]["message"]

    assert len(set(ids)) == 2
    assert last == {"role": "assistant", "content": "one; two"}
    assert _ask(server, asked).json()["choices"][0]["message"]["content"].startswith("echo: CALL")


@pytest.mark.parametrize(
    ("messages", "settings", "param"),
    [
        ([_user("x"), _called("a")], {}, "messages"),
        ([_user("x"), _called("a", "b"), _tool("a", "1")], {}, "messages"),
        ([_user("x"), _called("a"), _user("y")], {}, "messages.[2]"),
        ([_user("x"), _called("a"), _tool("b", "1")], {}, "messages.[2].tool_call_id"),
        ([_user("x"), _tool("a", "1")], {}, "messages.[1].tool_call_id"),
        (
            [_user("x"), _called("a"), _tool("a", "1"), _tool("a", "1")],
            {},
            "messages.[3].tool_call_id",
        ),
        ([{"role": "robot", "content": "x"}], {}, "messages.[0].role"),
        ([_user("x")], {"tools": []}, "tools"),
        ([_user("x")], {"tools": [ADD, ADD]}, "tools[1].function.name"),
        (
            [_user("x")],
            {"tools": [{"type": "function", "function": {"name": "a.b"}}]},
            "tools[0].function.name",
        ),
        ([_user("x")], {"tools": [{"type": "custom"}]}, "tools[0].type"),
    ],
)
def test_a_conversation_that_breaks_the_protocol_is_refused(
    server: OpenAIServer, messages: list[Any], settings: dict[str, Any], param: str
) -> None:
    server.play(None)
    answer = _ask(server, *messages, **settings)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_server_that_is_not_strict_takes_what_it_gets() -> None:
    with OpenAIServer(strict=False, max_model_len=4096) as server:
        assert _ask(server, _user("x"), _called("a")).status_code == 200
        models = httpx2.get(f"{server.base_url}/models").json()
        assert models["data"] == [{"id": "test-model", "object": "model", "max_model_len": 4096}]
        assert httpx2.post(f"{server.base_url}/embeddings", json={}).status_code == 404
        assert httpx2.post(f"{server.base_url}/responses", content=b"[").status_code == 400
