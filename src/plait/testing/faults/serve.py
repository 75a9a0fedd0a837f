"""Build the fault server from its settings, and serve it with the faults of its transport."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, BinaryIO, cast

import anyio
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.types import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from plait._support.local_server import buffer_body
from plait._support.mappings import entries_of
from plait.testing.faults.options import Moment, NoiseKind, Run
from plait.testing.faults.tools import add_tools
from plait.testing.ports import bind
from plait.testing.serve import (
    ServeStreams,
    exit_when_stdin_closes,
    http_app,
    http_server,
    lowlevel_server,
    serve_websocket,
)

_MOMENTS: dict[str, Moment] = {
    "initialize": "initialize",
    "server/discover": "initialize",
    "tools/list": "list",
    "tools/call": "call",
}


class HttpFaults:
    """ASGI middleware around the MCP server."""

    def __init__(self, app: ASGIApp, run: Run) -> None:
        self._app = app
        self._run = run
        self._settings = run.settings
        self.cut: Callable[[tuple[str, int]], None] = lambda client: None  # noqa: ARG005
        """Cuts the TCP connection of a client address; set by the HTTP server."""
        self._cut_stream = False
        """Whether to cut the next message on an SSE stream (old transport)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        try:
            request: Mapping[str, Any] = entries_of(json.loads(body))
        except ValueError:
            request = {}
        opens_sse = self._settings.transport == "sse" and scope["method"] == "GET"
        moment = _MOMENTS.get("initialize" if opens_sse else str(request.get("method")))
        version = Headers(scope=scope).get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0])
        if (status := status_due(self._run, moment)) is not None:
            headers = refusal_headers(self._run)
            refusal = PlainTextResponse(self._settings.http_body, status, headers)
            await refusal(scope, receive, send)
        elif self._settings.legacy_only and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            error = {
                "code": INVALID_REQUEST,
                "message": "Bad Request: Unsupported protocol version",
            }
            if request.get("method") == "server/discover":
                error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            answer = {"jsonrpc": "2.0", "id": request.get("id"), "error": error}
            await JSONResponse(answer, status_code=400)(scope, receive, send)
        elif moment == "call" and self._run.cuts < self._settings.cut_sse:
            self._run.cuts += 1
            await self._answer_in_half(scope, receive, send)
        else:
            await self._app(scope, receive, self._watch(scope, send))

    async def _answer_in_half(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the tool, then cut the connection inside its answer."""
        if self._settings.transport == "sse":
            self._cut_stream = True
            await self._app(scope, receive, send)
            return
        answer = bytearray()

        async def collect(message: Message) -> None:
            answer.extend(message.get("body", b""))

        start = {"status": 200, "headers": [(b"content-type", b"text/event-stream")]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": b": soon\r\n\r\n", "more_body": True})
        await self._app(scope, receive, collect)
        half = b"event: message\r\ndata: " + bytes(answer[: len(answer) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        self.cut(scope["client"])

    def _watch(self, scope: Scope, send: Send) -> Send:
        async def watched(message: Message) -> None:
            body: bytes = message.get("body", b"")
            if self._cut_stream and scope["method"] == "GET" and b"event: message" in body:
                self._cut_stream = False
                await send({**message, "body": body[: len(body) // 2]})
                self.cut(scope["client"])
                return
            await send(message)
            if body:
                self._run.wrote()

        return watched


def status_due(run: Run, moment: Moment | None) -> int | None:
    """Return the HTTP status that a request gets, if any, and count it."""
    settings = run.settings
    if settings.http_status is None or settings.http_status_on not in {moment, "all"}:
        return None
    status, times = settings.http_status
    if run.statuses >= times:
        return None
    run.statuses += 1
    return status


def refusal_headers(run: Run) -> dict[str, str]:
    """Return the headers of the configured HTTP status."""
    headers = {
        "Retry-After": run.settings.retry_after,
        "WWW-Authenticate": run.settings.www_authenticate,
    }
    return {name: value for name, value in headers.items() if value is not None}


BANNER = b"*** fault server, starting ***\nLoading models...\n\n"
HALF = b"progress: 50% "
BAD_UTF8 = b"caf\xe9 \xff\xfe \xc3\x28\n"
BIG_LINE = b"#" * (1024 * 1024) + b"\n"
BOM = b"\xef\xbb\xbf"

_NOISE: dict[NoiseKind, bytes] = {
    "bom": BOM,
    "banner": BANNER,
    "utf8": BAD_UTF8,
    "biglines": BIG_LINE,
    "half": HALF,
}
"""What is written before a line, in this order."""


def noisy_chunks(line: str, kinds: Collection[NoiseKind], *, first: bool) -> list[bytes]:
    """Return the chunks to write to stdout for one line of JSON.

    `banner` and `bom` come once, before the first line; `crlf` ends each line; `utf8` and
    `biglines` are lines of their own before each; `half` is text without a line end, glued to
    the front; `split` writes the line in two pieces.
    """
    message = line.rstrip("\n").encode()
    end = b"\r\n" if "crlf" in kinds else b"\n"
    due = kinds if first else set(kinds) - {"bom", "banner"}
    chunks = [noise for kind, noise in _NOISE.items() if kind in due]
    middle = len(message) // 2 if "split" in kinds else 0
    return [*chunks, *([message[:middle]] if middle else []), message[middle:] + end]


class NoisyStdout(io.TextIOWrapper):
    """A text file that adds noise to every written line of JSON."""

    def __init__(
        self, wire: BinaryIO, kinds: Collection[NoiseKind], on_written: Callable[[], None]
    ) -> None:
        super().__init__(wire, encoding="utf-8", newline="")
        self._kinds = kinds
        self._on_written = on_written
        self._first = True

    def write(self, text: str, /) -> int:
        """Write a line with its noise, chunk by chunk."""
        for chunk in noisy_chunks(text, self._kinds, first=self._first):
            self.buffer.write(chunk)
            self.buffer.flush()
        self._first = False
        self._on_written()
        return len(text)


_HANDSHAKES = {"initialize": "initialize", "server/discover": "discover"}

BAD_STRUCTURE = {"city": 7, "degrees": "warm"}
"""The invalid result of `bad_structured`."""


class Interference:
    """Server middleware that delays, refuses, counts and corrupts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._settings = run.settings

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._settings.hang_handshake:
            await anyio.sleep_forever()
        if self._settings.delay:
            await anyio.sleep(self._settings.delay)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self._settings.modern_only and not modern:
            requested = str((ctx.params or {}).get("protocolVersion", ctx.protocol_version))
            raise MCPError(
                UNSUPPORTED_PROTOCOL_VERSION,
                "this server speaks only the 2026-07-28 protocol",
                {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": requested},
            )
        if self._settings.legacy_only and modern:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        result = await call_next(ctx)
        if (kind := _HANDSHAKES.get(ctx.method)) is not None:
            self._run.log_session(kind)
        if ctx.method == "initialize":
            # The SDK has no option to advertise it in the legacy era.
            capabilities: dict[str, Any] = cast("dict[str, Any]", result)["capabilities"]
            capabilities["tools"] = {**capabilities.get("tools", {}), "listChanged": True}
        if ctx.method == "tools/call":
            self._run.count_call()
            if (ctx.params or {}).get("name") == "bad_structured":
                # After the SDK has validated the result.
                cast("dict[str, Any]", result)["structuredContent"] = BAD_STRUCTURE
        return result


async def serve_streams(server: Server[Any], run: Run, read: Any, write: Any) -> None:
    """Serve one stdio, SSE or WebSocket connection with the configured faults."""
    run.log_session("connect")
    if run.settings.hang_handshake:
        async with read, write:
            async for _ in read:
                pass
    elif run.settings.legacy_only:
        # The SDK's default loop selects the modern era at `server/discover`.
        async with server.lifespan(server) as lifespan:
            await serve_loop(server, read, write, lifespan_state=lifespan)
    else:
        await server.run(read, write, server.create_initialization_options())


def build_server(run: Run) -> MCPServer:
    """Make the server with all its tools; also for in-process clients."""
    server = MCPServer(
        "fault server",
        version="1.0.0",
        instructions="Ask for the failure you want to see.",
        log_level="CRITICAL",
        middleware=[Interference(run)],
    )
    add_tools(server, lowlevel_server(server), run)
    return server


def serve(run: Run) -> None:
    """Serve on the transport of the settings until the process ends."""
    settings = run.settings
    server = build_server(run)
    serve_one = partial(serve_streams, lowlevel_server(server), run)
    if settings.transport == "stdio":
        anyio.run(_serve_stdio, serve_one, run)
        return
    if settings.until_stdin_closes:
        exit_when_stdin_closes()
    with bind(settings.host, settings.port) as listener:
        if settings.transport == "websocket":
            anyio.run(_serve_websocket, serve_one, run, listener)
        else:
            anyio.run(_serve_http, server, serve_one, run, listener)


async def _serve_stdio(serve_one: ServeStreams, run: Run) -> None:
    stdout = NoisyStdout(sys.stdout.buffer, run.settings.noise, run.wrote)
    async with stdio_server(stdout=anyio.wrap_file(stdout)) as (read, write):
        await serve_one(read, write)


async def _serve_http(
    server: MCPServer, serve_one: ServeStreams, run: Run, listener: socket.socket
) -> None:
    settings = run.settings
    app, path = http_app(
        server,
        serve_one,
        settings.transport,
        settings.host,
        json_response=settings.json_response,
        stateless_http=settings.stateless,
    )
    faults = HttpFaults(app, run)
    http = http_server(faults, listener, path)
    faults.cut = http.cut
    run.cut = http.cut
    await http.serve([listener])


async def _serve_websocket(serve_one: ServeStreams, run: Run, listener: socket.socket) -> None:
    def check_request(connection: ServerConnection, _: Request) -> Response | None:
        status = status_due(run, "initialize")
        if status is None:
            return None
        response = connection.respond(HTTPStatus(status), run.settings.http_body)
        for name, value in refusal_headers(run).items():
            response.headers[name] = value
        return response

    def ready(server: WebSocketServer) -> None:
        def cut() -> None:
            for connection in list(server.connections):
                connection.transport.abort()

        run.cut = cut

    await serve_websocket(
        serve_one, listener, check_request=check_request, on_written=run.wrote, on_ready=ready
    )
