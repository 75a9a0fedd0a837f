"""An MCP server on HTTP whose answers to tool calls a test writes, byte by byte if needed."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
SESSION = "session-1"
_TOOL: Json = {"name": "work", "description": "Work", "inputSchema": {"type": "object"}}
_CAPABILITIES: Json = {"tools": {}, "logging": {}, "prompts": {}, "resources": {}}


@dataclass(eq=False)
class Seen:
    """A request that reached the server."""

    verb: str
    path: str
    headers: dict[str, str]
    message: Json
    connection: int
    """The number of its connection, counted from 1."""

    @property
    def method(self) -> str | None:
        """The method of the message in it."""
        return self.message.get("method")


@dataclass(eq=False)
class Reply:
    """Writes the response to one request."""

    seen: Seen
    writer: asyncio.StreamWriter
    modern: bool
    hung_up: asyncio.Event
    """Set when the client has closed the connection."""

    def send(self, data: bytes) -> None:
        """Write raw bytes."""
        self.writer.write(data)

    def status(
        self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Write a whole response."""
        fields = {**(headers or {}), "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(f"HTTP/1.1 {status} Some Reason\r\n{lines}\r\n".encode() + body)

    def response(self, text: str = "done") -> Json:
        """Return the JSON-RPC response of a tool."""
        result: Json = {"content": [{"type": "text", "text": text}]}
        return {"jsonrpc": "2.0", "id": self.seen.message["id"], "result": self.era(result)}

    def era(self, result: Json) -> Json:
        """Return a result as the era requires it."""
        return {"resultType": "complete", **result} if self.modern else result

    def json(self, message: object, headers: Mapping[str, str] | None = None) -> None:
        """Write a response with a message in its body."""
        fields = {"Content-Type": "application/json", **(headers or {})}
        self.status(200, fields, json.dumps(message).encode())

    def start_events(self) -> None:
        """Begin an event stream."""
        self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )

    def event(self, message: object, event_id: str | None = None, retry: int | None = None) -> None:
        """Write one event; an empty string makes one without data."""
        data = message if isinstance(message, str) else json.dumps(message)
        lines = [f"id: {event_id}"] if event_id is not None else []
        lines += [f"retry: {retry}"] if retry is not None else []
        self.chunk("\n".join([*lines, f"data: {data}", "", ""]).encode())

    def chunk(self, data: bytes) -> None:
        """Write a part of a body whose length is not known."""
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End an event stream."""
        self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


Answer = Callable[[Reply], Awaitable[None]]


@dataclass(eq=False)
class ScriptedHttp:
    """A running server."""

    answer: Answer
    era: str
    url: str = ""
    connections: int = 0
    seen: list[Seen] = field(default_factory=list[Seen])
    handshake_headers: dict[str, str] = field(default_factory=dict[str, str])
    """Added to the response to `initialize` and `server/discover`."""
    handshake_fields: Json = field(default_factory=dict[str, Any])
    """Added to the result of them."""
    list_headers: dict[str, str] = field(default_factory=dict[str, str])
    """Added to the response to `tools/list`."""
    annotations: Json = field(default_factory=dict[str, Any])
    """Those of the tool."""
    results: dict[str, Callable[[Json], Json]] = field(
        default_factory=dict[str, Callable[[Json], Json]]
    )
    """Make the results of further methods from their params."""
    on_get: Answer | None = None
    on_post: Answer | None = None
    """Answers every message, in place of this server."""
    on_request: Callable[[], None] = lambda: None
    """Called when a request has arrived."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def calls(self) -> list[Seen]:
        """Return the tool calls."""
        return [seen for seen in self.seen if seen.method == "tools/call"]

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until something is true after a request."""
        async with asyncio.timeout(5):
            while not is_true():
                self.changed.clear()
                await self.changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        number, hung_up, first_byte = self.connections, asyncio.Event(), b""
        try:
            while (seen := await _request(reader, number, first_byte)) is not None:
                self.seen.append(seen)
                self.changed.set()
                self.on_request()
                reply = Reply(seen, writer, self.era == "modern", hung_up)
                answering = asyncio.ensure_future(self._answer(reply))
                first_byte = await _until_answered(answering, reader)
                if reader.at_eof():
                    hung_up.set()
                await answering
                await writer.drain()
        except ConnectionError:
            hung_up.set()
        finally:
            hung_up.set()
            self.changed.set()
            writer.transport.abort()

    async def _answer(self, reply: Reply) -> None:
        message = reply.seen.message
        match reply.seen.verb, reply.seen.method:
            case "GET", _ if self.on_get is not None:
                await self.on_get(reply)
            case "GET", _:
                reply.status(405)
            case "DELETE", _:
                reply.status(200)
            case "POST", _ if self.on_post is not None:
                await self.on_post(reply)
            case "POST", "server/discover" if self.era == "modern":
                result = {"supportedVersions": [MODERN], "capabilities": _CAPABILITIES}
                self._handshake(reply, result)
            case "POST", "initialize" if self.era == "legacy":
                result = {"protocolVersion": HANDSHAKE, "capabilities": _CAPABILITIES}
                self._handshake(reply, {**result, "serverInfo": {"name": "s", "version": "1"}})
            case "POST", "tools/list":
                tool = {**_TOOL, "annotations": self.annotations}
                page = {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}
                reply.json({**reply.response(), "result": reply.era(page)}, self.list_headers)
            case "POST", str(method) if method in self.results:
                result = self.results[method](message.get("params", {}))
                reply.json({**reply.response(), "result": reply.era(result)})
            case "POST", "logging/setLevel":
                reply.json({**reply.response(), "result": {}})
            case "POST", "tools/call":
                await self.answer(reply)
            case "POST", _ if "id" in message and "method" in message:
                error = {"code": -32601, "message": "Method not found"}
                body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
                kind = {"Content-Type": "application/json"}
                reply.status(404, kind, json.dumps(body).encode())
            case _:
                reply.status(202)

    def _handshake(self, reply: Reply, result: Json) -> None:
        message = {**reply.response(), "result": reply.era(result | self.handshake_fields)}
        session = {"Mcp-Session-Id": SESSION} if self.era == "legacy" else {}
        reply.json(message, {**session, **self.handshake_headers})


async def _request(reader: asyncio.StreamReader, connection: int, first_byte: bytes) -> Seen | None:
    try:
        head = (first_byte + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    try:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    except asyncio.IncompleteReadError:
        return None  # the client has closed its session
    verb, path, _ = first.split(" ")
    return Seen(verb, path, headers, json.loads(body) if body else {}, connection)


async def _until_answered(answering: asyncio.Future[None], reader: asyncio.StreamReader) -> bytes:
    """Wait for the end of an answer or of the connection; return what was read meanwhile."""
    peek = asyncio.ensure_future(reader.read(1))
    await asyncio.wait({answering, peek}, return_when=asyncio.FIRST_COMPLETED)
    if not peek.done():
        peek.cancel()
        await asyncio.wait({peek})
    return b"" if peek.cancelled() else peek.result()


@asynccontextmanager
async def scripted_http(
    answer: Answer,
    *,
    era: str = "modern",
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> AsyncGenerator[ScriptedHttp]:
    """Run a server of one era, `modern` or `legacy`, in this event loop."""
    scripted = ScriptedHttp(answer, era)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(scripted.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, 0, ssl=tls, limit=2**26)
    port = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    scripted.url = f"{'http' if tls is None else 'https'}://{shown}:{port}/mcp"
    try:
        yield scripted
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
