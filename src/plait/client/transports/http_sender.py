"""Posts requests to a Streamable HTTP endpoint, and keeps them until they have their outcome."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import anyio
import h11
import httpx2
from cachetools import LRUCache
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.reading import RequestId
from plait.client.transports.client_pool import ClientPool
from plait.client.transports.http_client import (
    SESSION_HEADER,
    VERSION_HEADER,
    HttpSession,
    fail_request,
)
from plait.client.transports.http_pool import HttpExchange, Pool, head_of
from plait.client.transports.http_post import HttpPost
from plait.client.transports.http_resume import resume_stream
from plait.client.transports.streams import MergedRead, start_task
from plait.client.transports.wire import Wire

_HEADS: Final = 64
"""How many request heads are kept; they differ by tool and by mirrored arguments."""

_STREAM_SECONDS: Final = 0.25
"""How long the first requests wait for the stream of notifications to be answered."""

_OWN_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"accept-encoding"})


class HttpSender:
    """Posts requests, and settles them with their responses.

    Without a pool of its own it posts with the client, as for the rest of a session in which the
    server sets a cookie.
    """

    any_thread = False

    def __init__(
        self,
        server: HttpServer,
        wire: Wire,
        client: httpx2.AsyncClient,
        session: HttpSession,
        pool: Pool | None,
        received: MergedRead,
    ) -> None:
        self.wire = wire
        self.client = client
        self.is_direct = pool is not None
        self._plain_pool = pool
        self._client_pool = ClientPool(client)
        self._pool = pool or self._client_pool
        self.received = received
        self.longest_body_bytes = server.incoming.message_bytes
        self.max_event_size = server.most_event_bytes
        self.limits = server.incoming
        self.url = server.url
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
            self._submit(post)
        else:
            self._hold(post)

    async def deliver(self, body: bytes) -> None:
        """Leave notifications and answers to the SDK."""
        raise NotImplementedError

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
        if request.version in MODERN_PROTOCOL_VERSIONS or not request.written:
            post.pool.drop(post)
            return
        post.pool.abandon(post)
        version = (request.headers or {}).get(VERSION_HEADER)
        head, template = self._head({} if version is None else {VERSION_HEADER: version})
        notice = HttpExchange(head, notification, template, ended=True)
        with contextlib.suppress(anyio.ClosedResourceError):
            self._pool.submit(notice)

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
                self._submit(post)

    def _submit(self, post: HttpPost) -> None:
        post.pool = self._pool
        self._pool.submit(post)

    def keep_cookies(self) -> None:
        """Post further requests with the client, which knows the cookies of the server."""
        self._pool, self.is_direct = self._client_pool, False

    async def close(self) -> None:
        """Close the connections."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        try:
            # First: it closes the connections before it waits, which a cancelled task cannot.
            if self._plain_pool is not None:
                await self._plain_pool.close()
        finally:
            await self._client_pool.close()
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
        headers = {**_ACCEPTED, **self._session_headers()}
        resumption = resume_stream(self, post, headers, event_id, retry_milliseconds)
        post.resuming = self.start(resumption, post.context)

    def start(
        self, work: Coroutine[Any, Any, None], context: contextvars.Context
    ) -> asyncio.Task[None]:
        """Start a task that ends with the session."""
        return start_task(work, self._tasks, context.copy())

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
            request = self.client.build_request("POST", self.url, headers=own)
            made = self._heads[key] = (_head_from(request), request)
        return made

    def follow(self, post: HttpPost, following: httpx2.Request) -> None:
        """Post a request again, where a redirect leads to."""
        post.head, post.template = _head_from(following), following
        self._submit(post)


_ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def _head_from(request: httpx2.Request) -> bytes:
    fields = [field for field in request.headers.raw if field[0].lower() not in _OWN_FIELDS]
    return head_of(request.url.raw_path, [*fields, (b"Accept-Encoding", b"identity")])
