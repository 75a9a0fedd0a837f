"""The client of many servers: connections, names, HTTP clients, sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import httpx
import httpx2
import pytest
from langchain_core.tools import BaseTool
from mcp import ClientSession

from plait import ConfigError, MultiServerMCPClient, PlaitError, create_session, load_mcp_tools
from plait.testing import ServerProcess, free_port, running
from tests.servers.langchain_servers import (
    math_server,
    served,
    stdio_entry,
    time_server,
    weather_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    with running(served("time"), served("time", "sse"), served("time", "websocket")) as found:
        yield dict(zip(("http", "sse", "websocket"), found, strict=True))


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


def nowhere() -> Json:
    return {"transport": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"}


async def test_the_tools_of_all_servers_or_of_one_are_listed_and_called(
    servers: dict[str, ServerProcess],
) -> None:
    connections: Json = {
        "math": stdio_entry("math"),
        "weather": weather_server(),
        "time": {"transport": "websocket", "url": servers["websocket"].url},
    }
    async with MultiServerMCPClient(connections) as client:
        tools = by_name(await client.get_tools())
        assert {"add", "multiply", "report", "now"} <= set(tools)
        assert len(await client.get_tools(server_name="weather")) == 2
        assert set(by_name(await client.get_tools(server_name="math"))) == {
            *("add", "multiply", "root", "divide", "give_up", "hum")
        }

        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"
        assert await tools["multiply"].ainvoke({"a": 4, "b": 5}) == "20"
        assert await tools["report"].ainvoke({"city": "Cork"}) == "Drizzle in Cork"
        assert await tools["now"].ainvoke({}) == "twenty past five"


async def test_tools_work_without_a_context_and_after_the_loop_that_listed_them(
    servers: dict[str, ServerProcess],
) -> None:
    client = MultiServerMCPClient({"time": {"transport": "http", "url": servers["http"].url}})
    tools = by_name(await asyncio.to_thread(lambda: asyncio.run(client.get_tools())))
    assert await tools["now"].ainvoke({}) == "twenty past five"
    await client.aclose()


@pytest.mark.parametrize(
    "transport", ["http", "streamable_http", "streamable-http", "streamableHttp"]
)
async def test_every_spelling_of_streamable_http_is_understood(
    transport: str, servers: dict[str, ServerProcess]
) -> None:
    connection = {"transport": transport, "url": servers["http"].url}
    async with MultiServerMCPClient({"time": connection}) as client:
        assert "now" in by_name(await client.get_tools(server_name="time"))


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_all_settings_of_a_url_are_understood(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    connection: Json = {
        "transport": kind,
        "url": servers[kind].url,
        "headers": {"X-User": "ada"},
        "timeout": timedelta(seconds=20) if kind == "http" else 20,
        "sse_read_timeout": timedelta(seconds=90) if kind == "http" else 90.0,
        "auth": None,
        "session_kwargs": {"read_timeout_seconds": 30},
        "httpx_client_factory": None,
    }
    if kind == "http":
        connection["terminate_on_close"] = False
    async with MultiServerMCPClient({"time": connection}) as client:
        visitor = by_name(await client.get_tools())["visitor"]
        assert str(await visitor.ainvoke({})).startswith("ada ")


async def test_all_settings_of_a_program_are_understood(tmp_path: Any) -> None:
    connection: Json = stdio_entry("time", env={"NAME": "plain"}) | {
        "cwd": tmp_path,
        "encoding": "utf-8",
        "encoding_error_handler": "strict",
        "session_kwargs": {},
    }
    async with MultiServerMCPClient({"time": connection}) as client:
        variable = by_name(await client.get_tools())["variable"]
        assert await variable.ainvoke({"name": "NAME"}) == "plain"


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_factory_of_the_user_makes_the_http_client(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        own = {**(headers or {}), "X-Made-By": "factory"}
        limits = httpx2.Limits(max_connections=10)
        return httpx2.AsyncClient(headers=own, timeout=timeout, auth=auth, limits=limits)

    connection = {
        "transport": kind,
        "url": servers[kind].url,
        "headers": {"X-User": "ada"},
        "httpx_client_factory": factory,
    }
    async with MultiServerMCPClient({"time": connection}) as client:
        visitor = by_name(await client.get_tools(server_name="time"))["visitor"]
        assert str(await visitor.ainvoke({})).startswith("ada factory ")


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_factory_that_makes_a_client_of_httpx_is_refused(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    connection = {
        "transport": kind,
        "url": servers[kind].url,
        "httpx_client_factory": lambda **_: httpx.AsyncClient(),
    }
    async with MultiServerMCPClient({"time": connection}) as client:
        with pytest.raises(ConfigError, match="httpx2"):
            await client.get_tools()


async def test_tools_of_the_same_name_are_told_apart() -> None:
    servers = {"weather": weather_server(), "time": time_server()}
    async with MultiServerMCPClient(servers) as client:
        tools = by_name(await client.get_tools())
        assert "search" not in tools
        assert await tools["weather__search"].ainvoke({"query": "x"}) == "weather about x"
        assert await tools["time__search"].ainvoke({"query": "x"}) == "appointments about x"
        assert "report" in tools


async def test_every_tool_is_prefixed_where_that_is_asked_for() -> None:
    servers = {"weather": weather_server(), "time": time_server()}
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        tools = by_name(await client.get_tools())
        assert {"weather_search", "time_search", "weather_report", "time_now"} <= set(tools)
        assert all(name.startswith(("weather_", "time_")) for name in tools)
        assert await tools["weather_search"].ainvoke({"query": "x"}) == "weather about x"
        assert (await client.get_tools(server_name="time"))[0].name == "time_now"


async def test_a_dead_server_does_not_take_the_others_with_it() -> None:
    async with MultiServerMCPClient({"math": math_server(), "dead": nowhere()}) as client:
        assert "add" in by_name(await client.get_tools())
        assert "dead" in client.status().failures
        with pytest.raises(PlaitError) as raised:
            await client.get_tools(server_name="dead")
        assert raised.value.server == "dead"


async def test_an_unknown_server_is_a_value_error_everywhere() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        with pytest.raises(ValueError, match="'nope'"):
            await client.get_tools(server_name="nope")
        with pytest.raises(ValueError, match="'nope'"):
            async with client.session("nope"):
                pass
        with pytest.raises(ValueError, match="'nope'"):
            await client.get_prompt("nope", "tutor")
        with pytest.raises(ValueError, match="'nope'"):
            await client.get_resources("nope")


async def test_a_client_without_connections_has_nothing_and_says_so() -> None:
    for client in (MultiServerMCPClient(), MultiServerMCPClient({}), MultiServerMCPClient(None)):
        assert await client.get_tools() == []
        assert await client.get_resources() == []
        assert await client.get_server_info() == {}
        assert client.connections == {}
        await client.aclose()


async def test_connections_may_be_changed_after_construction() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        add = by_name(await client.get_tools())["add"]

        client.connections["weather"] = weather_server()
        assert {"add", "report"} <= set(by_name(await client.get_tools()))

        del client.connections["math"]
        assert set(by_name(await client.get_tools())) == {"report", "search"}
        with pytest.raises(ConfigError):
            await add.ainvoke({"a": 1, "b": 2})

        client.connections["weather"] = time_server()
        assert "now" in by_name(await client.get_tools(server_name="weather"))


async def test_connections_may_be_added_to_a_client_that_had_none() -> None:
    async with MultiServerMCPClient() as client:
        client.connections["math"] = stdio_entry("math")
        assert await by_name(await client.get_tools())["add"].ainvoke({"a": 1, "b": 2}) == "3"


async def test_variables_of_the_environment_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_THE_TEST", "s3cret")
    monkeypatch.setenv("word", "never")
    env = {
        "WHOLE": "${TOKEN_OF_THE_TEST}",
        "PART": "Bearer ${TOKEN_OF_THE_TEST}!",
        "PLAIN": "plain",
        "DOLLAR": "p@ss$word",
    }
    async with MultiServerMCPClient({"time": stdio_entry("time", env=env)}) as client:
        variable = by_name(await client.get_tools())["variable"]
        found = {name: await variable.ainvoke({"name": name}) for name in env}

    assert found == {
        "WHOLE": "s3cret",
        "PART": "Bearer s3cret!",
        "PLAIN": "plain",
        "DOLLAR": "p@ss$word",
    }


async def test_a_program_without_variables_of_its_own_is_started() -> None:
    servers: Json = {
        "none": {**stdio_entry("time"), "env": None},
        "empty": {**stdio_entry("time"), "env": {}},
    }
    async with MultiServerMCPClient(servers) as client:
        assert {"none__now", "empty__now"} <= set(by_name(await client.get_tools()))


async def test_a_variable_that_is_not_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        MultiServerMCPClient({"time": stdio_entry("time", env={"A": "${NOT_SET_ANYWHERE}"})})


@pytest.mark.parametrize("kind", ["stdio", "http", "sse", "websocket", "in-process"])
async def test_a_session_is_opened_and_initialized(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    client = MultiServerMCPClient({"time": connection_of(kind, servers)})
    async with client, client.session("time") as session:
        assert isinstance(session, ClientSession)
        assert session.server_info is not None
        assert session.server_info.name == "Time"
        tools = by_name(await load_mcp_tools(session))
        assert await tools["now"].ainvoke({}) == "twenty past five"


@pytest.mark.parametrize("kind", ["stdio", "http", "sse", "websocket"])
async def test_a_session_is_left_to_the_user_to_initialize(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    client = MultiServerMCPClient({"time": connection_of(kind, servers)})
    async with client.session("time", auto_initialize=False) as session:
        assert session.server_capabilities is None
        answer = await session.initialize()
        assert answer.server_info.name == "Time"
        assert "now" in by_name(await load_mcp_tools(session))
    await client.aclose()


@pytest.mark.parametrize("kind", ["stdio", "http", "sse", "websocket"])
async def test_a_session_of_a_connection_needs_no_client(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    async with create_session(connection_of(kind, servers)) as session:
        assert session.server_capabilities is None
        await session.initialize()
        assert (await session.call_tool("now", {})).content[0].type == "text"


async def test_a_session_with_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="carrier-pigeon"):
        async with create_session({"transport": "carrier-pigeon", "url": "http://127.0.0.1/mcp"}):
            pass


def connection_of(kind: str, servers: dict[str, ServerProcess]) -> Any:
    if kind == "in-process":
        return time_server()
    if kind == "stdio":
        return stdio_entry("time")
    return {"transport": kind, "url": servers[kind].url}


async def test_run_and_arun_of_langchain_need_no_config() -> None:
    client = MultiServerMCPClient({"math": stdio_entry("math")})
    try:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for _ in range(2):
            assert await tools["add"].arun({"a": 1, "b": 2}) == "3"
            assert await asyncio.to_thread(tools["add"].run, {"a": 2, "b": 2}) == "4"
    finally:
        await client.aclose()
