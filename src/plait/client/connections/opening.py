"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from plait._support import mcp_types as types
from plait._support.front_door import needing_extras
from plait._support.threads import import_in_thread
from plait.client.config.servers import HttpServer, ServerConfig, SseServer
from plait.client.connections.error_mapping import connect_failure, leaf_of, with_cause
from plait.client.connections.operations import is_modern, set_log_level
from plait.client.connections.session_keeper import PLAIT, ServerMemory, SessionOptions
from plait.client.protocol.exchange import Exchanges
from plait.client.protocol.handshake import negotiate
from plait.client.protocol.session import McpSession
from plait.client.transports.wire import Wire
from plait.errors import ConnectError, PlaitError

if TYPE_CHECKING:
    from mcp import ClientSession

SessionT = TypeVar("SessionT", bound="McpSession | ClientSession")

logger = logging.getLogger("plait.client.connections")

_STOCK = "plait.client.connections.stock_session"
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

    async def enter(attempt: AsyncExitStack, used: ServerConfig, mode: str) -> ClientSession:
        transport = await stock_transport(used, wire)
        from plait.client.connections.stock_session import enter_stock  # noqa: PLC0415  # slow

        arguments = options.client_arguments(used.client_options)
        arguments["client_info"] = arguments["client_info"] or types.Implementation(**PLAIT)
        return await enter_stock(attempt, transport, mode, arguments)

    return await _Opening(stack, wire, memory, options, enter).open(server)


async def enter_session(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> McpSession:
    """Open a session on the stack, in the caller's task, or raise why not."""

    async def enter(attempt: AsyncExitStack, used: ServerConfig, mode: str) -> McpSession:
        session = McpSession(wire, options.callbacks(used.client_options))
        await attempt.enter_async_context(link_to(used, wire))
        await negotiate(session, mode)
        return session

    client = await _Opening(stack, wire, memory, options, enter).open(server)
    if options.log_level is not None and not is_modern(client):
        await set_log_level(client, options.log_level)
    return client


@dataclass(frozen=True, slots=True)
class _Opening(Generic[SessionT]):
    """Finds the transport and the era that a server speaks, and remembers them."""

    stack: AsyncExitStack
    wire: Wire
    memory: ServerMemory
    options: SessionOptions
    enter: Callable[[AsyncExitStack, ServerConfig, str], Awaitable[SessionT]]
    """Connects and makes the handshake of a mode, on a stack."""

    async def open(self, server: ServerConfig) -> SessionT:
        """Open a session, over the older SSE transport if the server has no other."""
        if not isinstance(server, HttpServer):
            return await self._open_in_some_era(server)
        shared = {one.name for one in fields(SseServer)} & {one.name for one in fields(server)}
        twin = SseServer(**{name: getattr(server, name) for name in shared})
        if self.memory.over_sse:
            return await self._open_in_some_era(twin)
        try:
            return await self._open_in_some_era(server)
        except PlaitError as refused:
            reply = self.wire.reply
            if not server.automatic_sse_fallback or reply is None:
                raise
            if reply.status not in _FALLBACK_STATUS or reply.error_code is not None:
                raise
            self.wire.reply = None
            try:
                client = await self._open_in_some_era(twin)
            except PlaitError as second:
                text = f"{refused}; nor does it speak SSE: {second}"
                name, status = self.wire.server, refused.status
                raise type(refused)(text, server=name, status=status) from second
            self.memory.over_sse = True
            logger.info("%s speaks the older SSE transport", self.wire.server)
            return client

    async def _open_in_some_era(self, server: ServerConfig) -> SessionT:
        memory = self.memory
        # Some older servers ignore unknown requests, whose answer is waited for then.
        prefers = self.options.prefers_handshake(server.client_options)
        unknown = "legacy" if memory.ignored_probe or prefers else "auto"
        era = server.protocol if server.protocol != "auto" else memory.era or unknown
        mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
        memory.ignored_probe = mode == "auto"
        try:
            client = await self._open_as(server, mode)
        except ConnectError as refused:
            answered = refused.code is not None or refused.status in _FALLBACK_STATUS
            if server.protocol != "auto" or era != "legacy" or not answered:
                raise
            # It answered, but refused the handshake: probe its era again.
            memory.era, memory.changed_era = None, True
            client = await self._open_as(server, "auto")
        memory.ignored_probe = False
        memory.era = "modern" if is_modern(client) else "legacy"
        return client

    async def _open_as(self, server: ServerConfig, mode: str) -> SessionT:
        with Exchanges() as exchanges:
            try:
                async with AsyncExitStack() as attempt:
                    client = await self.enter(attempt, server, mode)
                    self.stack.push_async_exit(attempt.pop_all())
            except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
                leaf = leaf_of(error, exchanges)
                failure = connect_failure(error, exchanges, self.wire)
            else:
                return client
        raise with_cause(failure, leaf, self.wire)


def link_to(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[None]:
    """Return what sends and receives the messages of a session, or plays them from a tape."""
    wire.tapped = True

    def link() -> AbstractAsyncContextManager[None]:
        # Each transport has a module, which imports the libraries that it needs: they are slow.
        name = server.transport.replace("-", "_")
        module = import_module(f"plait.client.transports.{name}")
        return getattr(module, f"link_{name}")(server, wire)

    if wire.tape is None:
        return link()
    from plait.client.transports.replay import link_tape  # noqa: PLC0415  # rarely used

    return link_tape(wire.tape, server, wire, link)


async def stock_transport(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[Any]:
    """Return what opens the streams of a stock session of the SDK."""
    with needing_extras("a session of one's own"):
        await import_in_thread(_STOCK)
    from plait.client.connections.stock_session import stock_streams  # noqa: PLC0415  # slow

    return stock_streams(link_to(server, wire), wire)
