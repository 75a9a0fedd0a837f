"""The test server and the fault server over HTTP, SSE and WebSocket, in both protocol eras."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from plait.testing import (
    FaultOptions,
    ServerProcess,
    eventually,
    fault_server,
    running,
    running_server,
    server_stdio_config,
)
from plait.testing.fixtures import StartFaultServer
from tests.integration.testing.support import parameters, text, websocket_client

pytestmark = pytest.mark.anyio

Servers = dict[str, ServerProcess]

URLS = {"http": r"http://127\.0\.0\.1:\d+/mcp", "sse": r"http://127\.0\.0\.1:\d+/sse"} | {
    "websocket": r"ws://127\.0\.0\.1:\d+/mcp"
}
FAULTS: dict[str, FaultOptions] = {
    "plain": {},
    "auth": {
        "http_status": 401,
        "http_status_on": "initialize",
        "www_authenticate": 'Bearer scope="read"',
        "http_body": "who are you?",
    },
    "busy": {"http_status": "429:1", "http_status_on": "call", "retry_after": 1},
    "cut": {"cut_sse": 1},
    "legacy": {"legacy_only": True},
    "modern": {"modern_only": True},
    "hanging": {"hang_handshake": True},
    "late": {"delay": 0.2, "exit_after": 1, "exit_code": 3},
    "dropping": {"die_by": "drop", "stateless": True, "json_response": True},
}


@pytest.fixture(scope="module")
def servers() -> Generator[Servers]:
    with running(*(running_server("--transport", one) for one in URLS)) as started:
        yield dict(zip(URLS, started, strict=True))


@pytest.fixture(scope="module")
def faults() -> Generator[Servers]:
    with running(*(fault_server("http", **options) for options in FAULTS.values())) as started:
        yield dict(zip(FAULTS, started, strict=True))


def target_of(transport: str, servers: Servers) -> Any:
    clients: dict[str, Callable[[str], Any]] = {"sse": sse_client, "websocket": websocket_client}
    if transport == "stdio":
        return parameters(server_stdio_config())
    return clients.get(transport, str)(servers[transport].url)


@pytest.mark.parametrize("transport", [*URLS, "stdio"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_three_tools_answer(transport: str, mode: Any, servers: Servers) -> None:
    async with Client(target_of(transport, servers), mode=mode) as client:
        assert (client.protocol_version >= "2026") == (mode == "auto")
        info = client.server_info
        assert info is not None
        assert (info.name, info.version) == ("Test MCP Server", "1.0.0")
        assert await text(client, "add_numbers", a=2, b=40) == "42"
        assert abs(int(await text(client, "get_timestamp")) - time.time()) < 60
        now = await text(client, "get_current_time")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", now)
        there = await text(client, "get_current_time", timezone="Europe/Oslo")
        assert re.fullmatch(r"\S+Z \(requested: Europe/Oslo\)", there)


def test_the_url_is_announced_on_one_line(servers: Servers) -> None:
    assert servers["http"].log == f"listening on {servers['http'].url}\n"
    for transport, url in URLS.items():
        assert re.fullmatch(url, servers[transport].url)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_server_without_packages_lists_what_that_of_the_sdk_lists(
    mode: Any, servers: Servers
) -> None:
    plain_target, sdk_target = target_of("stdio", servers), target_of("http", servers)
    async with Client(plain_target, mode=mode) as plain, Client(sdk_target, mode=mode) as sdk:
        assert (await plain.list_tools()).tools == (await sdk.list_tools()).tools
        assert plain.protocol_version == sdk.protocol_version
        for one in (plain, sdk):
            assert (await one.call_tool("add_numbers", {"a": "x"})).is_error


def test_the_server_on_stdio_starts_without_packages() -> None:
    program = (
        "import plait.testing.server, sys; print({*sys.modules} & {'mcp', 'pydantic', 'anyio'})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"


def post(url: str, method: str, version: str, timeout_seconds: float = 5) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    return httpx2.post(url, json=message, headers=headers, timeout=timeout_seconds)


async def test_a_status_comes_with_its_headers_at_its_moment_and_so_many_times(
    faults: Servers,
) -> None:
    url = faults["auth"].url
    for method in ("initialize", "server/discover"):
        refused = post(url, method, "2025-11-25")
        assert (refused.status_code, refused.text) == (401, "who are you?")
        assert refused.headers["www-authenticate"] == 'Bearer scope="read"'
    assert post(url, "tools/list", "2025-11-25").status_code != 401
    waits: list[str | None] = []

    async def note(response: httpx2.Response) -> None:
        waits.append(response.headers.get("retry-after"))

    async with httpx2.AsyncClient(event_hooks={"response": [note]}) as http:
        transport = streamable_http_client(faults["busy"].url, http_client=http)
        async with Client(transport) as client:
            await client.list_tools()
            with pytest.raises(MCPError):
                await client.call_tool("add", {"a": 1, "b": 2})
            assert await text(client, "add", a=1, b=2) == "3"
    assert waits == [None, None, "1", None]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_of_each_era_sees_its_headers_and_ends_when_it_is_cancelled(
    faults: Servers, mode: Any
) -> None:
    async with Client(faults["plain"].url, mode=mode) as client:
        headers = (await client.call_tool("headers")).structured_content
        assert headers["host"] == f"127.0.0.1:{faults['plain'].port}"
        assert headers["mcp-protocol-version"] == client.protocol_version
        before = int(await text(client, "cancelled_calls"))
        with pytest.raises(MCPError):
            await client.call_tool("hang", read_timeout_seconds=0.2)

        async def is_counted() -> bool:
            return int(await text(client, "cancelled_calls")) == before + 1

        await eventually(is_counted)


async def test_an_answer_is_cut_in_the_middle_after_the_tool_ran(faults: Servers) -> None:
    async with Client(faults["cut"].url) as client:
        with pytest.raises(MCPError, match="SSE stream ended without a response"):
            await client.call_tool("pay", {"amount": 9})
        assert faults["cut"].state.ledger() == ["9"]
        assert await text(client, "pay", amount=10) == "paid 10"


async def test_a_server_may_know_one_era_only(faults: Servers) -> None:
    for name, version in (("legacy", "2025-11-25"), ("modern", "2026-07-28")):
        async with Client(faults[name].url) as client:
            assert client.protocol_version == version
            assert await text(client, "counter") == "1"
    assert [line.split()[0] for line in faults["legacy"].state.sessions()] == ["initialize"]
    refused = post(faults["legacy"].url, "server/discover", "2026-07-28")
    assert refused.json()["error"]["code"] == types.METHOD_NOT_FOUND
    with pytest.raises(ExceptionGroup):
        async with Client(faults["modern"].url, mode="legacy"):
            pass


async def test_a_handshake_may_hang_and_answers_may_be_late(faults: Servers) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        post(faults["hanging"].url, "initialize", "2025-11-25", timeout_seconds=0.3)
    started = anyio.current_time()
    async with Client(faults["late"].url, mode="2026-07-28") as client:
        await client.list_tools()
        assert await text(client, "add", a=1, b=1) == "2"
    assert anyio.current_time() - started >= 0.4
    assert faults["late"].wait() == 3


@pytest.mark.usefixtures("heals_shared_servers")
async def test_a_payment_is_on_the_ledger_when_its_server_dies(faults: Servers) -> None:
    server = faults["plain"]
    with pytest.raises(ExceptionGroup):
        async with Client(server.url) as client:
            await client.call_tool("pay_and_die", {"amount": 3})

    assert server.wait() == -signal.SIGKILL
    assert server.state.ledger() == ["3"]
    old_url, old_pid = server.url, server.pid
    await anyio.to_thread.run_sync(server.restart)
    assert server.url == old_url
    assert server.state.starts() == [old_pid, server.pid]

    with pytest.raises(ExceptionGroup):
        async with Client(server.url) as client:
            await client.call_tool("get_and_die", {"key": "k"})
    await anyio.to_thread.run_sync(server.restart)
    async with Client(server.url) as client:
        assert await text(client, "get_and_die", key="k") == "value of k"
    assert server.state.reads() == ["k", "k"]


async def test_a_dropped_connection_leaves_the_server_alive(faults: Servers) -> None:
    server = faults["dropping"]
    with pytest.raises(ExceptionGroup):
        async with Client(server.url) as client:
            await client.call_tool("pay_and_die", {"amount": 4})
    assert server.is_running
    assert server.state.ledger() == ["4"]
    async with Client(server.url, mode="legacy") as client:
        assert await text(client, "pid") == str(server.pid)


async def test_the_sse_transport_has_the_same_faults() -> None:
    both = (
        fault_server("sse", legacy_only=True, cut_sse=True),
        fault_server("sse", http_status=503, http_status_on="initialize", retry_after=2),
    )
    with running(*both) as (cut, refusing):
        async with Client(sse_client(cut.url)) as client:
            assert client.protocol_version == "2025-11-25"
            assert len((await client.list_tools()).tools) > 20
            with pytest.raises(MCPError, match="Connection closed"):
                await client.call_tool("pay", {"amount": 1})
        assert cut.state.ledger() == ["1"]
        assert [line.split()[0] for line in cut.state.sessions()] == ["connect", "initialize"]
        refused = httpx2.get(refusing.url)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")


async def test_a_websocket_server_has_no_size_limit_can_be_cut_and_may_refuse(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("websocket", die_by="drop")
    refusing = fault_server(
        "websocket", http_status="401:1", www_authenticate="Bearer", legacy_only=True
    )
    async with Client(websocket_client(server.url)) as client:
        assert len(await text(client, "big", size_bytes=5_000_000)) == 5_000_000
        assert len(await text(client, "echo", text="y" * 5_000_000)) == 5_000_000
        headers = (await client.call_tool("headers")).structured_content
        assert headers["sec-websocket-protocol"] == "mcp"
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("pay_and_die", {"amount": 3})
    assert server.is_running
    assert server.state.ledger() == ["3"]
    async with Client(websocket_client(server.url), mode="legacy") as client:
        assert await text(client, "pid") == str(server.pid)
    kinds = [line.split()[0] for line in server.state.sessions()]
    assert kinds == ["connect", "discover", "connect", "initialize"]
    with pytest.raises(InvalidStatus) as caught:
        async with connect(refusing.url, subprotocols=[Subprotocol("mcp")]):
            pass
    assert caught.value.response.status_code == 401
    assert caught.value.response.headers["WWW-Authenticate"] == "Bearer"
    async with Client(websocket_client(refusing.url)) as client:
        assert client.protocol_version == "2025-11-25"
