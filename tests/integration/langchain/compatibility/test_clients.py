"""The client of many servers: connections, names, HTTP clients, sessions."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from langchain_core.tools import BaseTool
from mcp import ClientSession

import plait
from plait import ConfigError, MultiServerMCPClient, PlaitError, create_session, load_mcp_tools
from plait.testing import ServerProcess
from tests.integration.langchain.compatibility.common import (
    DIFFERENCES,
    SHOWN,
    WIRES,
    Json,
    by_name,
    called,
    differs,
    message_of,
    tools_of,
)
from tests.servers.langchain_servers import math_server, stdio_entry, time_server, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SHOWN_ELSEWHERE = {
    *("A server that is down", "A server that hangs", "A tool that cannot be loaded"),
    *("Limit of a call", "Protocol era", "Unknown keys of a connection"),
}


def test_every_difference_of_the_migration_page_is_shown_by_a_test() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        import_module(f"tests.integration.langchain.compatibility.{path.stem}")
    assert SHOWN == DIFFERENCES - SHOWN_ELSEWHERE


@differs("Modules")
def test_everything_that_programs_import_is_in_one_module() -> None:
    for name in (
        *("MultiServerMCPClient", "Callbacks", "CallbackContext", "load_mcp_tools", "to_fastmcp"),
        *("convert_mcp_tool_to_langchain_tool", "MCPToolCallRequest", "ToolCallInterceptor"),
        *("load_mcp_prompt", "load_mcp_resources", "get_mcp_resource", "create_session"),
        *("load_mcp_server_info", "StdioConnection", "StreamableHttpConnection"),
        *("SSEConnection", "WebsocketConnection", "Connection", "McpHttpClientFactory"),
    ):
        assert hasattr(plait, name), name


@differs("Client in `async with`", "Content of a single text")
async def test_the_tools_of_all_servers_or_of_one_are_listed_and_called(
    servers: dict[str, ServerProcess],
) -> None:
    connections: Json = {
        "math": stdio_entry("math"),
        "weather": weather_server(),
        "time": {"transport": "websocket", "url": servers["websocket"].url},
    }
    async with MultiServerMCPClient(connections) as client:
        listed = await client.get_tools()
        apart = [await client.get_tools(name) for name in connections]
        assert [tool.name for tool in listed] == [tool.name for one in apart for tool in one]
        tools = by_name(listed)
        assert all(isinstance(tool, BaseTool) for tool in tools.values())
        assert {"add", "multiply", "report", "now"} <= set(tools)
        assert {"report", "weather__search"} == set(await tools_of(client, "weather"))
        assert "now" in await tools_of(client, "time")
        assert set(await tools_of(client, "math")) == {
            *("add", "multiply", "root", "divide", "give_up", "hum")
        }

        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"
        assert await tools["multiply"].ainvoke({"a": 4, "b": 5}) == "20"
        assert await tools["report"].ainvoke({"city": "Cork"}) == "Drizzle in Cork"
        for arguments in ({}, {"args": ""}):
            assert await tools["now"].ainvoke(arguments) == "twenty past five"


async def test_tools_work_without_a_context_and_after_the_loop_that_listed_them(
    servers: dict[str, ServerProcess],
) -> None:
    client = MultiServerMCPClient({"time": {"transport": "http", "url": servers["http"].url}})
    tools = by_name(await asyncio.to_thread(lambda: asyncio.run(client.get_tools())))
    assert await tools["now"].ainvoke({}) == "twenty past five"
    await client.aclose()


@differs("Sessions")
async def test_calls_share_a_session(servers: dict[str, ServerProcess]) -> None:
    connection = {"transport": "http", "url": servers["http"].url, "protocol": "legacy"}
    async with MultiServerMCPClient({"time": connection}) as client:
        visitor = (await tools_of(client))["visitor"]
        first, second = [str(await visitor.ainvoke({})).split()[-1] for _ in range(2)]
    assert first == second != "-"


@pytest.mark.parametrize(
    "transport", ["http", "streamable_http", "streamable-http", "streamableHttp", "sse"]
)
async def test_every_spelling_of_a_transport_and_all_settings_of_a_url_are_understood(
    transport: str, servers: dict[str, ServerProcess]
) -> None:
    connection: Json = {
        "transport": transport,
        "url": servers["sse" if transport == "sse" else "http"].url,
        "headers": {"X-User": "ada"},
        "timeout": 20 if transport == "sse" else timedelta(seconds=20),
        "sse_read_timeout": 90.0 if transport == "sse" else timedelta(seconds=90),
        "auth": None,
        "session_kwargs": {"read_timeout_seconds": 30},
        "httpx_client_factory": None,
    }
    if transport != "sse":
        connection["terminate_on_close"] = False
    async with MultiServerMCPClient({"time": connection}) as client:
        visitor = (await tools_of(client, "time"))["visitor"]
        assert str(await visitor.ainvoke({})).startswith("ada ")


@pytest.mark.parametrize("limit", [None, timedelta(seconds=20), 20, 20.5])
async def test_all_settings_of_a_program_are_understood(limit: Any, tmp_path: Path) -> None:
    connection: Json = stdio_entry("time", env={"NAME": "plain"}) | {
        "cwd": tmp_path,
        "encoding": "utf-8",
        "encoding_error_handler": "strict",
        "session_kwargs": {} if limit is None else {"read_timeout_seconds": limit},
    }
    async with MultiServerMCPClient({"time": connection}) as client:
        variable = (await tools_of(client))["variable"]
        assert await variable.ainvoke({"name": "NAME"}) == "plain"
        async with client.session("time") as session:
            assert len((await session.list_tools()).tools) == 6


@pytest.mark.parametrize("kind", ["http", "sse"])
@differs("HTTP client")
async def test_a_factory_of_the_user_makes_the_http_client(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        own = {**(headers or {}), "X-Made-By": "factory"}
        limits = httpx2.Limits(max_keepalive_connections=5, max_connections=10)
        return httpx2.AsyncClient(headers=own, timeout=timeout, auth=auth, limits=limits)

    connection = {"transport": kind, "url": servers[kind].url, "headers": {"X-User": "ada"}}
    own: Json = {**connection, "httpx_client_factory": factory}
    async with MultiServerMCPClient({"time": own}) as client:
        tools = await tools_of(client, "time")
        assert (await message_of(tools["visitor"])).text.startswith("ada factory ")
        assert (await message_of(tools["now"])).content == "twenty past five"

    of_httpx: Json = {**connection, "httpx_client_factory": lambda **_: httpx.AsyncClient()}
    with pytest.raises(ConfigError, match="httpx2"):
        await MultiServerMCPClient({"time": of_httpx}).get_tools()


@pytest.mark.parametrize(
    ("options", "separator", "unique"),
    [
        ({}, "__", "report"),
        ({"tool_name_prefix": False}, "__", "report"),
        ({"tool_name_prefix": True}, "_", "weather_report"),
    ],
)
@differs("Two servers with one tool name")
async def test_tools_of_the_same_name_are_told_apart_and_all_are_prefixed_where_that_is_asked_for(
    options: Json, separator: str, unique: str
) -> None:
    servers = {"weather": weather_server(), "time": time_server()}
    async with MultiServerMCPClient(servers, **options) as client:
        assert client.tool_name_prefix is (separator == "_")
        tools = await tools_of(client)
        assert "search" not in tools
        of_weather, of_time = tools[f"weather{separator}search"], tools[f"time{separator}search"]
        assert await of_weather.ainvoke({"query": "x"}) == "weather about x"
        assert await of_time.ainvoke({"query": "x"}) == "appointments about x"
        assert unique in tools
        if client.tool_name_prefix:
            assert all(name.startswith(("weather_", "time_")) for name in tools)
            assert (await client.get_tools(server_name="time"))[0].name == "time_now"


async def test_an_unknown_server_is_a_value_error_everywhere() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        for answer in (
            client.get_tools(server_name="nope"),
            client.session("nope").__aenter__(),
            client.get_prompt("nope", "tutor"),
            client.get_resources("nope"),
            client.get_server_info(server_name="nope"),
        ):
            with pytest.raises(ValueError, match="'nope'"):
                await answer


@differs("`new MultiServerMCPClient({})`")
async def test_a_client_without_connections_has_nothing_and_says_so() -> None:
    for client in (MultiServerMCPClient(), MultiServerMCPClient({}), MultiServerMCPClient(None)):
        assert await client.get_tools() == []
        assert await client.get_resources() == []
        assert await client.get_server_info() == {}
        assert client.connections == {}
        await client.aclose()


async def test_connections_may_be_changed_after_construction() -> None:
    async with MultiServerMCPClient() as client:
        client.connections["math"] = stdio_entry("math")
        add = (await tools_of(client))["add"]
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"

        client.connections["weather"] = weather_server()
        assert {"add", "report"} <= set(await tools_of(client))

        del client.connections["math"]
        # It serves its tools until the next use of the client.
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"
        assert set(await tools_of(client)) == {"report", "search"}
        with pytest.raises(ConfigError):
            await add.ainvoke({"a": 1, "b": 2})

        client.connections["weather"] = time_server()
        assert "now" in await tools_of(client, "weather")


async def test_changed_headers_reach_tools_that_were_handed_out(
    servers: dict[str, ServerProcess],
) -> None:
    url = servers["http"].url
    connections: Json = {"time": {"url": url, "headers": {"X-User": "ada"}}}
    async with MultiServerMCPClient(connections) as client:
        visitor = (await tools_of(client))["visitor"]
        assert str(await visitor.ainvoke({})).startswith("ada ")
        client.connections["time"]["headers"]["X-User"] = "grace"
        assert str(await visitor.ainvoke({})).startswith("grace ")
        client.connections["time"] = {"url": url, "headers": {"X-User": "mary"}}
        assert str(await asyncio.to_thread(visitor.invoke, {})).startswith("mary ")
        message = await visitor.ainvoke(called(visitor), {"callbacks": []})
        assert str(message.content).startswith("mary ")


GIVEN = {"WHOLE": "${TOKEN_OF_THE_TEST}", "PART": "Bearer ${TOKEN_OF_THE_TEST}!"}
FILLED_IN = {"WHOLE": "s3cret", "PART": "Bearer s3cret!"}
KEPT = {"PLAIN": "as it is", "DOLLAR": "p@ss$word123"}


@pytest.mark.parametrize(
    ("env", "values"),
    [
        (None, {"PATH": os.environ["PATH"]}),
        ({}, {"PATH": os.environ["PATH"]}),
        (GIVEN | KEPT, FILLED_IN | KEPT),
    ],
    ids=["none", "empty", "filled in"],
)
async def test_variables_of_a_program_are_filled_in_and_it_has_a_path_to_run_with(
    env: dict[str, str] | None, values: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEST", "s3cret")
    monkeypatch.setenv("word123", "never")
    async with MultiServerMCPClient({"time": {**stdio_entry("time"), "env": env}}) as client:
        variable = (await tools_of(client))["variable"]
        assert {name: await variable.ainvoke({"name": name}) for name in values} == values


@differs("`${VAR}` that is not set")
def test_a_variable_that_is_not_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE") as raised:
        MultiServerMCPClient({"time": stdio_entry("time", env={"A": "${NOT_SET_ANYWHERE}"})})
    assert isinstance(raised.value, PlaitError)


@pytest.mark.parametrize("wire", [*WIRES, "in-process"], indirect=True)
async def test_a_session_is_opened_and_initialized(wire: Any) -> None:
    client = MultiServerMCPClient({"time": wire})
    async with client.session("time") as session:
        assert isinstance(session, ClientSession)
        assert session.server_info is not None
        assert session.server_info.name == "Time"
        tools = by_name(await load_mcp_tools(session))
        assert await tools["now"].ainvoke({"args": ""}) == "twenty past five"
    await client.aclose()


async def test_a_session_is_left_to_the_user_to_initialize(wire: Any) -> None:
    async with MultiServerMCPClient({"time": wire}) as client:
        for opening in (client.session("time", auto_initialize=False), create_session(wire)):
            async with opening as session:
                assert session.server_capabilities is None
                assert (await session.initialize()).server_info.name == "Time"
                assert "now" in by_name(await load_mcp_tools(session))
                assert (await session.call_tool("now", {})).content[0].type == "text"


async def test_a_session_with_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="carrier-pigeon"):
        async with create_session({"transport": "carrier-pigeon", "url": "http://127.0.0.1/mcp"}):
            pass
