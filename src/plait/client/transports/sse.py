"""The older HTTP+SSE transport: one event stream to receive, one POST per message to send."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx2

from plait._support import mcp_types as types
from plait.client.config.servers import SseServer
from plait.client.protocol.exchange import PendingRequest, as_current
from plait.client.protocol.peer import RequestError
from plait.client.protocol.reading import RequestId, too_large
from plait.client.transports.http_bodies import events_of
from plait.client.transports.http_client import (
    fail_request,
    open_http_client,
    origin_of,
    reply_from,
    shown_origin,
)
from plait.client.transports.wire import Wire, receiving
from plait.errors import PlaitError

logger = logging.getLogger("plait.client.transports.sse")

_DELIVERY_SECONDS = 5.0
"""How long the response to a notification is waited for."""
_EVENT_STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


@dataclass(eq=False)
class _SseSender:
    """Posts requests of our own, each in a task."""

    any_thread = False
    _client: httpx2.AsyncClient
    _endpoint: str
    _wire: Wire
    is_direct: bool
    _posting: dict[RequestId | None, asyncio.Task[None]] = field(
        default_factory=dict["RequestId | None", asyncio.Task[None]]
    )
    """The requests that the server has not accepted yet."""

    def send(self, body: bytes, request: PendingRequest) -> None:
        request.written = True  # the session may end before the task begins
        posting = self._posting[request.request_id] = self._wire.start(self._post(body, request))
        posting.add_done_callback(lambda _: self._posting.pop(request.request_id, None))

    async def deliver(self, body: bytes) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DELIVERY_SECONDS):
                await self._post(body, PendingRequest("notification", None, ""))

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        self._wire.start(self._cancel(self._posting.get(request.request_id), notification))

    async def _cancel(self, posting: asyncio.Task[None] | None, notification: bytes) -> None:
        if posting is not None:
            await asyncio.wait({posting})  # a server does not know a request that it has not got
        await self._post(notification, PendingRequest("notifications/cancelled", None, ""))

    async def _post(self, body: bytes, request: PendingRequest) -> None:
        """Post a message; a refusal or a fault is the outcome of a request."""
        is_request = request.request_id is not None
        if is_request and request.request_id not in self._wire.requests:
            return  # its caller waits no more
        headers = {"Content-Type": "application/json"}
        try:
            with as_current(request):
                response = await self._client.post(self._endpoint, content=body, headers=headers)
                if response.is_success:
                    return
                request.reply = self._wire.reply = await reply_from(response, self._wire)
        except Exception as fault:  # noqa: BLE001  # boundary: headers and auth of the user
            outcome = partial(fail_request, request, self._wire, fault)
        else:
            refusal = RequestError(types.CONNECTION_CLOSED, f"HTTP {response.status_code}")
            request.answered = True
            outcome = partial(request.fail, refusal)
        self._wire.requests.pop(request.request_id, None)
        outcome()
        self._wire.check_drained()


@asynccontextmanager
async def link_sse(server: SseServer, wire: Wire) -> AsyncGenerator[None]:
    """Open the event stream, learn the endpoint, and receive messages during the block."""
    async with (
        open_http_client(server, wire) as client,
        client.stream("GET", server.url, headers=_EVENT_STREAM) as response,
    ):
        if not response.is_success:
            wire.reply = await reply_from(response, wire)
            status = response.status_code
            raise wire.connect_error(f"HTTP {status} instead of an event stream", status=status)
        kind = wire.redact.excerpt(response.headers.get("content-type", "nothing"))
        if not kind.lower().startswith("text/event-stream"):
            raise wire.connect_error(f"the server sent {kind} instead of an event stream")
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
        async for event in events_of(response.aiter_bytes(), server.most_event_bytes):
            data = event.data
            if event.kind == "endpoint" and not endpoint.done():
                try:
                    named = data.decode("utf-8", "replace")
                    endpoint.set_result(_endpoint(server.url, named, wire))
                except PlaitError as error:
                    endpoint.set_exception(error)
            elif event.kind == "message" and data and not wire.take_line(data):
                await wire.receive(data, server.incoming)
    except httpx2.SSEError:
        wire.end(too_large(server.most_event_bytes))
    except httpx2.TransportError as fault:
        logger.debug("%s: the event stream broke: %s", wire.server, wire.redact(str(fault)))
    wire.end("the event stream ended")


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
