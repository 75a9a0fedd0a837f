"""Build the fault server from its settings and serve it on its transport, with its faults."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Any, BinaryIO, cast

import anyio
from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from plait.testing.faults.client_features import add_client_features
from plait.testing.faults.http_faults import HttpFaults, refusal_headers, status_due
from plait.testing.faults.options import NoiseKind
from plait.testing.faults.run import Run
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
        self._refuse_other_era(ctx)
        result = await call_next(ctx)
        if (kind := _HANDSHAKES.get(ctx.method)) is not None:
            self._run.log_session(kind)
        if ctx.method == "initialize":
            _promise_list_changed(cast("dict[str, Any]", result))
        if ctx.method == "tools/call":
            self._run.count_call()
            if (ctx.params or {}).get("name") == "bad_structured":
                # After the SDK has validated the result.
                cast("dict[str, Any]", result)["structuredContent"] = BAD_STRUCTURE
        return result

    def _refuse_other_era(self, ctx: ServerRequestContext[Any, Any]) -> None:
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


def _promise_list_changed(result: dict[str, Any]) -> None:
    """Advertise `listChanged` in the legacy era; the SDK has no option for it."""
    capabilities: dict[str, Any] = result["capabilities"]
    capabilities["tools"] = {**capabilities.get("tools", {}), "listChanged": True}


def build_server(run: Run) -> MCPServer:
    """Make the server with all its tools; also for in-process clients."""
    server = MCPServer(
        "fault server",
        version="1.0.0",
        instructions="Ask for the failure you want to see.",
        log_level="CRITICAL",
        middleware=[Interference(run)],
    )
    add_tools(server, run)
    add_client_features(server, lowlevel_server(server), run)
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
        if not status_due(run, "initialize"):
            return None
        status = run.settings.status_code or HTTPStatus.INTERNAL_SERVER_ERROR
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
