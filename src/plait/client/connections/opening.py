"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, assert_never

from plait._support.front_door import needing_extras
from plait._support.threads import import_in_thread
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
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
from plait.client.connections.session_options import ServerMemory, SessionOptions
from plait.client.protocol.exchange import watched_exchanges
from plait.client.protocol.handshake import negotiate
from plait.client.protocol.session import McpSession
from plait.client.transports.wire import Wire
from plait.errors import ConnectError, PlaitError

if TYPE_CHECKING:
    from mcp import ClientSession

SessionT = TypeVar("SessionT", bound="McpSession | ClientSession")

Enter: TypeAlias = Callable[
    [AsyncExitStack, ServerConfig, Wire, str, SessionOptions], Awaitable[SessionT]
]
"""Connects and makes the handshake of a mode, on a stack."""

logger = logging.getLogger("plait.client.connections")

STOCK = "plait.client.connections.stock_session"
"""The module that imports the MCP SDK, which is slow."""
_FALLBACK_STATUS = frozenset({400, 404, 405, 406})
"""Statuses after which the server may know only the older SSE transport."""


async def enter_stock_session(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> ClientSession:
    """Open a stock session of the SDK on the stack, in the caller's task, or raise why not."""
    return await _open(stack, server, wire, memory, options, _enter_stock)


async def enter_session(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> McpSession:
    """Open a session on the stack, in the caller's task, or raise why not."""
    client = await _open(stack, server, wire, memory, options, _enter_own)
    if options.log_level is not None and not is_modern(client):
        await set_log_level(client, options.log_level)
    return client


async def _open(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
    enter: Enter[SessionT],
) -> SessionT:
    if isinstance(server, HttpServer) and memory.over_sse:
        return await _enter(stack, _sse_twin(server), wire, memory, options, enter)
    try:
        return await _enter(stack, server, wire, memory, options, enter)
    except PlaitError as refused:
        if not isinstance(server, HttpServer) or not _may_be_sse(server, wire):
            raise
        wire.reply = None
        try:
            client = await _enter(stack, _sse_twin(server), wire, memory, options, enter)
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
    enter: Enter[SessionT],
) -> SessionT:
    # Some older servers ignore unknown requests, whose answer is waited for then.
    prefers = options.prefers_handshake(server.client_options)
    unknown = "legacy" if memory.ignored_probe or prefers else "auto"
    era = server.protocol if server.protocol != "auto" else memory.era or unknown
    mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
    memory.ignored_probe = mode == "auto"
    try:
        client = await _enter_as(stack, server, wire, mode, options, enter)
    except ConnectError as refused:
        answered = refused.code is not None or refused.status in _FALLBACK_STATUS
        if server.protocol != "auto" or era != "legacy" or not answered:
            raise
        # It answered, but refused the handshake: probe its era again.
        memory.era, memory.changed_era = None, True
        client = await _enter_as(stack, server, wire, "auto", options, enter)
    memory.ignored_probe = False
    memory.era = "modern" if is_modern(client) else "legacy"
    return client


async def _enter_as(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    mode: str,
    options: SessionOptions,
    enter: Enter[SessionT],
) -> SessionT:
    with watched_exchanges() as exchanges:
        try:
            async with AsyncExitStack() as attempt:
                client = await enter(attempt, server, wire, mode, options)
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
    session = McpSession(wire, options.callbacks(server.client_options))
    await stack.enter_async_context(link_to(server, wire))
    await negotiate(session, mode)
    return session


def link_to(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[None]:
    """Return what sends and receives the messages of a session, or plays them from a tape."""
    wire.tapped = True
    link = partial(_link_of, server, wire)
    if wire.tape is None:
        return link()
    from plait.client.transports.replay import link_tape  # noqa: PLC0415  # rarely used

    return link_tape(wire.tape, server, wire, link)


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
        case HttpServer():
            from plait.client.transports.http import link_http  # noqa: PLC0415

            return link_http(server, wire)
        case InProcessServer():
            from plait.client.transports.in_process import link_in_process  # noqa: PLC0415

            return link_in_process(server, wire)
        case _:
            assert_never(server)


async def _enter_stock(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> ClientSession:
    await _import_stock()
    from plait.client.connections.stock_session import enter_stock  # noqa: PLC0415  # slow

    arguments = options.client_arguments(server.client_options)
    return await enter_stock(stack, await stock_transport(server, wire), mode, arguments)


async def _import_stock() -> None:
    with needing_extras("a session of one's own"):
        await import_in_thread(STOCK)


async def stock_transport(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[Any]:
    """Return what opens the streams of a stock session of the SDK."""
    await _import_stock()
    from plait.client.connections.stock_session import stock_streams  # noqa: PLC0415  # slow

    return stock_streams(link_to(server, wire), wire)
