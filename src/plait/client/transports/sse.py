"""The older HTTP+SSE transport: one event stream to receive, one POST per message to send."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import httpx2
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCError, JSONRPCRequest

from plait.client.config.servers import SseServer
from plait.client.protocol.exchange import Exchange, PendingRequest, as_current
from plait.client.protocol.large_json import LARGE_BYTES
from plait.client.transports.http_client import (
    open_http_client,
    origin_of,
    reply_from,
    shown_origin,
)
from plait.client.transports.http_events import EventParser, ServerEvent
from plait.client.transports.oversize import read_large, too_large
from plait.client.transports.streams import BorrowedStream, Framed, frames_of
from plait.client.transports.wire import Wire, receiving
from plait.errors import PlaitError

logger = logging.getLogger("plait.client.transports.sse")

Received = SessionMessage | Exception

_EVENT_STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


@dataclass(eq=False)
class _SseWrite(BorrowedStream):
    """Posts each message to the endpoint from the server's first event."""

    _client: httpx2.AsyncClient
    _endpoint: str
    _received: MemoryObjectSendStream[Received]

    async def send(self, item: SessionMessage, /) -> None:
        """Post one message; an error status becomes the response to the request."""
        body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        response = await self._client.post(self._endpoint, json=body)
        if not response.is_success and isinstance(item.message, JSONRPCRequest):
            refusal = ErrorData(code=CONNECTION_CLOSED, message=f"HTTP {response.status_code}")
            answer = JSONRPCError(jsonrpc="2.0", id=item.message.id, error=refusal)
            with contextlib.suppress(anyio.ClosedResourceError):
                self._received.send_nowait(SessionMessage(answer))


