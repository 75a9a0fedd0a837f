"""The well-behaved test server, over every transport and in both protocol eras."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.shared.message import SessionMessage
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from plait.testing import ServerProcess, running, running_server, server_stdio_config
from plait.testing.fixtures import StartFaultServer

pytestmark = pytest.mark.anyio

MakeTarget = Callable[[], Any]


@asynccontextmanager
async def websocket_client(url: str) -> AsyncGenerator[Any]:
    """The least a WebSocket client needs: text frames from and to message streams."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with connect(url, subprotocols=[Subprotocol("mcp")], max_size=None) as socket:

        async def receive() -> None:
            async with received:
                try:
                    async for frame in socket:
                        message = types.jsonrpc_message_adapter.validate_json(frame, by_name=False)
                        await received.send(SessionMessage(message))
                except ConnectionClosed:
                    return

        async def send() -> None:
            async with to_send:
                async for message in to_send:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await socket.send(text)

        async with anyio.create_task_group() as tasks, read, write:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            yield read, write
            tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    transports = ("http", "sse", "websocket")
    with running(*(running_server("--transport", one) for one in transports)) as started:
        yield dict(zip(transports, started, strict=True))


@pytest.fixture(params=["http", "sse", "websocket", "stdio"])
def target(request: pytest.FixtureRequest, servers: dict[str, ServerProcess]) -> MakeTarget:
    config = server_stdio_config()
    stdio = StdioServerParameters(
        command=cast("str", config["command"]), args=cast("list[str]", config["args"])
    )
    makers: dict[str, MakeTarget] = {
        "http": lambda: servers["http"].url,
        "sse": lambda: sse_client(servers["sse"].url),
        "websocket": lambda: websocket_client(servers["websocket"].url),
        "stdio": lambda: stdio,
    }
    return makers[request.param]


async def text(client: Client, tool: str, **arguments: object) -> str:
    block = (await client.call_tool(tool, arguments)).content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_three_tools_answer(target: MakeTarget, mode: Any) -> None:
    async with Client(target(), mode=mode) as client:
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


def test_the_url_is_announced_on_one_line(servers: dict[str, ServerProcess]) -> None:
    assert servers["http"].log == f"listening on {servers['http'].url}\n"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", servers["http"].url)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/sse", servers["sse"].url)
    assert re.fullmatch(r"ws://127\.0\.0\.1:\d+/mcp", servers["websocket"].url)


async def test_a_websocket_server_has_no_size_limit_and_can_be_cut(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("websocket", die_by="drop")
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
    assert [line.split()[0] for line in server.state.sessions()] == [
        "connect",
        "discover",
        "connect",
        "initialize",
    ]


async def test_a_websocket_server_may_refuse_with_a_status(fault_server: StartFaultServer) -> None:
    server = fault_server(
        "websocket", http_status="401:1", www_authenticate="Bearer", legacy_only=True
    )
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url, subprotocols=[Subprotocol("mcp")]):
            pass
    assert caught.value.response.status_code == 401
    assert caught.value.response.headers["WWW-Authenticate"] == "Bearer"
    async with Client(websocket_client(server.url)) as client:
        assert client.protocol_version == "2025-11-25"


async def test_the_server_without_packages_lists_what_that_of_the_sdk_lists(
    servers: dict[str, ServerProcess],
) -> None:
    config = server_stdio_config()
    stdio = StdioServerParameters(
        command=cast("str", config["command"]), args=cast("list[str]", config["args"])
    )
    for mode in ("legacy", "auto"):
        async with Client(stdio, mode=mode) as plain, Client(servers["http"].url, mode=mode) as sdk:
            assert (await plain.list_tools()).tools == (await sdk.list_tools()).tools
            assert plain.protocol_version == sdk.protocol_version
            refusals = [await one.call_tool("add_numbers", {"a": "x"}) for one in (plain, sdk)]
            assert [refusal.is_error for refusal in refusals] == [True, True]


def test_the_server_on_stdio_starts_without_packages() -> None:
    program = (
        "import plait.testing.server, sys; print({*sys.modules} & {'mcp', 'pydantic', 'anyio'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "set()"
