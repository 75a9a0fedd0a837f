"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Any

from mcp import Client, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION, DiscoverResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait.client.config.servers import HttpServer, InProcessServer, ServerConfig
from plait.client.connections.error_mapping import (
    connect_failure,
    leaf_of,
    supported_versions,
    with_cause,
)
from plait.client.connections.operations import set_log_level
from plait.client.connections.session_options import ServerMemory, SessionOptions
from plait.client.transports import in_process
from plait.client.transports.lean import connector, is_lean
from plait.client.transports.open import open_transport, sse_twin
from plait.client.transports.wire import Wire, watched_exchanges
from plait.errors import ConnectError, PlaitError

logger = logging.getLogger("plait.client.connections")

_FALLBACK_STATUS = frozenset({400, 404, 405, 406})
"""Statuses after which the server may know only the older SSE transport."""


async def enter_client(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client:
    """Open a session on the stack, in the caller's task, or raise why it cannot be opened."""
    if isinstance(server, HttpServer) and memory.over_sse:
        return await _enter(stack, sse_twin(server), wire, memory, options)
    try:
        return await _enter(stack, server, wire, memory, options)
    except PlaitError as refused:
        if not isinstance(server, HttpServer) or not _may_be_sse(server, wire):
            raise
        wire.reply = None
        try:
            client = await _enter(stack, sse_twin(server), wire, memory, options)
        except PlaitError as second:
            text = f"{refused}; nor does it speak SSE: {second}"
            raise type(refused)(text, server=wire.server, status=refused.status) from second
        memory.over_sse = True
        logger.info("%s speaks the older SSE transport", wire.server)
        return client


def _may_be_sse(server: HttpServer, wire: Wire) -> bool:
    reply = wire.reply
    return (
        server.automatic_sse_fallback
        and reply is not None
        and reply.status in _FALLBACK_STATUS
        and reply.error_code is None
    )


async def _enter(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client:
    # Some older servers ignore unknown requests, and the SDK waits 10 s for their answer.
    prefers = options.prefers_handshake(server.client_options)
    unknown = "legacy" if memory.ignored_probe or prefers else "auto"
    era = server.protocol if server.protocol != "auto" else memory.era or unknown
    mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
    memory.ignored_probe = mode == "auto"
    try:
        client = await _enter_as(stack, server, wire, mode, options)
    except ConnectError as refused:
        answered = refused.code is not None or refused.status in _FALLBACK_STATUS
        if server.protocol != "auto" or era != "legacy" or not answered:
            raise
        # It answered, but refused the handshake: probe its era again.
        memory.era, memory.changed_era = None, True
        client = await _enter_as(stack, server, wire, "auto", options)
    memory.ignored_probe = False
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    memory.era = "modern" if modern else "legacy"
    if options.log_level is not None and not modern:
        await set_log_level(client, options.log_level)
    return client


async def _enter_as(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
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
    with watched_exchanges() as exchanges:
        try:
            async with AsyncExitStack() as attempt:
                await attempt.enter_async_context(client)
                if mode in MODERN_PROTOCOL_VERSIONS:
                    # The SDK does not verify a pinned version; discovery notices a dead server.
                    raw = await _discover(client, mode)
                    client.session.adopt(DiscoverResult.model_validate(raw))
                stack.push_async_exit(attempt.pop_all())
        except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
            leaf = leaf_of(error, exchanges)
            failure = connect_failure(error, exchanges, wire)
        else:
            return client
    raise with_cause(failure, leaf, wire)


async def _discover(client: Client, version: str) -> dict[str, Any]:
    """Discover a modern server; retry once if it refuses a version that it then lists."""
    try:
        return await client.session.send_discover(version)
    except MCPError as error:
        listed = version in (supported_versions(error) or ())
        if error.code != UNSUPPORTED_PROTOCOL_VERSION or not listed:
            raise
    return await client.session.send_discover(version)
