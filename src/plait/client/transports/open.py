"""Opens the transport of a server, with a tap on its streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, assert_never

from plait.client.config.servers import HttpServer, SseServer, StdioServer, WebSocketServer
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.tap import TappedRead, TappedWrite

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from plait.client.transports.wire import Wire

WiredServer = StdioServer | HttpServer | SseServer | WebSocketServer
"""A server that is reached over a wire, unlike one in this process."""


@asynccontextmanager
async def open_transport(server: WiredServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Connect to a server; exchanges are noted on the wire, and results are repaired."""
    wire.tapped = True
    with redacted_library_logs(wire):
        async with _streams_of(server, wire) as (read, write):
            yield TappedRead(read, wire), TappedWrite(write, wire)


def _streams_of(server: WiredServer, wire: Wire) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Import only the libraries of this transport, which are slow to import."""
    match server:
        case StdioServer():
            from plait.client.transports.stdio import open_stdio  # noqa: PLC0415

            return open_stdio(server, wire)
        case HttpServer():
            from plait.client.transports.http import open_http  # noqa: PLC0415

            return open_http(server, wire)
        case SseServer():
            from plait.client.transports.sse import open_sse  # noqa: PLC0415

            return open_sse(server, wire)
        case WebSocketServer():
            from plait.client.transports.websocket import open_websocket  # noqa: PLC0415

            return open_websocket(server, wire)
        case _:
            assert_never(server)


def sse_twin(server: HttpServer) -> SseServer:
    """Return the same server with the older HTTP+SSE transport."""
    shared = {field.name for field in fields(SseServer)} & {field.name for field in fields(server)}
    return SseServer(**{name: getattr(server, name) for name in shared})
