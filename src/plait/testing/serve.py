"""Serve an MCP server over SSE or WebSocket, or on a pair of streams."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
from mcp.server import MCPServer, Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send
from websockets.asyncio.server import Server as WebSocketServer

from plait.testing.http_server import announce, url_of
from plait.testing.websocket import CheckRequest, websocket_server

MAX_REQUEST_BODY_BYTES = 64 * 1024 * 1024
"""Far above the SDK's 4 MiB, so that tests may send big arguments."""

ServeStreams: TypeAlias = Callable[[Any, Any], Awaitable[None]]
"""Serve one connection on its read and write streams; the SDK keeps their types private."""


def lowlevel_server(server: MCPServer[Any] | Server[Any]) -> Server[Any]:
    """Return the low-level server inside an `MCPServer`, which alone can run on two streams."""
    if isinstance(server, Server):
        return server
    # The session manager is the one public way to it.
    server.streamable_http_app()
    return server.session_manager.app


def serve_with(server: MCPServer[Any] | Server[Any]) -> ServeStreams:
    """Return the function that serves one connection of a server, in both protocol eras."""
    inner = lowlevel_server(server)

    async def serve_streams(read: Any, write: Any) -> None:
        await inner.run(read, write, inner.create_initialization_options())

    return serve_streams


def exit_when_stdin_closes() -> None:
    """Exit this process when its standard input closes, so that it never outlives a test run."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="stdin-watch", daemon=True).start()


def sse_app(serve_streams: ServeStreams, host: str) -> Starlette:
    """Return the app of the old HTTP+SSE transport: `GET /sse` and `POST /messages/`."""
    transport = SseServerTransport(
        "/messages/",
        security_settings=_security(host),
        max_request_body_size=MAX_REQUEST_BODY_BYTES,
    )

    async def connect(scope: Scope, receive: Receive, send: Send) -> None:
        async with transport.connect_sse(scope, receive, send) as (read, write):
            await serve_streams(read, write)

    class Connect:
        """An ASGI app; Starlette would treat a function as an endpoint."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await connect(scope, receive, send)

    return Starlette(
        routes=[
            Route("/sse", endpoint=Connect(), methods=["GET"]),
            Mount("/messages/", app=transport.handle_post_message),
        ]
    )


async def serve_websocket(
    serve_streams: ServeStreams,
    listener: socket.socket,
    *,
    check_request: CheckRequest | None = None,
    on_written: Callable[[], None] = lambda: None,
    on_ready: Callable[[WebSocketServer], None] | None = None,
) -> None:
    """Serve WebSocket connections until cancelled."""
    async with websocket_server(
        serve_streams, listener, check_request=check_request, on_written=on_written
    ) as server:
        if on_ready is not None:
            on_ready(server)
        announce(url_of(listener, "ws", "/mcp"))
        await anyio.sleep_forever()


def _security(host: str) -> TransportSecuritySettings | None:
    """Return the settings that the SDK uses for a server on the local machine."""
    if host not in {"127.0.0.1", "localhost", "::1"}:
        return None
    names = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
