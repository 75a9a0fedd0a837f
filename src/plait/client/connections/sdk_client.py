"""Opens the client of the MCP SDK, for transports that have none of our own yet."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait.client.config.servers import InProcessServer, ServerConfig
from plait.client.connections.session_options import SessionOptions
from plait.client.protocol.handshake import supported_versions
from plait.client.protocol.requests import is_lean
from plait.client.transports import in_process
from plait.client.transports.lean import connector
from plait.client.transports.open import open_transport
from plait.client.transports.wire import Wire


async def enter_new(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
    """Connect, and make the handshake."""
    arguments = options.client_arguments(server.client_options)
    # The SDK has no parameter for the dispatcher of its client, only of its session.
    if isinstance(server, InProcessServer) and wire.tape is None:
        client = Client(server.server, mode=mode, **arguments)
        client._connect = in_process.connector(client._connect, wire)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    else:
        transport = open_transport(server, wire)
        client = Client(transport, mode=mode, **arguments)
        if is_lean() and wire.tape is None:
            client._connect = connector(transport, wire)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    await stack.enter_async_context(client)
    if mode in MODERN_PROTOCOL_VERSIONS:
        # The SDK does not verify a pinned version; discovery notices a dead server.
        raw = await _discover(client, mode)
        client.session.adopt(DiscoverResult.model_validate(raw))
    return client


async def _discover(client: Client, version: str) -> dict[str, Any]:
    """Discover a modern server; retry once if it refuses a version that it then lists."""
    try:
        return await client.session.send_discover(version)
    except MCPError as error:
        listed = version in (supported_versions(error.data) or ())
        if error.code != UNSUPPORTED_PROTOCOL_VERSION or not listed:
            raise
    return await client.session.send_discover(version)
