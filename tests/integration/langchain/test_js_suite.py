"""What the suite of `@langchain/mcp-adapters` checks of servers, in our words, on real ones.

`test_js_calls.py` and `test_js_tools.py` have the rest. A test with `differs` shows a deliberate
difference, which the migration page explains in the row of that name.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Generator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import httpx2
import pytest

from plait import (
    AuthRequiredError,
    ConfigError,
    ConnectError,
    MCPClientError,
    MultiServerMCPClient,
    UnknownServerError,
)
from plait.testing import ServerProcess, eventually
from tests.integration.langchain.js import (
    DIFFERENCES,
    SHOWN,
    TOKEN,
    differs,
    message_of,
    tools_of,
)
from tests.integration.langchain.peer import PAGE
from tests.nursery import fault_server, stdio_config
from tests.servers import legacy_server
from tests.servers.js_servers import stdio_js

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]

DEAD: Json = {"url": "http://127.0.0.1:9/mcp"}


def test_every_difference_is_shown_by_a_test_and_is_on_the_migration_page() -> None:
    import_module("tests.integration.langchain.test_js_calls")
    title = "### What is different on purpose from @langchain/mcp-adapters"
    section = PAGE.read_text().split(title)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in lines[2:]}
    assert SHOWN == DIFFERENCES == rows


@differs("`new MultiServerMCPClient({})`")
async def test_a_client_without_servers_has_no_tools() -> None:
    assert await MultiServerMCPClient({}).get_tools() == []


@differs("Errors of a configuration")
@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"transport": "invalid"}, "test-server.transport"),
        ({"transport": "http"}, "test-server"),
        ({"transport": "http", "url": "not-a-url"}, "test-server.url"),
        ({"transport": "stdio"}, "test-server"),
    ],
)
def test_a_server_that_is_not_valid_is_named(entry: Json, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MultiServerMCPClient({"test-server": entry})

    assert [problem.path for problem in refused.value.problems] == [place]
    assert isinstance(refused.value, ValueError)


def test_valid_servers_of_each_transport_are_accepted() -> None:
    restart = {"enabled": True, "maxAttempts": 3, "delayMs": 100}
    client = MultiServerMCPClient(
        {
            "program": {
                "transport": "stdio",
                "command": "python",
                "args": ["./script.py"],
                "env": {"A": "1"},
                "cwd": "/tmp",
                "stderr": "inherit",
                "restart": restart,
            },
            "events": {
                "transport": "sse",
                "url": "http://localhost:8000/sse",
                "reconnect": restart,
                "headers": {"Authorization": "Bearer token"},
            },
            "http": {"url": "http://localhost:8000/mcp", "automaticSSEFallback": True},
        }
    )

    kinds = {name: server.transport for name, server in client.config.servers.items()}
    assert kinds == {"program": "stdio", "events": "sse", "http": "http"}
    servers = client.config.servers
    assert servers["program"].reconnect.first_delay_seconds == 0.1
    assert servers["events"].reconnect.first_delay_seconds == 0.1


@differs("`config`")
def test_the_configuration_can_be_inspected_and_is_a_copy() -> None:
    given: Json = {
        "mcpServers": {"test-server": {"url": "http://example.com/mcp"}},
        "throwOnLoadError": False,
        "prefixToolNameWithServerName": True,
    }
    client = MultiServerMCPClient(given)
    given["throwOnLoadError"] = True

    assert list(client.config.servers) == ["test-server"]
    assert client.config.options["throw_on_load_error"] is False
    assert client.config.options["prefix_tool_name_with_server_name"] is True


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "test_tool"),
        ({"prefixToolNameWithServerName": True}, "test-server__test_tool"),
        ({"additionalToolNamePrefix": "mcp"}, "mcp__test_tool"),
        (
            {"prefixToolNameWithServerName": True, "additionalToolNamePrefix": "mcp"},
            "mcp__test-server__test_tool",
        ),
        ({"prefixToolNameWithServerName": False, "additionalToolNamePrefix": ""}, "test_tool"),
    ],
)
async def test_names_are_prefixed_as_the_options_say(
    options: Json, name: str, js_servers: dict[str, ServerProcess]
) -> None:
    entry = {"url": js_servers["http"].url}
    async with MultiServerMCPClient({"mcpServers": {"test-server": entry}, **options}) as client:
        assert name in await tools_of(client)


async def test_every_transport_is_connected_and_called(connection: Json) -> None:
    async with MultiServerMCPClient({"test-server": connection}) as client:
        tools = await client.initialize_connections()
        assert [*tools] == ["test-server"]
        (tool,) = (one for one in tools["test-server"] if one.name == "test_tool")
        assert json.loads(await tool.ainvoke({"input": "hi"}))["input"] == "hi"
        again = await client.initialize_connections()
        assert [one.name for one in again["test-server"]] == [
            one.name for one in tools["test-server"]
        ]


async def test_several_servers_are_listed_together_and_one_by_one(
    js_servers: dict[str, ServerProcess],
) -> None:
    entries = {
        "program": stdio_js(env={"TEST_VAR": "test-value"}),
        "http": {"url": js_servers["http"].url},
        "events": {"url": js_servers["sse"].url, "transport": "sse"},
    }
    options = {"mcpServers": entries, "prefixToolNameWithServerName": True}
    async with MultiServerMCPClient(options) as client:
        everything = await client.get_tools()
        apart = [await client.get_tools(name) for name in entries]
        assert [tool.name for tool in everything] == [tool.name for one in apart for tool in one]
        assert all(tool.name.startswith("http__") for tool in apart[1])
        assert await (await tools_of(client))["program__check_env"].ainvoke(
            {"name": "TEST_VAR"}
        ) == ("test-value")


@pytest.mark.parametrize(
    "entry",
    [DEAD, {"command": "no-such-command", "args": []}, {"url": "http://no-such-host.invalid/mcp"}],
)
async def test_a_server_that_cannot_be_reached_is_a_client_error(entry: Json) -> None:
    async with MultiServerMCPClient({"failing": entry}) as client:
        for connect in (client.initialize_connections, client.get_tools):
            with pytest.raises(MCPClientError) as failed:
                await connect()
            assert failed.value.server == "failing"


@differs("`onConnectionError` that is not set")
@pytest.mark.parametrize(
    ("mode", "names"), [(None, {"good"}), ("ignore", {"good"}), ("throw", None)]
)
async def test_one_dead_server_is_ignored_or_thrown(
    mode: str | None, names: set[str] | None, js_servers: dict[str, ServerProcess]
) -> None:
    options: Json = {} if mode is None else {"onConnectionError": mode}
    entries = {"bad": DEAD, "good": {"url": js_servers["http"].url}}
    async with MultiServerMCPClient({"mcpServers": entries, **options}) as client:
        with pytest.raises(ConnectError) if names is None else nullcontext():
            tools = await client.initialize_connections()
            assert {name for name, listed in tools.items() if listed} == names
            assert {*(await client.initialize_connections())} == {*tools}


async def test_with_ignore_all_servers_may_be_down() -> None:
    options = {"mcpServers": {"a": DEAD, "b": DEAD}, "onConnectionError": "ignore"}
    async with MultiServerMCPClient(options) as client:
        assert await client.initialize_connections() == {"a": [], "b": []}
        assert await client.get_tools() == []


async def test_a_handler_is_asked_once_about_a_server_that_is_down(
    js_servers: dict[str, ServerProcess],
) -> None:
    heard: list[tuple[str, Exception]] = []
    entries = {"bad": DEAD, "good": {"url": js_servers["http"].url}}
    options = {
        "mcpServers": entries,
        "onConnectionError": lambda name, error: heard.append((name, error)),
    }
    async with MultiServerMCPClient(options) as client:
        for _ in range(2):
            tools = await client.initialize_connections()
            assert (tools["bad"], bool(tools["good"])) == ([], True)

    ((name, error),) = heard
    assert name == "bad"
    assert isinstance(error, MCPClientError)


async def test_what_a_handler_raises_is_raised_each_time(
    js_servers: dict[str, ServerProcess],
) -> None:
    def refuse(name: str, error: Exception) -> None:
        raise RuntimeError(f"not without {name}") from error

    entries = {"bad": DEAD, "good": {"url": js_servers["http"].url}}
    options = {"mcpServers": entries, "onConnectionError": refuse}
    async with MultiServerMCPClient(options) as client:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not without bad"):
                await client.initialize_connections()


@differs("`getClient` of a server that is unknown or down")
async def test_a_client_of_a_server_connects_when_it_is_used(
    js_servers: dict[str, ServerProcess],
) -> None:
    entries = {"bad": DEAD, "good": {"url": js_servers["http"].url}}
    async with MultiServerMCPClient(entries) as client:
        assert (await (await client.get_client("good")).list_tools()) != []
        with pytest.raises(ConnectError):
            await (await client.get_client("bad")).list_tools()
        with pytest.raises(UnknownServerError):
            await client.get_client("nobody")


async def test_a_server_of_the_older_transport_is_found() -> None:
    with legacy_server("sse") as server:
        entry = {"url": server.url.replace("/sse", "/mcp"), "transport": "http"}
        async with MultiServerMCPClient({"old": {**entry, "url": server.url}}) as client:
            assert await client.get_tools()
            assert client.status()["old"].transport == "sse"


async def test_headers_reach_the_server(url: Json, js_servers: dict[str, ServerProcess]) -> None:
    guarded = js_servers[f"{url['transport']} guarded"].url
    headers = {"Authorization": f"Bearer {TOKEN}", "X-API-Key": "my-api-key"}
    async with MultiServerMCPClient({"a": {**url, "url": guarded, "headers": headers}}) as client:
        check = (await tools_of(client))["check_headers"]
        assert await check.ainvoke({"name": "X-API-Key"}) == "my-api-key"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
async def test_a_login_that_is_not_accepted_is_a_client_error(
    headers: Json, url: Json, js_servers: dict[str, ServerProcess]
) -> None:
    guarded = js_servers[f"{url['transport']} guarded"].url
    async with MultiServerMCPClient({"a": {**url, "url": guarded, "headers": headers}}) as client:
        with pytest.raises(AuthRequiredError) as refused:
            await client.get_tools()
        assert isinstance(refused.value, MCPClientError)
        assert (refused.value.server, refused.value.status) == ("a", 401)


class Login(httpx2.Auth):
    """Adds a token to each request, as a provider does; without one, it fails."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        if self._token is None:
            raise RuntimeError("no tokens are there")
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


