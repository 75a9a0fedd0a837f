"""The servers of a run: short forms, what is wrong with them, and servers outside of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import SecretStr

from plait.agents.config import ModelConfig
from plait.agents.live_agent import redactor_for, servers_for, toolbox_for
from plait.agents.program_tools import StaticTool
from plait.agents.servers import (
    apply_tool_description_overrides,
    connect_all_mcp_servers,
    convert_and_validate_mcp_config,
    convert_mcp_config,
    get_all_mcp_tools,
    validate_mcp_config,
)
from plait.client.catalog.tool import Tool
from plait.client.config.read import ClientConfig
from plait.client.config.servers import HttpServer, StdioServer
from plait.errors import (
    AgentServerConfigError,
    AgentServerConnectError,
    AgentServerTimeoutError,
    ConfigError,
)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("http://h/mcp", {"type": "http", "url": "http://h/mcp"}),
        ("https://h/mcp", {"type": "http", "url": "https://h/mcp"}),
        ("wss://h/mcp", {"type": "ws", "url": "wss://h/mcp"}),
        ("npx -y srv", {"command": "npx", "args": ["-y", "srv"]}),
        ("run 'my file'", {"command": "run", "args": ["my file"]}),
        ("./server", {"command": "./server"}),
        ("it's", {"command": "it's"}),
    ],
)
def test_a_short_form_becomes_a_configuration(short: str, long: dict[str, Any]) -> None:
    assert convert_mcp_config({"a": short}) == {"a": long}
    assert validate_mcp_config({"a": long}) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("x", "expected a server, found a string"),
        ({}, 'a server needs "command" or "url"'),
        ({"type": "http"}, 'a http server needs "url"'),
        ({"type": "sse"}, 'a sse server needs "url"'),
        ({"type": "http", "url": 3}, "url: expected a URL, found a number"),
        ({"type": "http", "url": "ftp://h"}, 'url: "ftp" is not a scheme for a server'),
        (
            {"type": "http", "url": "http://h", "headers": {"a": 1}},
            "headers.a: expected a string, found a number",
        ),
        ({"type": "carrier-pigeon"}, 'type: "carrier-pigeon" is not a transport'),
        ({"type": "stdio"}, 'a stdio server needs "command"'),
        ({"command": 1}, "command: expected a string, found a number"),
        ({"command": "x", "args": "y"}, "args: expected a list of strings, found a string"),
        ({"command": "x", "env": {"A": []}}, "env.A: expected a string, found a list"),
    ],
)
def test_a_wrong_configuration_is_explained(config: object, problem: str) -> None:
    assert validate_mcp_config({"a": config})[0] == f"Server 'a': {problem}"


def test_a_server_in_the_process_is_not_looked_into() -> None:
    assert validate_mcp_config({"a": {"type": "sdk", "name": "a", "instance": object()}}) == []


def test_every_problem_is_in_the_error() -> None:
    with pytest.raises(AgentServerConfigError) as failed:
        convert_and_validate_mcp_config({"a": " ", "b": " "})

    assert str(failed.value) == (
        "MCP configuration validation failed:\n"
        "  - Server 'a': command: must not be empty\n"
        "  - Server 'b': command: must not be empty"
    )
    assert convert_and_validate_mcp_config({"a": "./x"}) == {"a": {"command": "./x"}}


def test_a_run_needs_each_of_its_servers_and_takes_the_models_timeouts() -> None:
    config = ModelConfig(
        id="a",
        model_name="m",
        mcp_urls_dict={"web": "http://h/mcp", "here": "./x"},
        mcp_http_timeout=3,
        mcp_sse_read_timeout=4,
    )

    servers = servers_for(config, None).servers

    web, here = servers["web"], servers["here"]
    assert isinstance(web, HttpServer)
    assert (web.url, web.required) == ("http://h/mcp", True)
    assert (web.exchange_seconds, web.stream_read_seconds) == (3.0, 4.0)
    assert isinstance(here, StdioServer)
    assert (here.command, here.required) == ("./x", True)
    assert servers_for(config, {}).servers == {}
    assert toolbox_for(config, {}) is None


def test_typed_servers_reach_the_toolbox_as_they_are() -> None:
    config = ModelConfig(id="a", model_name="m", mcp_http_timeout=3)
    typed = HttpServer(url="http://h/mcp")

    mixed = toolbox_for(config, {"typed": typed, "dict": {"command": "./x"}})
    whole = ClientConfig(servers={"typed": typed}, options={"include": ["a"]})

    assert mixed is not None
    assert list(mixed.config.servers) == ["typed", "dict"]
    assert mixed.config.servers["typed"] is typed
    assert servers_for(config, whole) is whole


@pytest.mark.anyio
async def test_filter_and_descriptions_hold_in_the_toolbox_of_a_run() -> None:
    server = MCPServer("s")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool()
    def sub(a: int, b: int) -> int:
        """Subtract."""
        return a - b

    sdk: Any = {"s": {"type": "sdk", "name": "s", "instance": server}}
    config = ModelConfig(
        id="a",
        model_name="m",
        mcp_tool_filter=["add"],
        mcp_tool_description_overrides={"add": "Sum of two."},
    )

    toolbox = toolbox_for(config, sdk)
    assert toolbox is not None
    async with toolbox:
        tools = await toolbox.tools()

    assert [(tool.name, tool.description) for tool in tools] == [("add", "Sum of two.")]


def test_the_secrets_of_model_and_servers_are_hidden() -> None:
    config = ModelConfig(
        id="a", model_name="m", interface="claude_tool", anthropic_api_key=SecretStr("canary-model")
    )
    toolbox = toolbox_for(
        config,
        {"a": {"type": "http", "url": "http://h/mcp", "headers": {"X-Key": "canary-server"}}},
    )

    redact = redactor_for(config, toolbox)

    assert redact("canary-model canary-server other") == "*** *** other"
    assert redactor_for(config, None)("canary-model") == "***"


def test_a_server_that_is_described_wrongly_is_a_config_error() -> None:
    config = ModelConfig(id="a", model_name="m")

    with pytest.raises(ConfigError):
        toolbox_for(config, {"a": {"type": "http"}})


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
        "b": {"command": "sleep", "args": ["60"], "close_timeout": 0.1},
        "a": _server("a"),  # behind it: on a busy machine, it may not be there in time either
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
