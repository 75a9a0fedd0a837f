"""Opens the transport of a server, with a tap on its streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, assert_never

from mcp.client.streamable_http import streamable_http_client

from plait.client.config.servers import (
    HttpServer,
    SseServer,
    StdioServer,
    WebSocketServer,
)
from plait.client.transports.http_client import open_http_client
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.sse import open_sse
from plait.client.transports.stdio import open_stdio
from plait.client.transports.tap import TappedRead, TappedWrite
from plait.client.transports.websocket import open_websocket
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

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
    match server:
        case StdioServer():
            return open_stdio(server, wire)
        case HttpServer():
            return _open_http(server, wire)
        case SseServer():
            return open_sse(server, wire)
        case WebSocketServer():
            return open_websocket(server, wire)
        case _:
            assert_never(server)


@asynccontextmanager
async def _open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Yield the two streams of a Streamable HTTP endpoint; nothing is sent yet."""
    async with (
        open_http_client(server, wire) as client,
        streamable_http_client(
            server.url,
            http_client=client,
            terminate_on_close=server.terminate_on_close,
            max_sse_event_size=server.max_sse_event_size,
        ) as streams,
    ):
        yield streams


def sse_twin(server: HttpServer) -> SseServer:
    """Return the same server with the older HTTP+SSE transport."""
    shared = {
        name: getattr(server, name)
        for name in SseServer.__dataclass_fields__
        if name in HttpServer.__dataclass_fields__
    }
    return SseServer(**shared)
