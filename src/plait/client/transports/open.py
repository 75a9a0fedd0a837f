"""Opens the transport of a server, with a tap that records exchanges and repairs results."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, assert_never

from anyio.abc import AsyncResource
from mcp.client._transport import TransportStreams
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic_core import to_json

from plait._support.causes import without_secrets
from plait._support.threads import import_once
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ServerConfig,
    SseServer,
    StdioServer,
    WebSocketServer,
)
from plait.client.protocol.exchange import Exchange, sending
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.protocol.repair import repair_result
from plait.client.protocol.requests import HANDSHAKE_VERSION
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.wire import Wire
from plait.client.transports.wire_log import logged_streams

logger = logging.getLogger("plait.client.transports")

_UNDISPATCHED = frozenset({"notifications/cancelled", "notifications/roots/list_changed"})
"""Notifications that the SDK handles by itself, or does not expect from a server."""

_MOST_REQUESTS = 256
_MOST_REQUEST_BYTES = 32_000_000
"""How many requests, and how much of them, a server may send before it reads the answers."""
_LARGEST_FLOAT = int(sys.float_info.max)
_SLICE = 20
"""So many messages are handled before other tasks have their turn."""

StreamT = TypeVar("StreamT", bound="ReadStream[Any] | WriteStream[Any]")


@asynccontextmanager
async def open_transport(server: ServerConfig, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Connect to a server; exchanges are noted on the wire, and results are repaired."""
    wire.tapped = True
    streams = _streams_of(server, wire)
    if wire.tape is not None:
        from plait.client.transports.replay import open_taped  # noqa: PLC0415  # rarely used

        streams = open_taped(wire.tape, wire, streams)
    with redacted_library_logs(wire):
        async with streams as (read, write):
            logged_read, logged_write = logged_streams(read, write, wire)
            yield TappedRead(logged_read, wire), TappedWrite(logged_write, wire)


