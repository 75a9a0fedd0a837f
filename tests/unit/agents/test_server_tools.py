"""Servers outside of a run: reached all at once, and with errors that name the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer

from plait.agents.program_tools import StaticTool
from plait.agents.servers import (
    apply_tool_description_overrides,
    connect_all_mcp_servers,
    get_all_mcp_tools,
)
from plait.client.catalog.tool import Tool
from plait.errors import AgentServerConnectError, AgentServerTimeoutError


def _server(name: str, *, lifespan: Any = None) -> MCPServer:
    server = MCPServer(name, lifespan=lifespan)

    @server.tool(name=f"{name}_tool")
    def tool(text: str) -> str:
        """Say it again."""
        return f"{name}: {text}"

    return server


def _meeting(here: asyncio.Event, there: asyncio.Event) -> Any:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        here.set()
        await there.wait()
        yield

    return lifespan


@pytest.mark.anyio
async def test_servers_that_wait_for_each_other_can_be_reached() -> None:
    one, other = asyncio.Event(), asyncio.Event()
    servers: Any = {
        "a": _server("a", lifespan=_meeting(one, other)),
        "b": _server("b", lifespan=_meeting(other, one)),
    }

    async with asyncio.timeout(30), AsyncExitStack() as stack:
        handles = await connect_all_mcp_servers(stack, servers)
        tools = await get_all_mcp_tools(handles)
        name, handle, tool = tools[1]
        result = await handle.call_tool(tool.name, {"text": "hi"})

    assert [(server, tool.name) for server, _, tool in tools] == [("a", "a_tool"), ("b", "b_tool")]
    assert name == "b"
    assert result.content == [types.TextContent(text="b: hi")]


@pytest.mark.anyio
async def test_a_server_that_is_not_there_in_time_is_named() -> None:
    servers: Any = {
        "a": _server("a"),
        "b": {"command": "sleep", "args": ["60"], "close_timeout": 0.1},
    }

    async with AsyncExitStack() as stack:
        with pytest.raises(AgentServerTimeoutError) as failed:
            await connect_all_mcp_servers(stack, servers, timeout_seconds=0.2)

    assert (failed.value.server_name, failed.value.timeout_seconds) == ("b", 0.2)


@pytest.mark.anyio
async def test_a_server_that_cannot_be_reached_is_named() -> None:
    servers: Any = {"a": _server("a"), "gone": {"command": "no-such-program-at-all"}}

    async with AsyncExitStack() as stack:
        with pytest.raises(AgentServerConnectError) as failed:
            await connect_all_mcp_servers(stack, servers)

    assert failed.value.server_name == "gone"


@pytest.mark.anyio
async def test_no_servers_are_no_handles() -> None:
    async with AsyncExitStack() as stack:
        assert await connect_all_mcp_servers(stack, {}) == {}
    assert await get_all_mcp_tools({}) == []


def test_descriptions_of_every_kind_of_tool_can_be_changed() -> None:
    tools: list[Any] = [
        types.Tool(name="a", input_schema={}),
        Tool(server="s", wire_name="b", name="b", description="old"),
        StaticTool("c", "old"),
        StaticTool("d", "old"),
    ]

    changed = apply_tool_description_overrides(tools, {"a": "A", "b": "B", "c": "C", "x": "X"})

    assert changed is tools
    assert [tool.description for tool in tools] == ["A", "B", "C", "old"]
