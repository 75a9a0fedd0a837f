"""Interceptors and hooks: what they may change, answer, keep, count and send along."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command
from mcp import Client
from mcp.types import CallToolResult, TextContent

from plait import (
    ConfigError,
    MCPToolCallRequest,
    MCPToolCallResult,
    MultiServerMCPClient,
    ToolCallInterceptor,
    load_mcp_tools,
)
from plait.langchain.tools.interceptors import Hooks
from plait.testing import ServerProcess
from tests.integration.langchain.compatibility.common import (
    Handler,
    Json,
    by_name,
    differs,
    message_of,
    tools_of,
)
from tests.servers.langchain_servers import math_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Load = Callable[..., Awaitable[dict[str, BaseTool]]]


@pytest.fixture(params=["session", "connection"])
async def load(
    request: pytest.FixtureRequest, servers: dict[str, ServerProcess]
) -> AsyncGenerator[Load]:
    """Loads the tools for arithmetic with interceptors."""
    async with Client(math_server()) as client:
        over: Json = {"session": client}
        if request.param == "connection":
            over = {"session": None, "connection": {"url": servers["math"].url}}

        async def load(*interceptors: ToolCallInterceptor, **options: Any) -> dict[str, BaseTool]:
            options |= {"tool_interceptors": list(interceptors), "server_name": "math"}
            return by_name(await load_mcp_tools(**over, **options))

        yield load


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


async def test_an_interceptor_sees_the_request(load: Load) -> None:
    seen: list[MCPToolCallRequest] = []

    async def look(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        seen.append(request)
        return await handler(request)

    assert await (await load(look))["add"].ainvoke({"a": 2, "b": 3}) == "5"
    assert seen == [
        MCPToolCallRequest(
            name="add", args={"a": 2, "b": 3}, server_name="math", headers=None, runtime=None
        )
    ]


async def double(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    changed = request.override(args={name: 2 * value for name, value in request.args.items()})
    assert request.args == {"a": 2, "b": 3}
    return await handler(changed)


async def multiply(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    return await handler(request.override(name="multiply"))


async def twice(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    await handler(request)
    return await handler(request.override(args={"a": 10, "b": 1}))


async def louder(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    result = await handler(request)
    assert isinstance(result, CallToolResult)
    texts = [cast("TextContent", block).text for block in result.content]
    content: list[Any] = [TextContent(text=f"{text}!") for text in texts]
    return CallToolResult(content=content, is_error=result.is_error)


async def invented(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
    return CallToolResult(content=[TextContent(text="made up")], is_error=False)


@pytest.mark.parametrize(
    ("interceptor", "answer"),
    [(double, "10"), (multiply, "6"), (twice, "11"), (louder, "5!"), (invented, "made up")],
)
@differs("MCP types")
async def test_an_interceptor_changes_the_call_or_its_result(
    interceptor: ToolCallInterceptor, answer: str, load: Load
) -> None:
    assert await (await load(interceptor))["add"].ainvoke({"a": 2, "b": 3}) == answer


async def test_an_interceptor_keeps_results(load: Load) -> None:
    kept: dict[str, MCPToolCallResult] = {}
    asked: list[str] = []

    async def keep(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        key = f"{request.name} {sorted(request.args.items())}"
        if key not in kept:
            asked.append(key)
            kept[key] = await handler(request)
        return kept[key]

    add = (await load(keep))["add"]
    assert [await add.ainvoke({"a": 2, "b": b}) for b in (3, 3, 5)] == ["5", "5", "7"]
    assert len(asked) == len(kept) == 2


async def test_the_first_interceptor_is_the_outermost(load: Load) -> None:
    order: list[str] = []

    def named(name: str) -> ToolCallInterceptor:
        async def around(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
            order.append(f"into {name}")
            result = await handler(request)
            order.append(f"out of {name}")
            return result

        return around

    assert await (await load(named("one"), named("two")))["add"].ainvoke({"a": 2, "b": 3}) == "5"
    assert order == ["into one", "into two", "out of two", "out of one"]


@pytest.mark.parametrize("handled", [True, False])
async def test_what_an_interceptor_raises_reaches_the_caller(handled: bool, load: Load) -> None:
    async def broken(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        raise LookupError("the interceptor is broken")

    add = (await load(broken, handle_tool_errors=handled))["add"]
    with pytest.raises(LookupError, match="the interceptor is broken"):
        await add.ainvoke({"a": 2, "b": 3})


async def test_an_interceptor_returns_a_message_of_its_own_or_repairs_a_failure(load: Load) -> None:
    own = ToolMessage("by hand", name="add", tool_call_id="c1", artifact={"by": "me"})

    async def written(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return own.model_copy()

    async def repair(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        result = await handler(request)
        assert isinstance(result, CallToolResult)
        return said("infinity") if result.is_error else result

    assert await message_of((await load(written))["add"], a=2, b=3) == own
    divide = (await load(repair))["divide"]
    assert await divide.ainvoke({"a": 1, "b": 0}) == "infinity"
    assert await divide.ainvoke({"a": 1, "b": 2}) == "0.5"


async def test_the_interceptors_of_a_client_are_around_every_server() -> None:
    seen: list[str] = []

    async def look(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        seen.append(f"{request.server_name}/{request.name}")
        return await handler(request)

    servers = {"first": math_server(), "second": math_server()}
    async with MultiServerMCPClient(servers, tool_interceptors=[look]) as client:
        tools = await tools_of(client)
        await tools["first__add"].ainvoke({"a": 1, "b": 1})
        await tools["second__add"].ainvoke({"a": 1, "b": 1})

    assert seen == ["first/add", "second/add"]


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_headers_of_an_interceptor_win_and_users_are_not_mixed(
    protocol: str, servers: dict[str, ServerProcess]
) -> None:
    users = iter(["ada", "bob", "ada", None])

    async def signed(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        user = next(users)
        return await handler(request.override(headers={"x-user": user} if user else None))

    connection: Json = {"url": servers["http"].url, "transport": "http", "protocol": protocol}
    connection["headers"] = {"X-User": "zoe", "X-Made-By": "hand"}
    async with MultiServerMCPClient({"time": connection}, tool_interceptors=[signed]) as client:
        visitor = (await tools_of(client))["visitor"]
        visits = [str(await visitor.ainvoke({})).split() for _ in range(4)]

    assert [visit[0] for visit in visits] == ["ada", "bob", "ada", "zoe"]
    assert {visit[1] for visit in visits} == {"hand"}
    sessions = [visit[2] for visit in visits]
    if protocol == "legacy":
        assert sessions[0] == sessions[2]
        assert len({sessions[0], sessions[1], sessions[3]}) == 3
    else:
        assert set(sessions) == {"-"}


BLOCK = {"type": "text", "text": "block"}


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        (None, "3"),
        ("short", "short"),
        (said("mine"), "mine"),
        (ToolMessage("by hand", tool_call_id="c1"), "by hand"),
        (["pair", {"own": 1}], "pair"),
        (([BLOCK], None), [BLOCK]),
    ],
    ids=["nothing", "text", "result", "message", "pair", "tuple"],
)
@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_hook_may_return_another_result(returned: Any, content: Any, wrapped: bool) -> None:
    ends: list[Any] = []

    def after(end: Any) -> Any:
        ends.append(end)
        return {"result": returned} if wrapped else returned

    async with MultiServerMCPClient({"math": math_server()}, after_tool_call=after) as client:
        add = (await tools_of(client))["add"]
        message = await message_of(add, a=1, b=2)
        assert (message.content, message.status, message.tool_call_id) == (content, "success", "c1")
        if isinstance(returned, list | tuple):
            assert message.artifact == returned[1]
            assert await add.ainvoke({"a": 1, "b": 2}) == content
    end = ends[0]
    assert (end.server_name, end.name, end.args) == ("math", "add", {"a": 1, "b": 2})
    assert [block.text for block in end.result.content] == ["3"]


async def test_hooks_take_as_many_arguments_as_they_have_room_for_and_may_return_a_command() -> (
    None
):
    seen: list[tuple[Any, ...]] = []
    request = MCPToolCallRequest("add", {"a": 1}, "math", runtime=SimpleNamespace(state={"m": 1}))
    command: Any = Command(update={"x": 1})

    async def answer(request: MCPToolCallRequest) -> MCPToolCallResult:
        return said(f"{request.args} {request.headers}")

    async def three(call: object, state: object, config: object) -> None:
        seen.append((state, config))

    def two(call: object, state: object) -> None:
        seen.append((state,))

    def every(*given: object) -> None:
        seen.append(given[1:])

    for hook in (three, two, every):
        await Hooks({"tags": ["t"]}, before=hook)(request, answer)
    config = {"tags": ["t"]}
    assert seen == [({"m": 1}, config), ({"m": 1},), ({"m": 1}, config)]
    assert await Hooks({}, after=lambda _: command)(request, answer) is command

    changes = {"args": {"b": 2}, "headers": {"X": "1"}}
    overridden = request.override(args={"b": 2}, headers={"X": "1"})
    for before in (lambda _: changes, lambda _: overridden):
        result = await Hooks({}, before=before)(request, answer)
        assert result == said("{'b': 2} {'X': '1'}")
    with pytest.raises(ConfigError, match="after_tool_call returns"):
        await Hooks({}, after=lambda _: 3)(request, answer)


def test_a_request_is_changed_by_a_copy_and_shows_neither_arguments_nor_headers() -> None:
    first = MCPToolCallRequest(name="add", args={"secret": 1}, server_name="math")
    second = first.override(name="sub", args={"b": 2}, headers={"Authorization": "s3cr3t"})

    assert (first.name, first.args, first.headers) == ("add", {"secret": 1}, None)
    assert (second.name, second.args, second.server_name) == ("sub", {"b": 2}, "math")
    assert "s3cr3t" not in repr(second)
    assert "secret" not in repr(first)
