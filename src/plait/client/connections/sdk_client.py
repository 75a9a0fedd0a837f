"""Opens the client of MCP SDK 2.x, for what has no session of our own yet: HTTP and tapes."""

from __future__ import annotations

from contextlib import AsyncExitStack

from mcp import Client

from plait.client.config.servers import ServerConfig
from plait.client.connections.session_options import SessionOptions
from plait.client.connections.stock_session import enter_client
from plait.client.protocol.requests import is_lean
from plait.client.transports.lean import connector
from plait.client.transports.open import open_transport
from plait.client.transports.wire import Wire


async def enter_new(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
    """Connect, and make the handshake."""
    transport = open_transport(server, wire)
    client = Client(transport, mode=mode, **options.client_arguments(server.client_options))
    if is_lean() and wire.tape is None:
        # The SDK has no parameter for the dispatcher of its client, only of its session.
        client._connect = connector(transport, wire)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await enter_client(stack, client)
    return client
