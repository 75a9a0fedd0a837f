"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from plait._support.threads import import_in_thread
from plait.client.config.servers import HttpServer, ServerConfig, SseServer, StdioServer
from plait.client.connections.error_mapping import (
    connect_failure,
    leaf_of,
    with_cause,
)
from plait.client.connections.operations import is_modern, set_log_level
from plait.client.connections.plain_client import PlainClient, may_be_plain
from plait.client.connections.session import SDK
from plait.client.connections.session_options import ServerMemory, SessionOptions
from plait.client.protocol.exchange import watched_exchanges
from plait.client.transports.wire import Wire
from plait.errors import ConnectError, PlaitError

if TYPE_CHECKING:
    from mcp import Client

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
    """Open a session with the SDK on the stack, in the caller's task, or raise why not."""
    client = await _open(stack, server, wire, memory, options, plain=False)
    return cast("Client", client)


async def enter_session(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client | PlainClient:
    """Do what `enter_client` does, without the SDK where a server permits it."""
    plain = may_be_plain(server, wire, options)
    return await _open(stack, server, wire, memory, options, plain=plain)


async def _open(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
    *,
    plain: bool,
) -> Client | PlainClient:
    if isinstance(server, HttpServer) and memory.over_sse:
        return await _enter(stack, _sse_twin(server), wire, memory, options)
    try:
        return await _enter(stack, server, wire, memory, options, plain=plain)
    except PlaitError as refused:
        if not isinstance(server, HttpServer) or not _may_be_sse(server, wire):
            raise
        wire.reply = None
        try:
            client = await _enter(stack, _sse_twin(server), wire, memory, options)
        except PlaitError as second:
            text = f"{refused}; nor does it speak SSE: {second}"
            raise type(refused)(text, server=wire.server, status=refused.status) from second
        memory.over_sse = True
        logger.info("%s speaks the older SSE transport", wire.server)
        return client


def _sse_twin(server: HttpServer) -> SseServer:
    """Return the same server with the older HTTP+SSE transport."""
    shared = {field.name for field in fields(SseServer)} & {field.name for field in fields(server)}
    return SseServer(**{name: getattr(server, name) for name in shared})


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
    *,
    plain: bool = False,
) -> Client | PlainClient:
    # Some older servers ignore unknown requests, and the SDK waits 10 s for their answer.
    prefers = options.prefers_handshake(server.client_options)
    unknown = "legacy" if memory.ignored_probe or prefers else "auto"
    era = server.protocol if server.protocol != "auto" else memory.era or unknown
    mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
    memory.ignored_probe = mode == "auto"
    try:
        client = await _enter_as(stack, server, wire, mode, options, plain=plain)
    except ConnectError as refused:
        answered = refused.code is not None or refused.status in _FALLBACK_STATUS
        if server.protocol != "auto" or era != "legacy" or not answered:
            raise
        # It answered, but refused the handshake: probe its era again.
        memory.era, memory.changed_era = None, True
        client = await _enter_as(stack, server, wire, "auto", options, plain=plain)
    memory.ignored_probe = False
    modern = is_modern(client)
    memory.era = "modern" if modern else "legacy"
    if options.log_level is not None and not modern and not isinstance(client, PlainClient):
        await set_log_level(client, options.log_level)
    return client


async def _enter_as(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    mode: str,
    options: SessionOptions,
    *,
    plain: bool,
) -> Client | PlainClient:
    with watched_exchanges() as exchanges:
        try:
            async with AsyncExitStack() as attempt:
                if plain and isinstance(server, StdioServer):
                    client = await _enter_plain(attempt, server, wire, mode, options)
                else:
                    client = await _enter_sdk(attempt, server, wire, mode, options)
                stack.push_async_exit(attempt.pop_all())
        except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
            leaf = leaf_of(error, exchanges)
            failure = connect_failure(error, exchanges, wire)
        else:
            return client
    raise with_cause(failure, leaf, wire)


async def _enter_plain(
    stack: AsyncExitStack, server: StdioServer, wire: Wire, mode: str, options: SessionOptions
) -> Client | PlainClient:
    """Make the handshake without the SDK, which goes on where it takes an unusual turn."""
    from plait.client.transports.stdio import open_stdio  # noqa: PLC0415  # each transport by need

    wire.tapped = True
    async with AsyncExitStack() as transport:
        streams = await transport.enter_async_context(open_stdio(server, wire))
        client = PlainClient(streams, transport, wire, mode, options)
        stack.push_async_exit(client.transport)
    if await client.negotiate():
        return client
    client.replaced.set()  # what it reads belongs to the handshake
    return await with_sdk(stack, client, server, wire)


async def with_sdk(
    stack: AsyncExitStack, plain: PlainClient, server: ServerConfig, wire: Wire
) -> Client:
    """Go on with the SDK's client, which gets what the server has answered so far."""
    await import_in_thread(SDK)
    from plait.client.connections.sdk_client import take_over  # noqa: PLC0415  # slow to import

    return await take_over(stack, plain, server, wire)


async def _enter_sdk(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
    await import_in_thread(SDK)
    from plait.client.connections.sdk_client import enter_new  # noqa: PLC0415  # slow to import

    return await enter_new(stack, server, wire, mode, options)
