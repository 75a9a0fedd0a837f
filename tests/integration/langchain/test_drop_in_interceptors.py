"""Interceptors: what they may change, answer, keep, count and send along."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from mcp import Client
from mcp.types import CallToolResult, TextContent

from plait import (
    MCPToolCallRequest,
    MCPToolCallResult,
    MultiServerMCPClient,
    ToolCallInterceptor,
    load_mcp_tools,
)
from plait.testing import ServerProcess, running
from tests.servers.langchain_servers import math_server, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]


@pytest.fixture(scope="module")
def time_http() -> Generator[ServerProcess]:
    with running(served("time")) as (server,):
        yield server


async def math_tools(client: Client, *interceptors: ToolCallInterceptor) -> dict[str, BaseTool]:
    tools = await load_mcp_tools(client, tool_interceptors=interceptors, server_name="math")
    return {tool.name: tool for tool in tools}


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


async def test_an_interceptor_sees_the_request() -> None:
    seen: list[MCPToolCallRequest] = []

    async def look(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        seen.append(request)
        return await handler(request)

    async with Client(math_server()) as client:
        tools = await math_tools(client, look)
        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"

    assert seen == [
        MCPToolCallRequest(
            name="add", args={"a": 2, "b": 3}, server_name="math", headers=None, runtime=None
        )
    ]


async def test_an_interceptor_changes_the_arguments() -> None:
    async def double(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        changed = request.override(args={name: 2 * value for name, value in request.args.items()})
        assert request.args == {"a": 2, "b": 3}
        return await handler(changed)

    async with Client(math_server()) as client:
        assert await (await math_tools(client, double))["add"].ainvoke({"a": 2, "b": 3}) == "10"


async def test_an_interceptor_changes_which_tool_is_called() -> None:
    async def instead(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return await handler(request.override(name="multiply"))

    async with Client(math_server()) as client:
        assert await (await math_tools(client, instead))["add"].ainvoke({"a": 5, "b": 3}) == "15"


async def test_an_interceptor_changes_the_result() -> None:
    async def louder(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        result = await handler(request)
        assert isinstance(result, CallToolResult)
        (block,) = result.content
        assert isinstance(block, TextContent)
        return said(f"{block.text}!")

    async with Client(math_server()) as client:
        assert await (await math_tools(client, louder))["add"].ainvoke({"a": 2, "b": 3}) == "5!"


async def test_an_interceptor_answers_without_the_server() -> None:
    async def answer(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return said("made up")

    async with Client(math_server()) as client:
        add = (await math_tools(client, answer))["add"]
    # The session is closed: whoever asked the server now would get an error.
    assert await add.ainvoke({"a": 2, "b": 3}) == "made up"


async def test_an_interceptor_keeps_results() -> None:
    kept: dict[str, MCPToolCallResult] = {}
    asked: list[str] = []

    async def keep(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        key = f"{request.name} {sorted(request.args.items())}"
        if key not in kept:
            asked.append(key)
            kept[key] = await handler(request)
        return kept[key]

    async with Client(math_server()) as client:
        add = (await math_tools(client, keep))["add"]
        answers = [await add.ainvoke({"a": 2, "b": b}) for b in (3, 3, 5)]

    assert answers == ["5", "5", "7"]
    assert len(asked) == 2


async def test_an_interceptor_may_call_the_handler_again() -> None:
    async def twice(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        await handler(request)
        return await handler(request.override(args={"a": 10, "b": 1}))

    async with Client(math_server()) as client:
        assert await (await math_tools(client, twice))["add"].ainvoke({"a": 1, "b": 1}) == "11"


async def test_the_first_interceptor_is_the_outermost() -> None:
    order: list[str] = []

    def named(name: str) -> ToolCallInterceptor:
        async def around(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
            order.append(f"into {name}")
            result = await handler(request)
            order.append(f"out of {name}")
            return result

        return around

    async with Client(math_server()) as client:
        tools = await math_tools(client, named("one"), named("two"))
        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"

    assert order == ["into one", "into two", "out of two", "out of one"]


@pytest.mark.parametrize("handled", [True, False])
async def test_what_an_interceptor_raises_reaches_the_caller(handled: bool) -> None:
    async def broken(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        raise LookupError("the interceptor is broken")

    async with Client(math_server()) as client:
        tools = await load_mcp_tools(client, tool_interceptors=[broken], handle_tool_errors=handled)
        with pytest.raises(LookupError, match="the interceptor is broken"):
            await tools[0].ainvoke({"a": 2, "b": 3})


async def test_an_interceptor_returns_a_message_of_its_own() -> None:
    async def written(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return ToolMessage("by hand", name=request.name, tool_call_id="c1", artifact={"by": "me"})

    async with Client(math_server()) as client:
        add = (await math_tools(client, written))["add"]
        call = {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 2, "b": 3}}
        message = await add.ainvoke(call)

    assert message == ToolMessage("by hand", name="add", tool_call_id="c1", artifact={"by": "me"})


async def test_an_interceptor_sees_a_failure_and_may_repair_it() -> None:
    async def repair(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        result = await handler(request)
        assert isinstance(result, CallToolResult)
        return said("infinity") if result.is_error else result

    async with Client(math_server()) as client:
        tools = await math_tools(client, repair)
        assert await tools["divide"].ainvoke({"a": 1, "b": 0}) == "infinity"
        assert await tools["divide"].ainvoke({"a": 1, "b": 2}) == "0.5"


async def test_the_interceptors_of_a_client_are_around_every_server() -> None:
    seen: list[str] = []

    async def look(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        seen.append(f"{request.server_name}/{request.name}")
        return await handler(request)

    servers = {"first": math_server(), "second": math_server()}
    async with MultiServerMCPClient(servers, tool_interceptors=[look]) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        await tools["first__add"].ainvoke({"a": 1, "b": 1})
        await tools["second__add"].ainvoke({"a": 1, "b": 1})

    assert seen == ["first/add", "second/add"]


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_headers_of_an_interceptor_reach_the_server_and_users_are_not_mixed(
    protocol: str, time_http: ServerProcess
) -> None:
    users = iter(["ada", "bob", "ada", None])

    async def signed(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        user = next(users)
        return await handler(request.override(headers={"X-User": user} if user else None))

    connection: dict[str, Any] = {"url": time_http.url, "transport": "http", "protocol": protocol}
    async with MultiServerMCPClient({"time": connection}, tool_interceptors=[signed]) as client:
        visitor = next(tool for tool in await client.get_tools() if tool.name == "visitor")
        visits = [str(await visitor.ainvoke({})).split() for _ in range(4)]

    assert [visit[0] for visit in visits] == ["ada", "bob", "ada", "-"]
    sessions = [visit[2] for visit in visits]
    if protocol == "legacy":
        assert sessions[0] == sessions[2]
        assert len({sessions[0], sessions[1], sessions[3]}) == 3
    else:
        assert set(sessions) == {"-"}


async def test_headers_of_an_interceptor_win_over_those_of_the_connection(
    time_http: ServerProcess,
) -> None:
    async def signed(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return await handler(request.override(headers={"x-user": "bob"}))

    connection = {
        "transport": "http",
        "url": time_http.url,
        "headers": {"X-User": "ada", "X-Made-By": "hand"},
    }
    async with MultiServerMCPClient({"time": connection}, tool_interceptors=[signed]) as client:
        visitor = next(tool for tool in await client.get_tools() if tool.name == "visitor")
        assert str(await visitor.ainvoke({})).startswith("bob hand ")
