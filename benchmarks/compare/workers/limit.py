"""The limit: clients written by hand for this one server, with nothing but the bytes of a call.

They check nothing, heal nothing and support nothing else. No library can be faster in Python.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from benchmarks.compare.server import HANDSHAKE, MODERN
from benchmarks.compare.workers.peer import Connection, Server, Unsupported

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LARGE_BYTES = 65536
"""From this size on, the parser of pydantic is worth its import."""

INITIALIZE = {
    "protocolVersion": HANDSHAKE,
    "capabilities": {},
    "clientInfo": {"name": "limit", "version": "1"},
}


class Limit:
    """Clients by hand."""

    packages = ("langchain-core", "langgraph")

    def load(self) -> object:
        # The module alone loads next to nothing; its names are imported on first use.
        from langchain_core.tools import StructuredTool

        return StructuredTool

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(opened(server)) for server in servers]
            listed = await asyncio.gather(*map(open_session, wires, servers))
            yield LimitConnection(wires[-1], listed[-1], servers[-1])


async def open_session(wire: Wire, server: Server) -> list[dict[str, Any]]:
    """Do what the era requires, then list the tools."""
    if server.era == "handshake":
        await wire.request("initialize", INITIALIZE)
        await wire.notify("notifications/initialized")
    result = await wire.request("tools/list", {})
    return result["tools"]


class LimitConnection:
    """Calls go to the last server."""

    def __init__(self, wire: Wire, listed: Sequence[dict[str, Any]], server: Server) -> None:
        self._wire = wire
        self._listed = listed
        self._server = server
        self._blocking: BlockingStdio | None = None
        self._tools: list[Any] | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._wire.request("tools/call", {"name": name, "arguments": arguments})
        return result["content"][0]["text"]

    def call_blocking(self, name: str, arguments: dict[str, Any]) -> str:
        if self._blocking is None:
            self._blocking = BlockingStdio(self._server)
        return self._blocking.call(name, arguments)

    def tools(self) -> list[Any]:
        if self._tools is None:
            self._tools = [self._tool(row) for row in self._listed]
        return self._tools

    def _tool(self, row: dict[str, Any]) -> Any:
        from langchain_core.tools import StructuredTool

        name = row["name"]

        async def call(**arguments: Any) -> str:
            return await self.call(name, arguments)

        return StructuredTool(
            name=name,
            description=row["description"],
            args_schema=row["inputSchema"],
            coroutine=call,
        )


def parse(body: bytes | bytearray) -> Any:
    """Read JSON with the parser that is faster for its size."""
    if len(body) < LARGE_BYTES:
        return json.loads(body)
    import pydantic_core

    return pydantic_core.from_json(body)


class Wire:
    """A connection that carries JSON-RPC; `send` and the receiver depend on the transport."""

    def __init__(self, era: str) -> None:
        self._era = era
        self._next = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self._next = number = self._next + 1
        future = self._waiting[number] = self._loop.create_future()
        self.send(self.message(number, method, params))
        return await future

    def message(self, number: int, method: str, params: dict[str, Any]) -> bytes:
        if self._era == "modern":
            params = {**params, "_meta": META}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return json.dumps(body, separators=(",", ":")).encode()

    async def notify(self, method: str) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method}).encode())

    def send(self, body: bytes) -> None:
        raise NotImplementedError

    def received(self, body: bytes | bytearray) -> None:
        message = parse(body)
        self._waiting.pop(message["id"]).set_result(message["result"])


class StdioWire(Wire, asyncio.SubprocessProtocol):
    """A process and its pipes."""

    transport: asyncio.SubprocessTransport
    stdin: asyncio.WriteTransport

    def __init__(self, era: str) -> None:
        super().__init__(era)
        self._chunks: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.transport = transport
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self.stdin = stdin

    def send(self, body: bytes) -> None:
        self.stdin.write(body + b"\n")

    def process_exited(self) -> None:
        for future in self._waiting.values():
            future.set_exception(ConnectionResetError("the server has exited"))

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - of asyncio
        if b"\n" not in data:
            self._chunks.append(data)
            return
        *lines, rest = data.split(b"\n")
        if self._chunks:
            lines[0] = b"".join((*self._chunks, lines[0]))
            self._chunks.clear()
        if rest:
            self._chunks.append(rest)
        for line in lines:
            self.received(line)


class WebSocketWire(Wire, asyncio.Protocol):
    """One WebSocket."""

    transport: asyncio.Transport

    def __init__(self, era: str) -> None:
        super().__init__(era)
        self._buffer = bytearray()
        self.upgraded = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, body: bytes) -> None:
        length = len(body)
        size = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big")
        # A mask of zeros is allowed and leaves the body as it is.
        self.transport.write(b"\x81" + size + b"\0\0\0\0" + body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.upgraded.done():
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                del self._buffer[: end + 4]
                self.upgraded.set_result(None)
            return
        while len(self._buffer) > 2:
            length, start = self._buffer[1], 2
            if length >= 126:
                start = 4 if length == 126 else 10
                length = int.from_bytes(self._buffer[2:start], "big")
            if len(self._buffer) < start + length:
                return
            self.received(self._buffer[start : start + length])
            del self._buffer[: start + length]


class HttpWire(Wire):
    """As many sockets as there are calls at once."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.era)
        url = urlsplit(server.url)
        self._host, self._port = str(url.hostname), url.port or 80
        self._idle: deque[HttpSocket] = deque()
        self._sockets: list[HttpSocket] = []
        self._head = (
            f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\n"
            f"mcp-protocol-version: {MODERN if server.era == 'modern' else HANDSHAKE}\r\n"
        )

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self._next = number = self._next + 1
        body = await self._post(self.message(number, method, params), method, params.get("name"))
        return parse(body)["result"]

    async def notify(self, method: str) -> None:
        await self._post(json.dumps({"jsonrpc": "2.0", "method": method}).encode(), method, None)

    async def _post(self, body: bytes, method: str, name: str | None) -> bytes:
        head = f"{self._head}content-length: {len(body)}\r\n"
        if self._era == "modern":
            head += f"mcp-method: {method}\r\n" + (f"mcp-name: {name}\r\n" if name else "")
        socket = self._idle.pop() if self._idle else await self._open()
        future = socket.future = self._loop.create_future()
        socket.transport.write(head.encode() + b"\r\n" + body)
        answer = await future
        self._idle.append(socket)
        return answer

    async def _open(self) -> HttpSocket:
        _, socket = await self._loop.create_connection(HttpSocket, self._host, self._port)
        self._sockets.append(socket)
        return socket

    def close(self) -> None:
        for socket in self._sockets:
            socket.transport.close()