def _streams_of(server: ServerConfig, wire: Wire) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Import only the libraries of this transport, which are slow to import."""
    match server:
        case StdioServer():
            from plait.client.transports.stdio import open_stdio  # noqa: PLC0415

            return open_stdio(server, wire)
        case HttpServer():
            from plait.client.transports.http import open_http  # noqa: PLC0415

            return open_http(server, wire)
        case SseServer():
            from plait.client.transports.sse import open_sse  # noqa: PLC0415

            return open_sse(server, wire)
        case WebSocketServer():
            from plait.client.transports.websocket import open_websocket  # noqa: PLC0415

            return open_websocket(server, wire)
        case InProcessServer():
            import_once("mcp.client._memory")
            from mcp.client._memory import InMemoryTransport  # noqa: PLC0415

            return InMemoryTransport(server.server)
        case _:
            assert_never(server)


class _Tapped(AsyncResource, Generic[StreamT]):
    """One of a session's two streams, with a tap."""

    def __init__(self, inner: StreamT, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    async def aclose(self) -> None:
        await self._inner.aclose()


class TappedWrite(_Tapped["WriteStream[SessionMessage]"]):
    """The sending stream: records each message before it is sent."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message, in a context with its exchange."""
        exchange = _exchange_of(item)
        if exchange.request_id is not None:
            self._wire.pending[exchange.request_id] = exchange
        elif (cancelled := _cancelled_id(item)) is not None:
            self._wire.pending.pop(cancelled, None)
        with sending(exchange):
            await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._wire.sdk_requests.pop(item.message.id or "", None)


class TappedRead(_Tapped["ReadStream[SessionMessage | Exception]"]):
    """The receiving stream: repairs each result, and reports the end of the stream."""

    _handled = 0

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context the last item was sent in, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next item."""
        return await self.__anext__()

    def __aiter__(self) -> TappedRead:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._inner.__anext__()
            except StopAsyncIteration:
                if self._wire.before_end is not None:
                    await self._wire.before_end()
                self._wire.end("the server closed the connection")
                raise
            self._wire.last_received = time.monotonic()
            self._handled += 1
            if self._handled % _SLICE == 0:
                await asyncio.sleep(0)
            if not isinstance(item, SessionMessage):
                return item
            if _has_impossible_progress(item):
                continue  # an error here, or in the SDK, would end the session
            if not self._may_be_open(item):
                self._wire.end("the server sends requests without reading the answers")
                raise StopAsyncIteration
            if not self._is_taken(item):
                self._settle(item)
                self._dispatch_notification(item)
                return item

    def _may_be_open(self, item: SessionMessage) -> bool:
        """Count a request of the server; return whether it may have so many without an answer."""
        message, requests = item.message, self._wire.sdk_requests
        if (cancelled := _cancelled_id(item)) is not None:
            requests.pop(cancelled, None)
        if not isinstance(message, JSONRPCRequest):
            return True
        try:
            requests[message.id] = len(to_json([message.id, message.params]))
        except ValueError:  # halves of surrogate pairs
            requests[message.id] = _MOST_REQUEST_BYTES // _MOST_REQUESTS
        total = sum(requests.values())
        return len(requests) <= _MOST_REQUESTS and total <= _MOST_REQUEST_BYTES

    def _is_taken(self, item: SessionMessage) -> bool:
        """Return whether a message answers a request of our own, which the SDK does not know."""
        message = item.message
        if not self._wire.requests:
            return False
        if isinstance(message, JSONRPCNotification):
            if message.method == "notifications/progress":
                self._wire.progress(message.params or {})
            return False
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return False
        return self._wire.take(message.model_dump(by_alias=True, exclude_unset=True))

    def _dispatch_notification(self, item: SessionMessage) -> None:
        message = item.message
        callback = self._wire.on_notification
        if callback is None or not isinstance(message, JSONRPCNotification):
            return
        # A modern server also cancels the subscription stream that this client has opened.
        cancelled = self._wire.pending.get(_cancelled_id(item) or "")
        ours = cancelled is not None and cancelled.method == "subscriptions/listen"
        if message.method in _UNDISPATCHED and not ours:
            callback(message.method, message.params)

    def _settle(self, item: SessionMessage) -> None:
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        exchange = self._wire.pending.pop(coerced_id(message.id) or "", None)
        if exchange is None:
            return
        # An error after the response stream has ended comes from the SDK, not the server.
        exchange.answered = isinstance(message, JSONRPCResponse) or not exchange.stream_ended
        if isinstance(message, JSONRPCResponse):
            try:
                repaired = repair_result(exchange.method, message.result, exchange.version)
            except Exception as error:  # boundary: no result, however odd, may end the session
                safe = without_secrets(error, self._wire.redact)
                logger.error("%s: a result could not be repaired", self._wire.server, exc_info=safe)
                return
            message.result = repaired.result
            exchange.notes = repaired.notes
            self._wire.note_repairs(exchange)


def _exchange_of(item: SessionMessage) -> Exchange:
    message = item.message
    if isinstance(message, JSONRPCRequest):
        return Exchange(message.method, message.id, _version_of(message.params))
    method = message.method if isinstance(message, JSONRPCNotification) else "response"
    return Exchange(method, None, HANDSHAKE_VERSION)


def _version_of(params: dict[str, Any] | None) -> str:
    meta = (params or {}).get("_meta")
    version = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return version if isinstance(version, str) else HANDSHAKE_VERSION


def _cancelled_id(item: SessionMessage) -> RequestId | None:
    message = item.message
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        request_id = (message.params or {}).get("requestId")
        return request_id if isinstance(request_id, str | int) else None
    return None


def _has_impossible_progress(item: SessionMessage) -> bool:
    """Return whether a message reports progress in a number that is too large for a float."""
    message = item.message
    if not isinstance(message, JSONRPCNotification) or message.method != "notifications/progress":
        return False
    numbers = map((message.params or {}).get, ("progress", "total"))
    return any(isinstance(number, int) and abs(number) > _LARGEST_FLOAT for number in numbers)