@pytest.mark.parametrize(("token", "works"), [(TOKEN, True), ("wrong", False), (None, False)])
async def test_a_provider_signs_requests_beside_headers_of_ones_own(
    token: str | None, works: bool, url: Json, js_servers: dict[str, ServerProcess]
) -> None:
    guarded = js_servers[f"{url['transport']} guarded"].url
    entry = {**url, "url": guarded, "authProvider": Login(token), "headers": {"X-Own": "mine"}}
    async with MultiServerMCPClient({"a": entry}) as client:
        if works:
            check = (await tools_of(client))["check_headers"]
            assert await check.ainvoke({"name": "X-Own"}) == "mine"
        else:
            with pytest.raises(MCPClientError):
                await client.get_tools()


async def test_other_headers_are_another_connection(js_servers: dict[str, ServerProcess]) -> None:
    async with MultiServerMCPClient({"a": {"url": js_servers["http"].url}}) as client:
        for user in ("ada", "bob", "ada"):
            tools = await client.get_tools("a", headers={"X-User": user})
            (check,) = (tool for tool in tools if tool.name == "check_headers")
            assert await check.ainvoke({"name": "X-User"}) == user


@differs("`restart` and `reconnect` that are not set")
@pytest.mark.parametrize("restart", [None, {"enabled": True, "maxAttempts": 3, "delayMs": 100}])
async def test_a_program_that_ended_is_started_again(restart: Json | None) -> None:
    entry = stdio_config()
    if restart is not None:
        entry = {**entry, "restart": restart}
    async with MultiServerMCPClient({"a": entry}) as client:
        tools = await tools_of(client)
        await tools["die"].ainvoke({})
        assert await tools["echo"].ainvoke({"text": "back"}) == "back"


