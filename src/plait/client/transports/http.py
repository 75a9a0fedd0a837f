"""The Streamable HTTP transport: the SDK's, with our own sender beside it in the plain case."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from plait._support.threads import in_thread
from plait.client.transports.http_client import open_http_client, trusted_certificates
from plait.client.transports.http_sender import open_sender
from plait.client.transports.http_session import HttpSession, is_plain
from plait.client.transports.lean import is_lean
from plait.client.transports.streams import MergedRead

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from plait.client.config.servers import HttpServer
    from plait.client.transports.wire import Wire


@asynccontextmanager
async def open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Yield the two streams of a Streamable HTTP endpoint; nothing is sent yet."""
    session = HttpSession()
    tls = await _tls_of(server)
    async with (
        open_http_client(server, wire, observe=session.observe, tls=tls) as client,
        streamable_http_client(
            server.url,
            http_client=client,
            terminate_on_close=server.terminate_on_close,
            max_sse_event_size=server.max_sse_event_size,
        ) as (read, write),
    ):
        if not is_lean() or not is_plain(server, client):
            yield read, write
            return
        merged = MergedRead(read)
        async with (
            anyio.create_task_group() as tasks,
            open_sender(server, wire, client, session, tls, merged),
        ):
            tasks.start_soon(merged.pump)
            yield merged, write
            tasks.cancel_scope.cancel()


async def _tls_of(server: HttpServer) -> ssl.SSLContext | None:
    """Create the TLS settings that both ways to send share; in a thread, since it reads files."""
    if server.http_client_factory is not None or httpx2.URL(server.url).scheme != "https":
        return None
    return await in_thread(trusted_certificates)