class HttpSocket(asyncio.Protocol):
    """One kept-alive connection with one request at a time."""

    transport: asyncio.Transport
    future: asyncio.Future[bytes]

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._chunks:
            end = data.index(b"\r\n\r\n")
            start = data.index(b"content-length: ") + 16
            self._missing = int(data[start : data.index(b"\r", start)])
            data = data[end + 4 :]
        self._chunks.append(data)
        self._missing -= len(data)
        if not self._missing:
            body = b"".join(self._chunks)
            self._chunks.clear()
            self.future.set_result(body)


@asynccontextmanager
async def opened(server: Server) -> AsyncGenerator[Wire]:
    """Open the wire to a server, and close it."""
    loop = asyncio.get_running_loop()
    if server.transport == "stdio":
        transport, wire = await loop.subprocess_exec(
            lambda: StdioWire(server.era), server.command, *server.args, stderr=None
        )
        yield wire
        transport.close()
    elif server.transport == "HTTP":
        http = HttpWire(server)
        yield http
        http.close()
    else:
        url = urlsplit(server.url)
        connection, socket = await loop.create_connection(
            lambda: WebSocketWire(server.era), str(url.hostname), url.port or 80
        )
        key = base64.b64encode(os.urandom(16)).decode()
        connection.write(
            f"GET {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\nupgrade: websocket\r\n"
            f"connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
            f"sec-websocket-protocol: mcp\r\n\r\n".encode()
        )
        await socket.upgraded
        yield socket
        connection.close()


class BlockingStdio:
    """A process and its pipes, without an event loop."""

    def __init__(self, server: Server) -> None:
        if server.transport != "stdio":
            raise Unsupported("written for stdio only")
        self._process = subprocess.Popen(
            [server.command, *server.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._write, self._read = self._process.stdin, self._process.stdout
        self._number = 0
        self._request("initialize", INITIALIZE)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = self._request("tools/call", {"name": name, "arguments": arguments})
        return result["content"][0]["text"]

    def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._write.write(json.dumps(body, separators=(",", ":")).encode() + b"\n")
        self._write.flush()
        return json.loads(self._read.readline())["result"]