async def test_a_stream_that_broke_is_opened_again() -> None:
    with fault_server("sse") as server:
        entry = {"url": server.url, "transport": "sse", "reconnect": {"delayMs": 20}}
        async with MultiServerMCPClient({"a": entry}) as client:
            echo = (await tools_of(client))["echo"]
            server.restart()
            assert await echo.ainvoke({"text": "back"}) == "back"


async def test_without_reconnecting_a_server_stays_lost() -> None:
    async with MultiServerMCPClient(
        {"a": {**stdio_config(), "restart": {"enabled": False}}}
    ) as box:
        tools = await tools_of(box)
        await tools["die"].ainvoke({})
        await eventually(lambda: box.status()["a"].state == "failed")
        message = await message_of(tools["echo"], text="again")
        assert message.status == "error"


@differs("`close()` that fails")
async def test_closing_ends_every_connection_and_raises_nothing(
    js_servers: dict[str, ServerProcess],
) -> None:
    entries = {"program": stdio_config(), "http": {"url": js_servers["http"].url}}
    client = MultiServerMCPClient(entries)
    await client.get_tools()
    pid = client.status()["program"].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # it cannot say goodbye
    await client.aclose()
    await client.aclose()
    states = {one.state for one in client.status().servers.values()}
    assert states == {"closed"}
