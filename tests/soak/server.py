"""A hand-written MCP server on any transport, with a ledger of what ran: `server.py TRANSPORT`.

It uses no MCP SDK, so that a fault of one cannot hide in both ends. What it does wrong is read
from a file before each call, so that a program outside decides it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Send = Callable[[bytes], Awaitable[None]]

MODERN = "2026-07-28"
LEGACY = "2025-06-18"
SLOW_SECONDS = 2.0
STDERR_BYTES = 2_000_000
_TEXT: Json = {"type": "object", "properties": {"question": {"type": "string"}}}
TOOLS: list[Json] = [
    {
        "name": "read",
        "description": "Answers a question, and changes nothing",
        "inputSchema": _TEXT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "write", "description": "Writes a line into the ledger", "inputSchema": _TEXT},
    {"name": "raw", "description": "Sends what it is told", "inputSchema": {"type": "object"}},
]


class Server:
    """Answers messages, and keeps the ledger."""

    def __init__(self, era: str, ledger: Path, control: Path) -> None:
        self.era = era
        self.modern = era == "modern"
        self._control = control
        self._list_frames: tuple[list[bytes], str] | None = None
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def fault(self) -> str:
        """Return what goes wrong with the next call; empty if nothing does."""
        with contextlib.suppress(OSError, ValueError):
            name, until = self._control.read_text().split()
            if time.time() < float(until):
                return name
        return ""

    def answer(self, message: Json) -> Json | None:
        """Return the response to a message, or `None` to a notification."""
        if "id" not in message or "method" not in message:
            return None
        method, params = message["method"], message.get("params") or {}
        if method == "tools/call":
            return self._response(message, self._call(params["name"], params["arguments"]))
        if method == "tools/list":
            return self._response(message, {"tools": TOOLS})
        if method == "ping":
            return self._response(message, {})
        if method == ("server/discover" if self.modern else "initialize"):
            return self._response(message, self._description())
        error = {"code": -32601, "message": f"unknown method {method}"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}

    def raw_frames(self, message: Json, answer: Json) -> tuple[list[bytes], str] | None:
        """Return the frames that a call of `raw` wants before the true answer, and their form."""
        arguments = (message.get("params") or {}).get("arguments") or {}
        found: tuple[list[bytes], str] | None = None
        if message.get("method") == "tools/list":
            found, self._list_frames = self._list_frames, None
        elif "frames" in arguments:
            given = [base64.b64decode(one) for one in arguments["frames"]], arguments["form"]
            if arguments["target"] == "list":
                self._list_frames = given
            else:
                found = given
        if found is None:
            return None
        number = json.dumps(message["id"]).encode()
        frames = [one.replace(b"$ID", number) for one in found[0]]
        return [*frames, json.dumps(answer).encode()], found[1]

    def _description(self) -> Json:
        shared: Json = {"capabilities": {"tools": {}}}
        info = {"name": "soak", "version": "1"}
        if self.modern:
            meta = {"io.modelcontextprotocol/serverInfo": info}
            return {**shared, "supportedVersions": [MODERN], "_meta": meta}
        return {**shared, "protocolVersion": LEGACY, "serverInfo": info}

    def _call(self, name: str, arguments: Json) -> Json:
        question = arguments.get("question")
        if name == "write":
            os.write(self._ledger, f"{question}\n".encode())
        return {"content": [{"type": "text", "text": f"{name}:{question}"}]}

    def _response(self, message: Json, result: Json) -> Json:
        if self.modern:
            caching = {"ttlMs": 0, "cacheScope": "private"} if "content" not in result else {}
            result = {"resultType": "complete", **caching, **result}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def spoiled(fault: str, answer: Json) -> list[bytes]:
    """Return the frames in place of the answer to a call that ran."""
    body = json.dumps(answer).encode()
    match fault:
        case "garbage":
            return [b'{"jsonrpc": "2.0", "id": ' + os.urandom(12).replace(b"\n", b"?")]
        case "bad-frame":
            return [b"{broken", body]
        case "wrong-id":
            return [json.dumps({**answer, "id": 987_654_321}).encode()]
        case "noise":
            return [b"Starting up ...", b'{"level": "info"}', body]
        case _:
            return [body]


async def handle(server: Server, line: bytes, send: Send, die: Callable[[], None]) -> None:
    """Handle one message on a transport of frames."""
    message = json.loads(line)
    is_call = message.get("method") == "tools/call"
    fault = server.fault() if is_call else ""
    if fault == "slow":
        await asyncio.sleep(SLOW_SECONDS)
    elif fault == "stderr":
        sys.stderr.write(("x" * 99 + "\n") * (STDERR_BYTES // 100))
    elif fault == "die-before":
        die()
    answer = server.answer(message)
    if fault in {"die-after", "cut"}:
        die()
        return
    if answer is not None:
        raw = server.raw_frames(message, answer)
        for frame in spoiled(fault, answer) if raw is None else raw[0]:
            await send(frame)


async def serve_stdio(server: Server) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)

    async def send(frame: bytes) -> None:
        if server.fault() == "close-stdout":
            os.close(1)
            await asyncio.sleep(3600)
        os.write(1, frame + b"\n")

    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(handle(server, line, send, lambda: os._exit(3)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


class HttpServer:
    """Streamable HTTP, or the older SSE transport."""

    def __init__(self, server: Server, *, sse: bool) -> None:
        self._server = server
        self._sse = sse
        self._streams: dict[str, asyncio.StreamWriter] = {}
        self._count = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after the other."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                request, *lines = head.decode("latin-1").split("\r\n")
                verb, path, _ = request.split(" ")
                fields = dict(line.lower().split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                if not await self._answer(verb, path, body, writer):
                    break
        writer.close()

    async def _answer(
        self, verb: str, path: str, body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        if verb == "GET" and self._sse:
            return await self._stream(writer)
        if verb != "POST":
            return await self._status(writer, 405)
        message = json.loads(body)
        fault = self._server.fault() if message.get("method") == "tools/call" else ""
        if fault in {"401", "429", "500"}:
            return await self._status(writer, int(fault))
        if self._sse:
            return await self._post_sse(path, body, writer)
        return await self._post(message, fault, writer)

    async def _post(self, message: Json, fault: str, writer: asyncio.StreamWriter) -> bool:
        if fault == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        elif fault == "die-before":
            os._exit(3)
        answer = self._server.answer(message)
        if fault == "die-after":
            os._exit(3)
        if answer is None:
            return await self._status(writer, 202)
        if fault == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.transport.abort()
            return False
        session = {} if self._server.modern else {"Mcp-Session-Id": "soak"}
        raw = self._server.raw_frames(message, answer)
        frames, form = (spoiled(fault, answer), "") if raw is None else raw
        if form != "json" and (form or len(frames) > 1 or self._count % 2):
            content = b"".join(b"event: message\ndata: " + one + b"\n\n" for one in frames)
            kind = "text/event-stream"
        else:
            content, kind = frames[0], "application/json"
        self._count += 1
        return await self._status(writer, 200, {"Content-Type": kind, **session}, content)

    async def _stream(self, writer: asyncio.StreamWriter) -> bool:
        self._count += 1
        name = str(self._count)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(f"event: endpoint\ndata: /messages/{name}\n\n".encode())
        self._streams[name] = writer
        try:
            while not writer.is_closing():
                await asyncio.sleep(5)
                writer.write(b": alive\n\n")
        finally:
            del self._streams[name]
        return False

    async def _post_sse(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        stream = self._streams.get(path.rpartition("/")[2])
        if stream is None:
            return await self._status(writer, 404)
        kept = await self._status(writer, 202)

        async def send(frame: bytes) -> None:
            stream.write(b"event: message\ndata: " + frame + b"\n\n")

        def die() -> None:
            if self._server.fault() == "cut":
                stream.transport.abort()
            else:
                os._exit(3)

        await handle(self._server, body, send, die)
        return kept

    @staticmethod
    async def _status(
        writer: asyncio.StreamWriter,
        status: int,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> bool:
        fields = {**(headers or {}), "Content-Length": str(len(body))}
        if status == 429:
            fields["Retry-After"] = "1"
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status} Soak\r\n{lines}\r\n".encode() + body)
        await writer.drain()
        return True


async def serve_http(server: Server, port: int, *, sse: bool) -> None:
    """Serve on a port of this machine."""
    http = HttpServer(server, sse=sse)
    listening = await asyncio.start_server(http.connected, "127.0.0.1", port, limit=2**24)
    path = "sse" if sse else "mcp"
    bound = listening.sockets[0].getsockname()[1]
    print(f"listening on http://127.0.0.1:{bound}/{path}", file=sys.stderr, flush=True)
    await listening.serve_forever()


async def serve_websocket(server: Server, port: int) -> None:
    """Serve WebSockets on a port of this machine."""
    from websockets.asyncio.server import ServerConnection, serve

    async def connected(socket: ServerConnection) -> None:
        async def send(frame: bytes) -> None:
            await socket.send(frame.decode("utf-8", "replace"))

        def die() -> None:
            if server.fault() == "cut":
                socket.transport.abort()
            else:
                os._exit(3)

        async for frame in socket:
            text = frame if isinstance(frame, str) else frame.decode()
            await handle(server, text.encode(), send, die)

    async with serve(connected, "127.0.0.1", port, subprotocols=["mcp"]) as listening:  # pyright: ignore[reportArgumentType]
        bound = next(iter(listening.sockets)).getsockname()[1]
        print(f"listening on ws://127.0.0.1:{bound}/mcp", file=sys.stderr, flush=True)
        await listening.serve_forever()


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transport", choices=["stdio", "http", "sse", "websocket"])
    parser.add_argument("--era", choices=["modern", "legacy"], default="modern")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    options = parser.parse_args()
    server = Server(options.era, options.ledger, options.control)
    match options.transport:
        case "stdio":
            asyncio.run(serve_stdio(server))
        case "websocket":
            asyncio.run(serve_websocket(server, options.port))
        case _:
            asyncio.run(serve_http(server, options.port, sse=options.transport == "sse"))


if __name__ == "__main__":
    main()
