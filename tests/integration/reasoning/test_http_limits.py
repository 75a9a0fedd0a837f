"""Slow and idle clients of the HTTP server are cut off, and honest ones are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from plait.testing import ServerProcess
from tests.integration.reasoning.servers import environment

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SERVER = str(Path(__file__).with_name("limited_server.py"))
REQUEST = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve with short limits."""
    database = tmp_path_factory.mktemp("limits") / "reasoning.db"
    command = [sys.executable, SERVER, "{port}", str(database)]
    with ServerProcess(command, env=environment()) as server:
        yield server


@pytest.fixture(scope="module")
def port(server: ServerProcess) -> int:
    """Return the port of the server."""
    return urlsplit(server.url).port or 0


async def is_alive(port: int) -> bool:
    async with httpx2.AsyncClient() as client:
        return (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what the server sent before it closed the connection."""
    async with asyncio.timeout(10):
        with suppress(ConnectionError):
            return await reader.read()
    return b""


async def trickle(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send a piece ten times a second, until the connection is closed."""
    with suppress(ConnectionError):
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b""),
        (REQUEST, b"X-Slow: 1\r\n"),
        (REQUEST + b"Content-Length: 100\r\n\r\n{", b""),
        (REQUEST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b""),
    ],
    ids=["nothing", "headers that never end", "half a body", "half a chunked body"],
)
async def test_a_client_that_never_finishes_its_request_is_cut_off(
    port: int, start: bytes, piece: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(start)
    sending = asyncio.create_task(trickle(writer, piece)) if piece else None

    await ended(reader)

    assert await is_alive(port)
    if sending is not None:
        sending.cancel()
    writer.transport.abort()  # what was not sent would keep it open


async def test_a_connection_without_requests_is_closed(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

    answer = await ended(reader)

    assert answer.startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_second_request_on_a_connection_has_the_same_limit(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + REQUEST)
    sending = asyncio.create_task(trickle(writer, b"X-Slow: 1\r\n"))

    assert (await ended(reader)).startswith(b"HTTP/1.1 200")

    sending.cancel()
    writer.transport.abort()  # what was not sent would keep it open


async def test_connections_over_the_limit_are_refused_and_places_come_free(port: int) -> None:
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    refused = await ended(reader)

    assert refused.startswith(b"HTTP/1.1 503")
    for one, _ in held:
        await ended(one)
    assert await is_alive(port)
    for _, other in (*held, (reader, writer)):
        other.close()


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (REQUEST + b"X-Long: ", b"a"),
        (REQUEST, b"X-Many: 1\r\n"),
        (b"GET /", b"a"),
        (REQUEST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Many: 1\r\n"),
    ],
    ids=["a header", "headers", "an address", "trailers"],
)
async def test_a_head_without_end_is_refused_before_it_takes_memory(
    port: int, start: bytes, piece: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(start + piece * (65_536 // len(piece) + 1))

    answer = await ended(reader)

    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert await is_alive(port)
    writer.transport.abort()  # what was not sent would keep it open


async def test_requests_sent_at_once_are_read_one_after_the_other(
    server: ServerProcess, port: int
) -> None:
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100_000)

    for _ in range(100):
        assert await reader.readuntil(b"Not Found")
    grown = process.memory_info().rss - before

    assert grown < 16_000_000
    assert await is_alive(port)
    writer.transport.abort()  # what was not sent would keep it open


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def listing(*headers: bytes) -> bytes:
    """Return a request for the tools, whose answer has some 100 kB."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    body = json.dumps(request).encode()
    accept = b"Accept: application/json, text/event-stream\r\n"
    lines = b"".join(line + b"\r\n" for line in headers)
    return REQUEST + accept + lines + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_a_client_that_reads_no_answer_is_cut_off(port: int) -> None:
    request = listing(b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: tools/list")
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        async with asyncio.timeout(20):
            # The server reads no more while it cannot write, so sending waits too.
            with pytest.raises(ConnectionError):
                await loop.sock_sendall(client, request * 20_000)

    assert await is_alive(port)


async def test_whitespace_around_the_value_of_a_header_is_no_part_of_it(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    version = b"MCP-Protocol-Version: \t 2026-07-28 \t "
    writer.write(listing(version, b"Mcp-Method:  tools/list  ", b"Connection: close"))

    answer = await ended(reader)

    assert answer.startswith(b"HTTP/1.1 200 "), answer
    writer.transport.abort()  # what was not sent would keep it open
