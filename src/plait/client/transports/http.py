"""The Streamable HTTP transport: the SDK's, with our own sender beside it.

The sender posts requests without a generic HTTP client, for servers that need none; see `is_plain`.
The SDK keeps the handshake, the stream of notifications, and the responses to the server's
requests.
"""

from __future__ import annotations

import contextvars
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.protocol.requests import is_lean
from plait.client.transports.http_client import (
    HttpSession,
    is_plain,
    open_http_client,
    trusted_certificates,
)
from plait.client.transports.http_pool import HttpPool
from plait.client.transports.http_sender import HttpSender
from plait.client.transports.streams import MergedRead
from plait.client.transports.wire import Wire

logger = logging.getLogger("plait.client.transports")


@asynccontextmanager
async def open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Yield the two streams of a Streamable HTTP endpoint; nothing is sent yet."""
    session = HttpSession()
    wire.read_session_id = lambda: session.session_id
    # Both ways to send share the TLS settings; reading the certificates takes a thread.
    own_client = server.http_client_factory is None and server.url.lower().startswith("https:")
    tls = await in_thread(trusted_certificates) if own_client else None
    async with (
        open_http_client(server, wire, observe=session.observe, tls=tls) as client,
        streamable_http_client(
            server.url,
            http_client=client,
            terminate_on_close=server.terminate_on_close,
            max_sse_event_size=server.most_event_bytes,
        ) as (read, write),
    ):
        if not is_lean():
            yield read, write
            return
        merged = MergedRead(read)

        async def pass_on(message: JSONRPCMessage) -> None:
            merged.push(SessionMessage(message), contextvars.copy_context())
            await merged.dispatched()

        wire.pass_on = pass_on
        async with (
            anyio.create_task_group() as tasks,
            open_sender(server, wire, client, session, tls, merged),
        ):
            tasks.start_soon(merged.pump)
            yield merged, write
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_sender(
    server: HttpServer,
    wire: Wire,
    client: httpx2.AsyncClient,
    session: HttpSession,
    tls: ssl.SSLContext | None,
    received: MergedRead,
) -> AsyncGenerator[None]:
    """Send the requests of a wire during the block.

    What arrives in their responses beside the answers is added to `received`.
    """
    pool = _plain_pool(server, tls) if is_plain(server, client) else None
    sender = HttpSender(server, wire, client, session, pool, received)
    session.on_cookie, session.on_stream = sender.keep_cookies, sender.release
    wire.use(sender)
    try:
        yield
    finally:
        wire.sender = None
        await sender.close()


def _plain_pool(server: HttpServer, tls: ssl.SSLContext | None) -> HttpPool:
    url = httpx2.URL(server.url)
    return HttpPool(
        url.raw_host.decode("ascii").strip("[]"),
        url.port or (443 if url.scheme == "https" else 80),
        tls,
        exchange_seconds=server.exchange_seconds,
        read_seconds=server.stream_read_seconds,
    )
