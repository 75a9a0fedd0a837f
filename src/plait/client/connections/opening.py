"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from plait._support.threads import import_in_thread
from plait.client.config.servers import (
    HttpServer,
    ServerConfig,
    SseServer,
    StdioServer,
    WebSocketServer,
)
from plait.client.connections.error_mapping import (
    connect_failure,
    leaf_of,
    with_cause,
)
from plait.client.connections.operations import is_modern, set_log_level
from plait.client.connections.session import SDK
from plait.client.connections.session_options import ServerMemory, SessionOptions
from plait.client.protocol.exchange import watched_exchanges
from plait.client.protocol.handshake import negotiate
from plait.client.protocol.requests import is_lean
from plait.client.protocol.session import McpSession
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
    client = await _open(stack, server, wire, memory, options, own=False)
    return cast("Client", client)


async def enter_session(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client | McpSession:
    """Do what `enter_client` does, without the SDK where a transport needs none."""
    return await _open(stack, server, wire, memory, options, own=True)


def has_own_session(server: ServerConfig, wire: Wire) -> bool:
    """Return whether a session is opened without the SDK."""
    if not isinstance(server, StdioServer | WebSocketServer | SseServer):
        return False
    return is_lean() and wire.tape is None


async def _open(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
    *,
    own: bool,
) -> Client | McpSession:
    if isinstance(server, HttpServer) and memory.over_sse:
        return await _enter(stack, _sse_twin(server), wire, memory, options, own=own)
    try:
        return await _enter(stack, server, wire, memory, options, own=own)
    except PlaitError as refused:
        if not isinstance(server, HttpServer) or not _may_be_sse(server, wire):
            raise
        wire.reply = None
        try:
            client = await _enter(stack, _sse_twin(server), wire, memory, options, own=own)
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
    own: bool = False,
) -> Client | McpSession:
    # Some older servers ignore unknown requests, and the SDK waits 10 s for their answer.
    prefers = options.prefers_handshake(server.client_options)
    unknown = "legacy" if memory.ignored_probe or prefers else "auto"
    era = server.protocol if server.protocol != "auto" else memory.era or unknown
    mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
    memory.ignored_probe = mode == "auto"
    try:
        client = await _enter_as(stack, server, wire, mode, options, own=own)
    except ConnectError as refused:
        answered = refused.code is not None or refused.status in _FALLBACK_STATUS
        if server.protocol != "auto" or era != "legacy" or not answered:
            raise
        # It answered, but refused the handshake: probe its era again.
        memory.era, memory.changed_era = None, True
        client = await _enter_as(stack, server, wire, "auto", options, own=own)
    memory.ignored_probe = False
    modern = is_modern(client)
    memory.era = "modern" if modern else "legacy"
    if options.log_level is not None and not modern:
        await set_log_level(client, options.log_level)
    return client


async def _enter_as(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    mode: str,
    options: SessionOptions,
    *,
    own: bool,
) -> Client | McpSession:
    with watched_exchanges() as exchanges:
        try:
            async with AsyncExitStack() as attempt:
                if own and has_own_session(server, wire):
                    client = await _enter_own(attempt, server, wire, mode, options)
                else:
                    client = await _enter_sdk(attempt, server, wire, mode, options)
                stack.push_async_exit(attempt.pop_all())
        except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
            leaf = leaf_of(error, exchanges)
            failure = connect_failure(error, exchanges, wire)
        else:
            return client
    raise with_cause(failure, leaf, wire)


async def _enter_own(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> McpSession:
    wire.tapped = True
    session = McpSession(wire, options.callbacks(server.client_options))
    await stack.enter_async_context(_link_of(server, wire))
    await negotiate(session, mode)
    return session


def _link_of(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[None]:
    """Import only the libraries of this transport, which are slow to import."""
    match server:
        case WebSocketServer():
            from plait.client.transports.websocket import link_websocket  # noqa: PLC0415

            return link_websocket(server, wire)
        case SseServer():
            from plait.client.transports.sse import link_sse  # noqa: PLC0415

            return link_sse(server, wire)
        case StdioServer():
            from plait.client.transports.stdio import link_stdio  # noqa: PLC0415

            return link_stdio(server, wire)
        case _:
            raise NotImplementedError(server.transport)


async def _enter_sdk(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
    await import_in_thread(SDK)
    from plait.client.connections.sdk_client import enter_new  # noqa: PLC0415  # slow to import

    return await enter_new(stack, server, wire, mode, options)