@dataclass(eq=False)
class _SseSender:
    """Posts requests of our own, each in a task."""

    any_thread = False
    _client: httpx2.AsyncClient
    _endpoint: str
    _wire: Wire
    is_direct: bool

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Post one request; the response comes with the events."""
        request.written = True  # the session may end before the task begins
        self._wire.start(self._post(body, request))

    async def deliver(self, body: bytes) -> None:
        """Post a notification or an answer."""
        with as_current(Exchange("response", None, "")):
            await self._posted(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        cancelled = Exchange("notifications/cancelled", None, request.version)
        self._wire.start(self._post(notification, cancelled))

    async def _post(self, body: bytes, exchange: Exchange) -> None:
        if exchange.request_id is not None and exchange.request_id not in self._wire.requests:
            return  # its caller waits no more
        with as_current(exchange):
            response = await self._posted(body)
        if not response.is_success and exchange.request_id is not None:
            error = {"code": CONNECTION_CLOSED, "message": f"HTTP {response.status_code}"}
            self._wire.take({"jsonrpc": "2.0", "id": exchange.request_id, "error": error})

    async def _posted(self, body: bytes) -> httpx2.Response:
        headers = {"Content-Type": "application/json"}
        return await self._client.post(self._endpoint, content=body, headers=headers)


@asynccontextmanager
async def link_sse(server: SseServer, wire: Wire) -> AsyncGenerator[None]:
    """Open the event stream, learn the endpoint, and receive messages during the block."""
    async with (
        open_http_client(server, wire) as client,
        client.stream("GET", server.url, headers=_EVENT_STREAM) as response,
    ):
        await _check_stream(response, wire)
        endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with receiving(partial(_receive, response, endpoint, wire, server), wire) as reading:
            await asyncio.wait({endpoint, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not endpoint.done():
                raise wire.connect_error("the event stream ended before it named an endpoint")
            is_direct = server.auth is None
            wire.use(_SseSender(client, endpoint.result(), wire, is_direct=is_direct))
            yield


async def _receive(
    response: httpx2.Response, endpoint: asyncio.Future[str], wire: Wire, server: SseServer
) -> None:
    """Handle every message until the stream ends; the first event names the endpoint."""
    try:
        async for event in _events_of(response, server.most_event_bytes):
            if event.kind == "endpoint" and not endpoint.done():
                _name_endpoint(endpoint, server, event, wire)
            elif event.kind == "message" and event.data and not _is_taken(event.data, wire):
                await wire.receive(event.data, server.incoming)
    except httpx2.SSEError:
        wire.end(too_large(server.most_event_bytes))
    except httpx2.TransportError as fault:
        logger.debug("%s: the event stream broke: %s", wire.server, wire.redact(str(fault)))
    wire.end("the event stream ended")


def _is_taken(data: bytes, wire: Wire) -> bool:
    return len(data) < LARGE_BYTES and wire.take_line(data)


def _name_endpoint(
    endpoint: asyncio.Future[str], server: SseServer, event: ServerEvent, wire: Wire
) -> None:
    try:
        endpoint.set_result(_endpoint(server.url, event.data.decode("utf-8", "replace"), wire))
    except PlaitError as error:
        endpoint.set_exception(error)


@asynccontextmanager
async def open_sse(
    server: SseServer, wire: Wire
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Received], _SseWrite]]:
    """Open the event stream, learn the endpoint, and yield the two streams."""
    send, receive = anyio.create_memory_object_stream[Received](math.inf)
    async with (
        send,
        receive,
        open_http_client(server, wire) as client,
        client.stream("GET", server.url, headers=_EVENT_STREAM) as response,
        anyio.create_task_group() as tasks,
    ):
        await _check_stream(response, wire)
        read = partial(_read_events, response, server.url, send, wire)
        endpoint: str = await tasks.start(read, server)
        try:
            wire.use(_SseSender(client, endpoint, wire, is_direct=server.auth is None))
            yield receive, _SseWrite(client, endpoint, send)
        finally:
            tasks.cancel_scope.cancel()


async def _check_stream(response: httpx2.Response, wire: Wire) -> None:
    if not response.is_success:
        wire.reply = await reply_from(response, wire)
        status = response.status_code
        raise wire.connect_error(f"HTTP {status} instead of an event stream", status=status)
    kind = wire.redact.excerpt(response.headers.get("content-type", "nothing"))
    if not kind.lower().startswith("text/event-stream"):
        raise wire.connect_error(f"the server sent {kind} instead of an event stream")


async def _read_events(
    response: httpx2.Response,
    url: str,
    received: MemoryObjectSendStream[Received],
    wire: Wire,
    server: SseServer,
    *,
    task_status: TaskStatus[str],
) -> None:
    """Pass on every message until the stream ends; the first event names the endpoint."""
    with received:
        try:
            async for event in _events_of(response, server.most_event_bytes):
                if event.kind == "endpoint":
                    task_status.started(_endpoint(url, event.data.decode("utf-8", "replace"), wire))
                elif event.kind == "message" and event.data:
                    framed = await _read_message(event.data, received, wire, server)
                    for message in framed.messages:
                        received.send_nowait(SessionMessage(message))
        except httpx2.SSEError:
            wire.end(too_large(server.most_event_bytes))
        except httpx2.TransportError as fault:
            logger.debug("%s: the event stream broke: %s", wire.server, wire.redact(str(fault)))
        wire.end("the event stream ended")


async def _events_of(
    response: httpx2.Response, most_bytes: int | None
) -> AsyncIterator[ServerEvent]:
    parser = EventParser(most_bytes)
    async for chunk in response.aiter_bytes():
        for event in parser.feed(chunk):
            yield event
    for event in parser.end():
        yield event


async def _read_message(
    data: bytes, received: MemoryObjectSendStream[Received], wire: Wire, server: SseServer
) -> Framed:
    """Take a response to a request of our own, or return the messages for the SDK."""

    def may_take() -> bool:
        # A response overtakes no message before it, such as progress of its call.
        return bool(received.statistics().tasks_waiting_receive)

    if len(data) >= LARGE_BYTES:
        framed = await read_large(wire, data, server.incoming, may_take=may_take)
    elif may_take() and wire.take_line(data):
        return Framed(())
    else:
        framed = frames_of(data)
    if framed.noise:
        wire.note_noise(data)
    return framed


def _endpoint(url: str, endpoint: str, wire: Wire) -> str:
    """Resolve the endpoint; another origin must not get our credentials."""
    here = httpx2.URL(url)
    try:
        there = here.join(endpoint)
    except (httpx2.InvalidURL, ValueError):
        raise wire.connect_error("the server names an endpoint that is no address") from None
    if origin_of(here) != origin_of(there):
        raise wire.connect_error(
            f"{shown_origin(here)} names an endpoint on another origin, {shown_origin(there)}, "
            "which gets none of the headers and credentials meant for it"
        )
    return str(there.copy_with(userinfo=here.userinfo))
