"""Interceptors and hooks around calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.types import Command
from mcp_types import CallToolResult, TextContent

from plait import ConfigError, MCPToolCallRequest
from plait.langchain.tools.interceptors import Handler, Hooks, MCPToolCallResult, chain_of

pytestmark = pytest.mark.anyio


def answer(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def request(**fields: Any) -> MCPToolCallRequest:
    return MCPToolCallRequest(name="add", args={"a": 1}, server_name="math", **fields)


async def echo(request: MCPToolCallRequest) -> MCPToolCallResult:
    return answer(f"{request.name} {request.args} {request.headers}")


def text_of(result: MCPToolCallResult) -> str:
    assert isinstance(result, CallToolResult)
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def test_the_first_interceptor_is_outermost() -> None:
    seen: list[str] = []

    class Noting:
        def __init__(self, name: str) -> None:
            self.name = name

        async def __call__(
            self, request: MCPToolCallRequest, handler: Handler
        ) -> MCPToolCallResult:
            seen.append(f"{self.name} before")
            result = await handler(request)
            seen.append(f"{self.name} after")
            return result

    await chain_of(echo, [Noting("a"), Noting("b")])(request())

    assert seen == ["a before", "b before", "b after", "a after"]


async def test_a_request_is_changed_by_a_copy() -> None:
    first = request()
    second = first.override(name="sub", args={"b": 2}, headers={"X": "1"})

    assert (first.name, first.args, first.headers) == ("add", {"a": 1}, None)
    assert (second.name, second.args, second.headers) == ("sub", {"b": 2}, {"X": "1"})
    assert second.server_name == "math"


def test_a_request_shows_neither_arguments_nor_headers() -> None:
    shown = repr(request(headers={"Authorization": "s3cr3t"}))

    assert "s3cr3t" not in shown
    assert "'a'" not in shown


async def test_the_first_hook_changes_arguments_and_headers() -> None:
    def before(call: MCPToolCallRequest) -> dict[str, Any]:
        return {"args": {**call.args, "b": 2}, "headers": {"X": "1"}}

    result = await Hooks({}, before=before)(request(), echo)

    assert text_of(result) == "add {'a': 1, 'b': 2} {'X': '1'}"


async def test_hooks_get_state_and_config_if_they_have_room_for_them() -> None:
    seen: list[tuple[Any, ...]] = []
    asked = request(runtime=SimpleNamespace(state={"messages": []}))

    async def three(call: object, state: object, config: object) -> None:
        seen.append((state, config))

    def two(call: object, state: object) -> None:
        seen.append((state,))

    def every(*given: object) -> None:
        seen.append(given[1:])

    for hook in (three, two, every):
        await Hooks({"tags": ["t"]}, before=hook)(asked, echo)

    assert seen == [
        ({"messages": []}, {"tags": ["t"]}),
        ({"messages": []},),
        ({"messages": []}, {"tags": ["t"]}),
    ]


@pytest.mark.parametrize(
    "given",
    [
        answer("mine"),
        ToolMessage("mine", tool_call_id="1"),
        Command(update={"x": 1}),
        {"result": answer("mine")},
    ],
)
async def test_the_second_hook_may_answer_instead(given: Any) -> None:
    expected = given["result"] if isinstance(given, dict) else given

    assert await Hooks({}, after=lambda _: given)(request(), echo) is expected


async def test_the_second_hook_may_answer_with_a_text() -> None:
    assert text_of(await Hooks({}, after=lambda _: "short")(request(), echo)) == "short"


async def test_the_second_hook_sees_the_whole_call() -> None:
    seen: list[Any] = []

    await Hooks({}, after=seen.append)(request(), echo)

    (end,) = seen
    assert (end.server_name, end.name, end.args) == ("math", "add", {"a": 1})
    assert text_of(end.result).startswith("add")


async def test_hooks_that_say_nothing_change_nothing() -> None:
    result = await Hooks({}, before=lambda _: None, after=lambda _: None)(request(), echo)

    assert text_of(result) == "add {'a': 1} None"


@pytest.mark.parametrize("given", [{"arguments": {}}, 3, "x"])
async def test_a_first_hook_that_returns_something_else_is_told_what_to_return(given: Any) -> None:
    with pytest.raises(ConfigError, match="before_tool_call"):
        await Hooks({}, before=lambda _: given)(request(), echo)


async def test_a_second_hook_that_returns_something_else_is_told_what_to_return() -> None:
    with pytest.raises(ConfigError, match="after_tool_call"):
        await Hooks({}, after=lambda _: 3)(request(), echo)
