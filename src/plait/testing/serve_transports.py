"""Serve an MCP server over SSE or WebSocket, or on a pair of streams.

The SDK has no WebSocket transport any more; here each text frame is one JSON-RPC message.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import MCPServer, Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from plait._support.http_servers import LocalServer
from plait.testing.ports import bind

MAX_REQUEST_BODY_BYTES = 64 * 1024 * 1024
"""Far above the SDK's 4 MiB, so that tests may send big arguments."""

ServeStreams: TypeAlias = Callable[[Any, Any], Awaitable[None]]
"""Serve one connection on its read and write streams; the SDK keeps their types private."""

ReadMessages: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteMessages: TypeAlias = MemoryObjectSendStream[SessionMessage]

CheckRequest: TypeAlias = Callable[[ServerConnection, Request], Response | None]
"""Checks the HTTP request of a connection; a returned response refuses it."""


def lowlevel_server(server: MCPServer[Any] | Server[Any]) -> Server[Any]:
    """Return the low-level server of an `MCPServer`, which can run on two streams."""
    if isinstance(server, Server):
        return server
    # The session manager is the only public access to it.
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


def http_server(app: ASGIApp, listener: socket.socket, path: str) -> LocalServer:
    """Return a server that announces its URL; `serve([listener])` runs it."""
    return LocalServer(app, on_ready=lambda: _announce(listener, "http", path), lifespan="on")


def serve_on_port(app: ASGIApp, path: str = "/mcp") -> None:
    """Serve an app on a free port, announce its URL, and exit when standard input closes."""
    exit_when_stdin_closes()
    with bind() as listener:
        anyio.run(http_server(app, listener, path).serve, [listener])


def _announce(listener: socket.socket, scheme: str, path: str) -> None:
    """Print to stderr that clients may connect."""
    host, port = listener.getsockname()[:2]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"
    print(f"listening on {url}", file=sys.stderr, flush=True)  # noqa: T201


def sse_app(serve_streams: ServeStreams, host: str) -> Starlette:
    """Return the app of the old HTTP+SSE transport: `GET /sse` and `POST /messages/`."""
    security = None
    if host in {"127.0.0.1", "localhost", "::1"}:  # as the SDK does
        names = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=names,
            allowed_origins=[f"http://{name}" for name in names],
        )
    transport = SseServerTransport(
        "/messages/", security_settings=security, max_request_body_size=MAX_REQUEST_BODY_BYTES
    )

    class Connect:
        """An ASGI app; Starlette would treat a function as an endpoint."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await serve_streams(read, write)

    return Starlette(
        routes=[
            Route("/sse", endpoint=Connect(), methods=["GET"]),
            Mount("/messages/", app=transport.handle_post_message),
        ]
    )


def http_app(
    server: MCPServer, serve_streams: ServeStreams, transport: str, host: str, **options: Any
) -> tuple[Starlette, str]:
    """Return the app of the old or of the new HTTP transport, and its path."""
    if transport == "sse":
        return sse_app(serve_streams, host), "/sse"
    size = MAX_REQUEST_BODY_BYTES
    return server.streamable_http_app(host=host, max_request_body_size=size, **options), "/mcp"


async def serve_websocket(
    serve_streams: ServeStreams,
    listener: socket.socket,
    *,
    check_request: CheckRequest | None = None,
    on_written: Callable[[], None] = lambda: None,
    on_ready: Callable[[WebSocketServer], None] = lambda _: None,
) -> None:
    """Serve WebSocket connections until cancelled, without a size limit.

    `on_written` is called after each sent message.
    """

    async def handle(connection: ServerConnection) -> None:
        async with _websocket_streams(connection, on_written) as (read, write):
            await serve_streams(read, write)

    async with serve(
        handle,
        sock=listener,
        subprotocols=[Subprotocol("mcp")],
        process_request=check_request,
        max_size=None,
        compression=None,
    ) as server:
        on_ready(server)
        _announce(listener, "ws", "/mcp")
        await anyio.sleep_forever()


@asynccontextmanager
async def _websocket_streams(
    connection: ServerConnection, on_written: Callable[[], None]
) -> AsyncGenerator[tuple[ReadMessages, WriteMessages]]:
    """Convert a connection to the message streams of an MCP server."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive_frames() -> None:
        # As in the HTTP transports, so that tools can read the headers.
        metadata = ServerMessageMetadata(request_context=connection.request)
        async with received:
            try:
                async for frame in connection:
                    try:
                        message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
                    except ValidationError as error:
                        await received.send(error)
                    else:
                        await received.send(SessionMessage(message, metadata=metadata))
            except (ConnectionClosed, anyio.BrokenResourceError):
                return

    async def send_frames() -> None:
        async with to_send:
            async for message in to_send:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await connection.send(text)
                except ConnectionClosed:
                    return
                on_written()

    async with anyio.create_task_group() as tasks, read, write:
        tasks.start_soon(receive_frames)
        tasks.start_soon(send_frames)
        yield read, write
        await connection.close()
        tasks.cancel_scope.cancel()
