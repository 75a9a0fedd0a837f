"""The Streamable HTTP transport: posts messages, and keeps requests until they have an outcome.

Beside the responses to its requests, a session gets streams. One receives what the server sends by
itself. Others go on with responses that were cut after an event with an id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio
import h11
import httpx2
from cachetools import LRUCache

from plait._support import mcp_types as types
from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import PendingRequest, as_current, wake
from plait.client.protocol.headers import VERSION_HEADER
from plait.client.protocol.reading import RequestId
from plait.client.transports.client_pool import ClientPool
from plait.client.transports.http_bodies import events_of
from plait.client.transports.http_client import (
    SESSION_HEADER,
    fail_request,
    is_plain,
    open_http_client,
    trusted_certificates,
)
from plait.client.transports.http_pool import HttpExchange, HttpPool, head_of
from plait.client.transports.http_post import OF_ANOTHER, HttpPost
from plait.client.transports.wire import Wire, redacted_library_logs

logger = logging.getLogger("plait.client.transports")

MAX_HEADS: Final = 64
"""How many request heads are kept; they differ by tool and by mirrored arguments."""
MAX_STREAM_FAILURES: Final = 2
"""How often in a row a stream may fail before it is given up."""
_STREAM_SECONDS: Final = 0.25
"""How long the first requests wait for the stream of notifications to be answered."""
_DELIVERY_SECONDS: Final = 5.0
"""How long the response to a notification is waited for."""
_RETRY_MILLISECONDS: Final = 1000
"""When a stream is opened again, unless the server says when."""
_NO_STREAM: Final = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_OWN_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"accept-encoding"})
_ACCEPTED: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}


@asynccontextmanager
async def link_http(server: HttpServer, wire: Wire) -> AsyncGenerator[None]:
    """Send messages to a Streamable HTTP endpoint, and receive them, during the block.

    Requests to servers that need nothing special are posted without a generic HTTP client; see
    `is_plain`.
    """
    # Both ways to send share the TLS settings; reading the certificates takes a thread.
    own_client = server.http_client_factory is None and server.url.lower().startswith("https:")
    tls = await in_thread(trusted_certificates) if own_client else None
    with redacted_library_logs(wire):
        async with open_http_client(server, wire, tls=tls) as client:
            pool = None
            if is_plain(server):
                url = httpx2.URL(server.url)
                pool = HttpPool(
                    url.raw_host.decode("ascii").strip("[]"),
                    url.port or (443 if url.scheme == "https" else 80),
                    tls,
                    exchange_seconds=server.exchange_seconds,
                    read_seconds=server.stream_read_seconds,
                )
            sender = HttpSender(server, wire, client, pool)
            wire.read_session_id = lambda: sender.session_id
            wire.use(sender)
            try:
                yield
            finally:
                if server.terminate_on_close:
                    await sender.end_session()
                await wire.aclose()
                await sender.close()


class HttpSender:
    """Posts messages, and settles requests with their responses.

    Without a pool of its own it posts with the client, as for the rest of a session in which the
    server sets a cookie.
    """

    any_thread = False

    def __init__(
        self, server: HttpServer, wire: Wire, client: httpx2.AsyncClient, pool: HttpPool | None
    ) -> None:
        self.wire = wire
        self.client = client
        self.is_direct = pool is not None
        self.session_id: str | None = None
        """What the server has called the session, before protocol 2026-07-28."""
        self.max_event_size = server.most_event_bytes
        self.limits = server.incoming
        self.url = server.url
        self._plain_pool = pool
        self._client_pool = ClientPool(client)
        self._pool: HttpPool | ClientPool = pool or self._client_pool
        self._heads: LRUCache[object, tuple[bytes, httpx2.Request]] = LRUCache(MAX_HEADS)
        self._posts: dict[RequestId | None, HttpPost] = {}
        self._stream: asyncio.Task[None] | None = None
        """Receives what the server sends outside of responses."""
        self._held: list[HttpPost] | None = []
        """Requests that wait for that stream; `None` once it has been answered."""

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write one request, or let it wait for a connection.

        Raises:
            anyio.ClosedResourceError: The session is closed.
        """
        post = self._post_of(body, request, request.headers or {})
        if post is None:
            return
        self._posts[request.request_id] = post
        if self._held is None or self.session_id is None:
            self._submit(post)
        else:
            self._held.append(post)  # what it causes may need the stream

    def _post_of(
        self, body: bytes, request: PendingRequest, headers: Mapping[str, str]
    ) -> HttpPost | None:
        try:
            head, template = self._head(headers)
        except h11.LocalProtocolError as error:
            fault = httpx2.LocalProtocolError(str(error))
            self.conclude(request, partial(fail_request, request, self.wire, fault))
            return None
        return HttpPost(self, head, body, request, template)

    async def deliver(self, body: bytes) -> None:
        """Post a notification or an answer, and wait until the server has taken it.

        The first one ends the handshake; from then on the server may send by itself.
        """
        if self.session_id is not None and self._stream is None:
            self._stream = self.wire.start(self.listen())
            asyncio.get_running_loop().call_later(_STREAM_SECONDS, self.release)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        notice = PendingRequest("notification", None, "", wake=partial(wake, woken))
        post = self._post_of(body, notice, {})
        if post is None:
            return
        self._submit(post)
        try:
            async with asyncio.timeout(_DELIVERY_SECONDS):
                await woken
        except TimeoutError:
            if post.pool is not None:
                post.pool.abandon(post)
        if notice.fault is not None:
            reason = self.wire.redact(str(notice.fault))
            logger.debug("%s: a message was not delivered: %s", self.wire.server, reason)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Close the response of a request; before 2026 the server is notified instead."""
        post = self._posts.pop(request.request_id, None)
        if post is None:
            return
        if post.resuming is not None:
            post.resuming.cancel()
        post.ended = True
        if post.pool is None:
            return
        if request.version in types.version.MODERN_PROTOCOL_VERSIONS or not request.written:
            post.pool.drop(post)
            return
        post.pool.abandon(post)
        head, template = self._head({})
        with contextlib.suppress(anyio.ClosedResourceError):
            self._pool.submit(HttpExchange(head, notification, template, ended=True))

    def release(self) -> None:
        """Send the requests that waited for the stream of notifications."""
        held, self._held = self._held or (), None
        for post in held:
            if not post.ended:
                self._submit(post)

    def _submit(self, post: HttpPost) -> None:
        post.pool = self._pool
        self._pool.submit(post)

    def keep_cookies(self) -> None:
        """Post further requests with the client, which knows the cookies of the server."""
        self._pool, self.is_direct = self._client_pool, False

    async def end_session(self) -> None:
        """Tell the server that the session is over, if it has one."""
        if self.session_id is None or self.wire.ended:
            return
        try:
            await self.client.delete(self.url, headers={**_ACCEPTED, **self.session_headers()})
        except Exception as error:  # noqa: BLE001  # boundary: headers and auth of the user
            reason = self.wire.redact(f"{type(error).__name__}: {error}")
            logger.debug("%s: the session was not ended: %s", self.wire.server, reason)

    async def close(self) -> None:
        """Close the connections."""
        self._held = None
        try:
            # First: it closes the connections before it waits, which a cancelled task cannot.
            if self._plain_pool is not None:
                await self._plain_pool.close()
        finally:
            await self._client_pool.close()

    def conclude(self, request: PendingRequest, outcome: Callable[[], None]) -> None:
        """Give a request its outcome, and forget it."""
        self._posts.pop(request.request_id, None)
        self.wire.requests.pop(request.request_id, None)
        outcome()
        if self.wire.drained is not None:
            self.wire.check_drained()

    def resume(self, post: HttpPost, event_id: str, retry_milliseconds: int | None) -> None:
        """Continue a response stream that was cut after an event with an id."""
        resumption = self._resume(post, event_id, retry_milliseconds)
        post.resuming = self.wire.start(resumption, post.context)

    def session_headers(self) -> dict[str, str]:
        """Return the headers of every request after the handshake."""
        headers = {} if self.session_id is None else {SESSION_HEADER: self.session_id}
        template = self.wire.template
        if template is not None and template.protocol_header is not None:
            headers[VERSION_HEADER] = template.protocol_header
        return headers

    def _head(self, headers: Mapping[str, str]) -> tuple[bytes, httpx2.Request]:
        """Return the head of a request, and the same as a request of httpx2."""
        template = self.wire.template
        key = (*headers.items(), self.session_id, template and template.protocol_header)
        made = self._heads.get(key)
        if made is None:
            own = {**_ACCEPTED, **self.session_headers(), **headers}
            request = self.client.build_request("POST", self.url, headers=own)
            made = self._heads[key] = (_head_from(request), request)
        return made

    def follow(self, post: HttpPost, following: httpx2.Request) -> None:
        """Post a request again, where a redirect leads to."""
        post.head, post.template = _head_from(following), following
        self._submit(post)

    # The streams beside the responses

    async def listen(self) -> None:
        """Receive what the server sends by itself, and open the stream again when it ends."""
        wire, failures = self.wire, 0
        stream = _StreamPosition()
        while failures < MAX_STREAM_FAILURES:
            is_open = False
            try:
                async with self._stream_from(stream) as messages:
                    is_open = stream.has_worked = True
                    async for data in messages:
                        await wire.receive(data, self.limits)
                failures = 0
            except Exception as error:  # noqa: BLE001  # boundary: headers and auth of the user
                is_refusal = isinstance(error, httpx2.HTTPStatusError)
                if is_refusal and error.response.status_code in _NO_STREAM:
                    return
                # A server that has nothing to say for long has not failed.
                is_silent = is_open and isinstance(error, httpx2.ReadTimeout)
                failures = 0 if is_silent else failures + 1
                reason = wire.redact(f"{type(error).__name__}: {error}")
                logger.debug("%s: no stream of notifications: %s", wire.server, reason)
            finally:
                self.release()
            if failures < MAX_STREAM_FAILURES:
                await asyncio.sleep(stream.retry_seconds)
        if stream.has_worked:
            wire.lose_notifications()

    async def _resume(self, post: HttpPost, event_id: str, retry_milliseconds: int | None) -> None:
        """Get the rest of a response stream."""
        failures = 0
        stream = _StreamPosition(event_id)
        if retry_milliseconds is not None:
            stream.retry_seconds = retry_milliseconds / 1000
        while failures < MAX_STREAM_FAILURES:
            await asyncio.sleep(stream.retry_seconds)
            failures += 1
            try:
                with as_current(post.request):
                    async with self._stream_from(stream) as messages:
                        async for data in messages:
                            await post.take(data)
                            if post.is_settled:
                                return
                if post.request.has_stray:
                    post.lose(OF_ANOTHER)
                    return
                failures = 0
            except httpx2.SSEError as error:
                post.lose(f"SSE stream failed: {error}")
                return
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                logger.debug("%s: a stream could not be resumed: %r", self.wire.server, error)
            except Exception as error:  # noqa: BLE001  # boundary: headers and auth of the user
                reason = self.wire.redact(f"{type(error).__name__}: {error}")
                post.lose(f"SSE stream could not be resumed: {reason}")
                return
        post.lose("SSE stream ended and reconnection attempts were exhausted")

    @asynccontextmanager
    async def _stream_from(self, stream: _StreamPosition) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a stream after the last event of it, and yield its messages."""
        own = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        headers = httpx2.Headers({**own, **self.session_headers()}).raw
        if stream.event_id:
            # https://html.spec.whatwg.org/multipage/server-sent-events.html: it is sent as UTF-8.
            headers = [*headers, (b"Last-Event-ID", stream.event_id.encode())]
        async with self.client.stream("GET", self.url, headers=headers) as response:
            self.release()
            response.raise_for_status()
            kind = response.headers.get("content-type", "").lower()
            if not kind.startswith("text/event-stream"):
                raise httpx2.StreamError(f"the server sent {kind or 'nothing'} in place of events")

            async def messages() -> AsyncIterator[bytes]:
                async for event in events_of(response.aiter_bytes(), self.max_event_size):
                    stream.event_id = event.event_id or stream.event_id
                    if event.retry_milliseconds is not None:
                        stream.retry_seconds = event.retry_milliseconds / 1000
                    if event.kind == "message" and event.data:
                        yield event.data

            yield messages()


@dataclass(slots=True)
class _StreamPosition:
    """Where a stream goes on when it is opened again, and when."""

    event_id: str = ""
    retry_seconds: float = field(default_factory=lambda: _RETRY_MILLISECONDS / 1000)
    has_worked: bool = False


def _head_from(request: httpx2.Request) -> bytes:
    fields = [field for field in request.headers.raw if field[0].lower() not in _OWN_FIELDS]
    return head_of(request.url.raw_path, [*fields, (b"Accept-Encoding", b"identity")])
