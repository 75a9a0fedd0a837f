"""The WebSocket transport: one JSON-RPC message per text frame, subprotocol `mcp`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from plait.client.config.servers import WebSocketServer
from plait.client.transports.framing import parse_message
from plait.client.transports.http_client import headers_of
from plait.client.transports.redirects import origin_of, shown_origin
from plait.client.transports.streams import BorrowedStream, MessageSource
from plait.client.transports.wire import HttpReply, Wire, current_exchange
from plait.errors import ConfigError, ConnectError

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


class _SocketWrite(BorrowedStream):
    """Sends each message as one frame."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        exchange = current_exchange()
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        if exchange is not None:
            exchange.written = True
        try:
            await self._socket.send(text)
        except ConnectionClosed as closed:
            if exchange is not None:
                exchange.written = False
            raise anyio.BrokenResourceError from closed


class _SocketRead(MessageSource):
    """Receives frames as messages."""

    def __init__(self, socket: ClientConnection, wire: Wire) -> None:
        self._socket = socket
        self._wire = wire
        self._messages: deque[JSONRPCMessage] = deque()

    async def __anext__(self) -> SessionMessage:
        while not self._messages:
            try:
                frame = await self._socket.recv()
            except ConnectionClosed:
                raise StopAsyncIteration from None
            framed = parse_message(frame)
            self._wire.noise_lines += framed.noise
            self._messages.extend(framed.messages)
        return SessionMessage(self._messages.popleft())


@asynccontextmanager
async def open_websocket(
    server: WebSocketServer, wire: Wire
) -> AsyncGenerator[tuple[_SocketRead, _SocketWrite]]:
    """Connect and yield the two streams.

    Raises:
        ConnectError: The server refuses the WebSocket.
    """
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
            max_size=None,
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
        raise ConnectError(
            f"{wire.server}: HTTP {response.status_code} instead of a WebSocket",
            server=wire.server,
            status=response.status_code,
        ) from refused
    except _OtherOriginError as refused:
        raise ConnectError(f"{wire.server}: {refused}", server=wire.server) from refused
    except InvalidHandshake as refused:
        raise ConnectError(
            f"{wire.server}: no WebSocket there: {wire.redact.excerpt(str(refused))}",
            server=wire.server,
        ) from refused
    try:
        async with socket:
            yield _SocketRead(socket, wire), _SocketWrite(socket)
    finally:
        # A cancelled closing handshake would leave the connection open.
        socket.transport.abort()
