"""Servers on Streamable HTTP: the SDK's transport over a client that loses no facts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.client.streamable_http import streamable_http_client

from plait.client.config.servers import HttpServer
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
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
