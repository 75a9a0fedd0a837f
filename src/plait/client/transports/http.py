"""The Streamable HTTP transport: the SDK's, with our own sender beside it in the plain case.

The sender posts requests without a generic HTTP client, for servers that need none; see `is_plain`.
The SDK keeps the handshake, the stream of notifications, and the responses to the server's
requests, on httpx2.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import h11
import httpx2
from cachetools import LRUCache
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import (
    DEFAULT_RECONNECTION_DELAY_MS,
    MAX_RECONNECTION_ATTEMPTS,
    streamable_http_client,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.transports.http_client import (
    SESSION_HEADER,
    VERSION_HEADER,
    HttpSession,
    fail_request,
    is_plain,
    open_http_client,
    trusted_certificates,
)
from plait.client.transports.http_pool import HttpExchange, HttpPool, head_of
from plait.client.transports.http_post import HttpPost
from plait.client.transports.lean import is_lean
from plait.client.transports.streams import MergedRead, start_task
from plait.client.transports.wire import (
    PendingRequest,
    RequestId,
    Wire,
)

logger = logging.getLogger("plait.client.transports")

_HEADS: Final = 64
"""How many request heads are kept; they differ by tool and by mirrored arguments."""

_STREAM_SECONDS: Final = 0.25
"""How long the first requests wait for the stream of notifications to be answered."""

_OWN_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"accept-encoding"})


@asynccontextmanager
async def open_http(server: HttpServer, wire: Wire) -> AsyncGenerator[TransportStreams]:
    """Yield the two streams of a Streamable HTTP endpoint; nothing is sent yet."""
    session = HttpSession()
    wire.read_session_id = lambda: session.session_id
    # Both ways to send share the TLS settings; reading the certificates takes a thread.
    own_client = server.http_client_factory is None and server.url.lower().startswith("https:")
    tls = await in_thread(trusted_certificates) if own_client else None
    async with (
        open_http_client(server, wire, observe=session.observe, tls=tls) as client,
        streamable_http_client(
            server.url,
            http_client=client,
            terminate_on_close=server.terminate_on_close,
            max_sse_event_size=server.most_event_bytes,
        ) as (read, write),
    ):
        if not is_lean() or not is_plain(server, client):
            yield read, write
            return
        merged = MergedRead(read)
        async with (
            anyio.create_task_group() as tasks,
            open_sender(server, wire, client, session, tls, merged),
        ):
            tasks.start_soon(merged.pump)
            yield merged, write
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_sender(
    server: HttpServer,
    wire: Wire,
    client: httpx2.AsyncClient,
    session: HttpSession,
    tls: ssl.SSLContext | None,
    received: MergedRead,
) -> AsyncGenerator[None]:
    """Send the requests of a wire without httpx2 during the block, until the server sets a cookie.

    What else arrives in their responses is added to `received`.
    """
    url = httpx2.URL(server.url)
    pool = HttpPool(
        url.raw_host.decode("ascii").strip("[]"),
        url.port or (443 if url.scheme == "https" else 80),
        tls,
        exchange_seconds=server.exchange_seconds,
        read_seconds=server.stream_read_seconds,
    )
    sender = HttpSender(server, wire, client, session, pool, received)
    session.on_cookie, session.on_stream = sender.retire, sender.release
    wire.use(sender)
    try:
        yield
    finally:
        wire.sender = None
        await sender.close()


class HttpSender:
    """Posts requests, and settles them with their responses."""

    any_thread = False

    def __init__(
        self,
        server: HttpServer,
        wire: Wire,
        client: httpx2.AsyncClient,
        session: HttpSession,
        pool: HttpPool,
        received: MergedRead,
    ) -> None:
        self.wire = wire
        self.client = client
        self.pool = pool
        self.received = received
        self.longest_body_bytes = server.incoming.message_bytes
        self.max_event_size = server.most_event_bytes
        self.limits = server.incoming
        self._url = server.url
        self._session = session
        self._heads: LRUCache[object, tuple[bytes, httpx2.Request]] = LRUCache(_HEADS)
        self._posts: dict[RequestId | None, HttpPost] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[HttpPost] = []
        self._timer: asyncio.TimerHandle | None = None

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write one request, or let it wait for a connection.

        Raises:
            anyio.ClosedResourceError: The session is closed.
        """
        try:
            head, template = self._head(request.headers or {})
        except h11.LocalProtocolError as error:
            fault = httpx2.LocalProtocolError(str(error))
            self.conclude(request, partial(fail_request, request, self.wire, fault))
            return
        post = HttpPost(self, head, body, request, template)
        self._posts[request.request_id] = post
        if self._session.session_id is None or self._session.has_stream:
            self.pool.submit(post)
        else:
            self._hold(post)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Close the response of a request; before 2026 the server is notified instead."""
        post = self._posts.pop(request.request_id, None)
        if post is None:
            return
        if post.resuming is not None:
            post.resuming.cancel()
        if request.version in MODERN_PROTOCOL_VERSIONS or not post.was_written:
            self.pool.drop(post)
        else:
            # The connection is closed soon, in case that the server never ends the response.
            post.ended = True
        if request.version not in MODERN_PROTOCOL_VERSIONS and post.was_written:
            version = (request.headers or {}).get(VERSION_HEADER)
            head, _ = self._head({} if version is None else {VERSION_HEADER: version})
            with contextlib.suppress(anyio.ClosedResourceError):
                self.pool.submit(HttpExchange(head, notification, ended=True))

    def _hold(self, post: HttpPost) -> None:
        """Let a request wait for the stream of notifications, which those it causes may need."""
        self._held.append(post)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_STREAM_SECONDS, self.release)

    def release(self) -> None:
        """Send the requests that waited for the stream of notifications."""
        self._session.has_stream = True
        held, self._held = self._held, []
        for post in held:
            if not post.ended:
                self.pool.submit(post)

    def retire(self) -> None:
        """Leave further requests to httpx2, which keeps the cookies of the server."""
        self.wire.retire(self)

    async def close(self) -> None:
        """Close the connections."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        # First: it closes the connections before it waits, which a cancelled task cannot.
        await self.pool.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def conclude(self, request: PendingRequest, outcome: Callable[[], None]) -> None:
        """Give a request its outcome, and forget it."""
        self._posts.pop(request.request_id, None)
        self.wire.requests.pop(request.request_id, None)
        outcome()
        if self.wire.drained is not None:
            self.wire.check_drained()

    def resume(self, post: HttpPost, event_id: str, retry_milliseconds: int | None) -> None:
        """Continue a response stream that was cut after an event with an id."""
        resumption = self._resumed(post, event_id, retry_milliseconds)
        post.resuming = self.start(resumption, post.context)

    def start(
        self, work: Coroutine[Any, Any, None], context: contextvars.Context
    ) -> asyncio.Task[None]:
        """Start a task that ends with the session."""
        return start_task(work, self._tasks, context.copy())

    async def _resumed(self, post: HttpPost, event_id: str, retry: int | None) -> None:
        """Get the rest of a stream, as the SDK does."""
        failures = 0
        while failures < MAX_RECONNECTION_ATTEMPTS:
            await asyncio.sleep((DEFAULT_RECONNECTION_DELAY_MS if retry is None else retry) / 1000)
            headers = {**_EVENT_STREAM, **self._session_headers(), "last-event-id": event_id}
            is_stream = False
            try:
                async with self.client.stream("GET", self._url, headers=headers) as response:
                    response.raise_for_status()
                    kind = response.headers.get("content-type", "").partition(";")[0]
                    is_stream = kind.strip().lower() == "text/event-stream"
                    source = httpx2.EventSource(response, max_event_size=self.max_event_size)
                    async for event in source:
                        event_id = event.id or event_id
                        retry = retry if event.retry is None else event.retry
                        if event.event == "message" and event.data:
                            await post.take(event.data.encode())
                        if post.is_settled:
                            return
                failures = 0
            except httpx2.SSEError as error:
                if is_stream:
                    post.lose(f"SSE stream failed: {error}")
                    return
                failures += 1
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                logger.debug("%s: a stream could not be resumed: %r", self.wire.server, error)
                failures += 1
        post.lose("SSE stream ended and reconnection attempts were exhausted")

    def _session_headers(self) -> dict[str, str]:
        session = self._session
        headers = {} if session.session_id is None else {SESSION_HEADER: session.session_id}
        return headers if session.version is None else {**headers, VERSION_HEADER: session.version}

    def _head(self, headers: Mapping[str, str]) -> tuple[bytes, httpx2.Request]:
        """Return the head of a request, and the same as a request of httpx2."""
        key = (*headers.items(), self._session.session_id, self._session.version)
        made = self._heads.get(key)
        if made is None:
            own = {**_ACCEPTED, **self._session_headers(), **headers}
            request = self.client.build_request("POST", self._url, headers=own)
            made = self._heads[key] = (_head_from(request), request)
        return made

    def follow(self, post: HttpPost, following: httpx2.Request) -> None:
        """Post a request again, where a redirect leads to."""
        post.head, post.template = _head_from(following), following
        self.pool.submit(post)


_ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_EVENT_STREAM = {**_ACCEPTED, "Cache-Control": "no-store"}


def _head_from(request: httpx2.Request) -> bytes:
    fields = [field for field in request.headers.raw if field[0].lower() not in _OWN_FIELDS]
    return head_of(request.url.raw_path, [*fields, (b"Accept-Encoding", b"identity")])
