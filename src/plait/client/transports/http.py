"""The Streamable HTTP transport.

Requests to servers that need nothing special are posted without a generic HTTP client; see
`is_plain`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2

from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.transports.http_client import (
    is_plain,
    open_http_client,
    trusted_certificates,
)
from plait.client.transports.http_pool import HttpPool
from plait.client.transports.http_sender import HttpSender
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.wire import Wire


@asynccontextmanager
async def link_http(server: HttpServer, wire: Wire) -> AsyncGenerator[None]:
    """Send messages to a Streamable HTTP endpoint, and receive them, during the block."""
    # Both ways to send share the TLS settings; reading the certificates takes a thread.
    own_client = server.http_client_factory is None and server.url.lower().startswith("https:")
    tls = await in_thread(trusted_certificates) if own_client else None
    with redacted_library_logs(wire):
        async with open_http_client(server, wire, tls=tls) as client:
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
