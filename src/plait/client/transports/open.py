"""The transport of a server, opened and tapped."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, assert_never

from plait.client.config.servers import (
    HttpServer,
    SseServer,
    StdioServer,
    WebSocketServer,
)
from plait.client.transports.http import open_http
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.sse import open_sse
from plait.client.transports.stdio import open_stdio
from plait.client.transports.tap import TappedRead, TappedWrite
from plait.client.transports.websocket import open_websocket
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

WiredServer = StdioServer | HttpServer | SseServer | WebSocketServer
"""A server that is reached over a wire; the others are objects in this process."""


@asynccontextmanager
async def open_transport(server: WiredServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Reach a server; what passes is noted on the wire, and answers are repaired."""
    wire.tapped = True
    with redacted_library_logs(wire):
        async with _streams_of(server, wire) as (read, write):
            yield TappedRead(read, wire), TappedWrite(write, wire)


def _streams_of(server: WiredServer, wire: Wire) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    match server:
        case StdioServer():
            return open_stdio(server, wire)
        case HttpServer():
            return open_http(server, wire)
        case SseServer():
            return open_sse(server, wire)
        case WebSocketServer():
            return open_websocket(server, wire)
        case _:
            assert_never(server)


def sse_twin(server: HttpServer) -> SseServer:
    """Return the same server, to be reached over the older transport."""
    shared = {
        name: getattr(server, name)
        for name in SseServer.__dataclass_fields__
        if name in HttpServer.__dataclass_fields__
    }
    return SseServer(**shared)
