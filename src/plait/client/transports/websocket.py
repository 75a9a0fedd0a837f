"""The WebSocket transport: one JSON-RPC message per text frame, subprotocol `mcp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx2
from typing_extensions import override
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.typing import Subprotocol

from plait.client.config.budgets import IncomingLimits
from plait.client.config.servers import WebSocketServer
from plait.client.protocol.exchange import HttpReply
from plait.client.protocol.reading import too_large
from plait.client.transports.http_client import headers_of, origin_of, shown_origin
from plait.client.transports.wire import TaskSender, Wire, receiving, redacted_library_logs
from plait.errors import ConfigError

_CLOSE_SECONDS = 2.0


class _Connect(connect):
    """Opens a socket; a redirect is followed only within its origin.

    The library would forward every header that is not known to hold credentials.
    """

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the new address, or the error that explains the refusal."""
        here = httpx2.URL(self.uri)
        target = super().process_redirect(exc)
        if isinstance(target, Exception):
            return target
        there = httpx2.URL(target)
        if origin_of(here) == origin_of(there):
            return target
        return _OtherOriginError(
            f"{shown_origin(here)} redirects to {shown_origin(there)}, another origin, which gets "
            "none of the headers and credentials meant for this one"
        )


class _OtherOriginError(InvalidHandshake):
    """The server redirects to another origin."""


class _SocketSender(TaskSender):
    def __init__(self, socket: ClientConnection, wire: Wire) -> None:
        super().__init__(wire)
        self._socket = socket

    @override
    def may_arrive(self) -> bool:
        # Also if sending fails: a socket with a full buffer fails all senders that wait, also one
        # whose frame has left.
        return self._socket.state is State.OPEN

    @override
    async def deliver(self, body: bytes) -> None:
        try:
            await self._socket.send(body, text=True)
        except ConnectionClosed as error:
            raise anyio.BrokenResourceError from error


@asynccontextmanager
async def link_websocket(server: WebSocketServer, wire: Wire) -> AsyncGenerator[None]:
    """Connect, and receive what the server sends during the block, or raise `ConnectError`."""
    with redacted_library_logs(wire):
        async with (
            _open_socket(server, wire) as socket,
            receiving(partial(_receive, socket, wire, server.incoming), wire),
        ):
            yield


async def _receive(socket: ClientConnection, wire: Wire, limits: IncomingLimits) -> None:
    while True:
        try:
            frame = await socket.recv(decode=False)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == CloseCode.MESSAGE_TOO_BIG:
                wire.end(too_large(limits.message_bytes))
            return
        if not wire.take_line(frame):
            await wire.receive(frame, limits)
        del frame  # it may be large, and the next may be long in coming


@asynccontextmanager
async def _open_socket(server: WebSocketServer, wire: Wire) -> AsyncGenerator[ClientConnection]:
    if server.auth is not None:
        raise ConfigError(
            f"{wire.server}: `auth` works on HTTP servers; give a WebSocket its `headers`",
            server=wire.server,
        )
    try:
        socket = await _Connect(
            server.url,
            subprotocols=[Subprotocol("mcp")],
            additional_headers=await headers_of(server, wire),
            compression=None,  # a message would be decompressed in one turn of the event loop
            max_size=server.incoming.message_bytes,
            max_queue=1,  # of messages, which may be large
            open_timeout=None,
            close_timeout=_CLOSE_SECONDS,
        )
    except InvalidStatus as refused:
        response = refused.response
        wire.reply = HttpReply(
            status=response.status_code,
            retry_after=response.headers.get("Retry-After"),
            challenge=response.headers.get("WWW-Authenticate"),
            body=wire.redact((response.body or b"").decode("utf-8", "replace")),
            error_code=None,
            had_session=False,
        )
        status = response.status_code
        text = f"HTTP {status} instead of a WebSocket"
        raise wire.connect_error(text, status=status) from refused
    except _OtherOriginError as refused:
        raise wire.connect_error(str(refused)) from refused
    except InvalidHandshake as refused:
        text = f"no WebSocket there: {wire.redact.excerpt(str(refused))}"
        raise wire.connect_error(text) from refused
    try:
        async with socket:
            wire.use(_SocketSender(socket, wire))
            yield socket
    finally:
        # A cancelled closing handshake would leave the connection open.
        socket.transport.abort()
