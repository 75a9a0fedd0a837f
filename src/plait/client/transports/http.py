"""The Streamable HTTP transport.

Requests to servers that need nothing special are posted without a generic HTTP client; see
`is_plain`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.transports.http_client import (
    HttpSession,
    is_plain,
    open_http_client,
    trusted_certificates,
)
from plait.client.transports.http_pool import HttpPool
from plait.client.transports.http_sender import HttpSender
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.wire import Wire

logger = logging.getLogger("plait.client.transports")


@asynccontextmanager
async def open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[Any]:
    """Yield the two streams of a Streamable HTTP endpoint; nothing is sent yet."""
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  # the SDK

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
        yield read, write


@asynccontextmanager
async def link_http(server: HttpServer, wire: Wire) -> AsyncGenerator[None]:
    """Send messages to a Streamable HTTP endpoint, and receive them, during the block."""
    # Both ways to send share the TLS settings; reading the certificates takes a thread.
    own_client = server.http_client_factory is None and server.url.lower().startswith("https:")
    tls = await in_thread(trusted_certificates) if own_client else None
    with redacted_library_logs(wire):
        async with open_http_client(server, wire, tls=tls, own=True) as client:
            pool = _plain_pool(server, tls) if is_plain(server) else None
            sender = HttpSender(server, wire, client, pool)
            wire.read_session_id = lambda: sender.session_id
            wire.use(sender)
            try:
                yield
            finally:
                if server.terminate_on_close:
                    await sender.end_session()
                await wire.aclose()
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
