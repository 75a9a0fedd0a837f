"""The faults of the fault server over HTTP and SSE, seen by the SDK's client and bare HTTP."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from plait.testing import FaultOptions, ServerProcess, eventually, running
from plait.testing import fault_server as new_fault_server

pytestmark = pytest.mark.anyio

SERVERS: dict[str, FaultOptions] = {
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
}


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    new = [new_fault_server("http", **options) for options in SERVERS.values()]
    with running(*new) as started:
        yield dict(zip(SERVERS, started, strict=True))


async def text(client: Client, tool: str, **arguments: object) -> str:
    block = (await client.call_tool(tool, arguments)).content[0]
    assert isinstance(block, types.TextContent)
    return block.text


def post(
    url: str, method: str, params: dict[str, Any], version: str, timeout_seconds: float = 5
) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    return httpx2.post(url, json=message, headers=headers, timeout=timeout_seconds)


def test_a_status_comes_with_its_headers_and_body(servers: dict[str, ServerProcess]) -> None:
    for method in ("initialize", "server/discover"):
        refused = post(servers["auth"].url, method, {}, "2025-11-25")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == 'Bearer scope="read"'
        assert refused.text == "who are you?"


def test_other_requests_than_the_chosen_ones_get_no_status(
    servers: dict[str, ServerProcess],
) -> None:
    assert post(servers["auth"].url, "tools/list", {}, "2025-11-25").status_code != 401


async def test_a_status_may_come_a_few_times_only(servers: dict[str, ServerProcess]) -> None:
    waits: list[str | None] = []

    async def note(response: httpx2.Response) -> None:
        waits.append(response.headers.get("retry-after"))

    async with httpx2.AsyncClient(event_hooks={"response": [note]}) as http:
        transport = streamable_http_client(servers["busy"].url, http_client=http)
        async with Client(transport) as client:
            await client.list_tools()
            with pytest.raises(MCPError):
                await client.call_tool("add", {"a": 1, "b": 2})
            assert await text(client, "add", a=1, b=2) == "3"

    assert waits == [None, None, "1", None]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_of_each_era_sees_its_headers(
    servers: dict[str, ServerProcess], mode: Any
) -> None:
    async with Client(servers["plain"].url, mode=mode) as client:
        headers = (await client.call_tool("headers")).structured_content
        assert headers["host"] == f"127.0.0.1:{servers['plain'].port}"
        assert headers["mcp-protocol-version"] == client.protocol_version


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_cancelled_call_ends_in_the_server(
    servers: dict[str, ServerProcess], mode: Any
) -> None:
    async with Client(servers["plain"].url, mode=mode) as client:
        before = int(await text(client, "cancelled_calls"))
        with pytest.raises(MCPError):
            await client.call_tool("hang", read_timeout_seconds=0.2)

        async def is_counted() -> bool:
            return int(await text(client, "cancelled_calls")) == before + 1

        await eventually(is_counted)


async def test_an_answer_is_cut_in_the_middle_after_the_tool_ran(
    servers: dict[str, ServerProcess],
) -> None:
    server = servers["cut"]
    async with Client(server.url) as client:
        with pytest.raises(MCPError, match="SSE stream ended without a response"):
            await client.call_tool("pay", {"amount": 9})
        assert server.state.ledger() == ["9"]
        assert await text(client, "pay", amount=10) == "paid 10"


async def test_a_legacy_only_server_is_negotiated_down_to(
    servers: dict[str, ServerProcess],
) -> None:
    async with Client(servers["legacy"].url) as client:
        assert client.protocol_version == "2025-11-25"
        assert await text(client, "counter") == "1"
    assert [line.split()[0] for line in servers["legacy"].state.sessions()] == ["initialize"]
    refused = post(servers["legacy"].url, "server/discover", {}, "2026-07-28")
    assert refused.json()["error"]["code"] == types.METHOD_NOT_FOUND


async def test_a_modern_only_server_refuses_the_handshake(
    servers: dict[str, ServerProcess],
) -> None:
    async with Client(servers["modern"].url) as client:
        assert client.protocol_version == "2026-07-28"
        assert await text(client, "counter") == "1"
    with pytest.raises(ExceptionGroup):
        async with Client(servers["modern"].url, mode="legacy"):
            pass


@pytest.mark.usefixtures("heals_shared_servers")
async def test_a_payment_is_on_the_ledger_when_its_server_dies(
    servers: dict[str, ServerProcess],
) -> None:
    server = servers["plain"]
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


async def test_a_dropped_connection_leaves_the_server_alive() -> None:
    with new_fault_server("http", die_by="drop", stateless=True, json_response=True) as server:
        with pytest.raises(ExceptionGroup):
            async with Client(server.url) as client:
                await client.call_tool("pay_and_die", {"amount": 4})
        assert server.is_running
        assert server.state.ledger() == ["4"]
        async with Client(server.url, mode="legacy") as client:
            assert await text(client, "pid") == str(server.pid)


async def test_the_sse_transport_has_the_same_faults() -> None:
    both = (
        new_fault_server("sse", legacy_only=True, cut_sse=True),
        new_fault_server("sse", http_status=503, http_status_on="initialize", retry_after=2),
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


async def test_a_handshake_may_hang_and_answers_may_be_late() -> None:
    both = (
        new_fault_server("http", hang_handshake=True),
        new_fault_server("http", delay=0.2, exit_after=1, exit_code=3),
    )
    with running(*both) as (hanging, late):
        with pytest.raises(httpx2.ReadTimeout):
            post(hanging.url, "initialize", {}, "2025-11-25", timeout_seconds=0.3)

        started = anyio.current_time()
        async with Client(late.url, mode="2026-07-28") as client:
            await client.list_tools()
            assert await text(client, "add", a=1, b=1) == "2"
        assert anyio.current_time() - started >= 0.4
        assert late.wait() == 3
