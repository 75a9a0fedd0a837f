"""The Streamable HTTP transport: posts messages, and keeps requests until they have an outcome.

Beside the responses to its requests, a session gets streams. One receives what the server sends by
itself. Others go on with responses that were cut after an event with an id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
import h11
import httpx2
from cachetools import LRUCache
from typing_extensions import override

from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.threads import in_thread
from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import PendingRequest, as_current, current_exchange, wake
from plait.client.protocol.framing import is_answer
from plait.client.protocol.headers import VERSION_HEADER
from plait.client.protocol.peer import (
    HANDSHAKES,
    RequestError,
    answer_of,
)
from plait.client.protocol.reading import (
    LARGE_BYTES,
    NO_JSON_RPC,
    LimitError,
    Message,
    RequestId,
    read,
    too_large,
    too_large_handshake,
)
from plait.client.transports.http_bodies import BodyDecoder, EventParser, ServerEvent, events_of
from plait.client.transports.http_client import (
    MAX_REDIRECTS,
    MAX_REFUSAL_BYTES,
    SESSION_HEADER,
    TooLargeError,
    fail_request,
    is_json,
    is_plain,
    open_http_client,
    redirected,
    refused_redirect,
    reply_of,
    trusted_certificates,
)
from plait.client.transports.http_pool import ClientPool, Fields, HttpExchange, HttpPool, head_of
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
            wire.on_notifications_lost()

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


OF_ANOTHER = "it belongs to another request"
"""Why the only response of an exchange is not taken."""


class HttpPost(HttpExchange):
    """A request, notification or answer, and what its response means.

    What has no `request_id` gets no answer: any success is one.
    """

    def __init__(
        self,
        sender: HttpSender,
        head: bytes,
        body: bytes,
        request: PendingRequest,
        template: httpx2.Request,
    ) -> None:
        super().__init__(head, body, template)
        self.request = request
        self.context.run(current_exchange.set, request)
        self.pool: HttpPool | ClientPool | None = None
        """Where it was submitted to."""
        self.resuming: asyncio.Task[None] | None = None
        self.is_settled = False
        """Whether the request has its outcome; a stream may have `ended` before, and be resumed."""
        self._sender = sender
        self._redirects = 0
        self._status = 0
        self._headers: Fields = []
        self._chunks: list[bytes] = []
        self._received_bytes = 0
        self._decoder: BodyDecoder | None = None
        self._events: EventParser | None = None
        self._event_id = ""
        self._retry: int | None = None
        self._is_reading = False
        """Whether a message is handled, or data decompressed; what arrives after it waits."""
        self._waiting: deque[Callable[[], None]] = deque()

    @override
    def on_write(self) -> None:
        self.request.written = True

    @override
    def on_response(self, status: int, headers: Fields) -> None:
        self._status, self._headers = status, headers
        content_type, encoding, session_id = b"", b"", b""
        for name, value in headers:
            if name == b"content-type":
                content_type = value.lower()
            elif name == b"content-encoding":
                encoding = value.lower()
            elif name == b"mcp-session-id":
                session_id = value
            elif name == b"set-cookie":
                self._sender.client.cookies.extract_cookies(self._as_response())
                self._sender.keep_cookies()
        if encoding not in {b"", b"identity"}:
            if encoding not in {b"gzip", b"x-gzip", b"deflate"}:
                text = f"the response has the encoding {encoding.decode('latin-1')!r}"
                self._spoil(httpx2.DecodingError(f"{text}, not requested"))
                return
            self._decoder = BodyDecoder()
        is_opening = self.request.method == "initialize"
        if not 200 <= status < 300:
            pass  # its body explains it
        elif self.request.request_id is None:
            self._end(partial(self.request.settle, {}))
        elif status == HTTPStatus.ACCEPTED:
            self._misread("the server answered a request with 202 Accepted")
        elif is_opening and not session_id.isascii():
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
            # It has only visible ASCII characters; others cannot be sent in a header.
            self._misread("the server gave a session id that is not ASCII")
        elif not content_type.startswith((b"text/event-stream", b"application/json")):
            self._misread(f"unexpected content type: {content_type.decode('latin-1')}")
        else:
            if session_id and is_opening:
                self._sender.session_id = session_id.decode("ascii")
            if content_type.startswith(b"text/event-stream"):
                self._events = EventParser(self._sender.max_event_size)

    @override
    def on_data(self, data: bytes) -> None:
        if self._decoder is None:
            self._take_data(data)
        else:
            self._in_order(partial(self._decode_data, self._decoder, data))

    def _decode_data(self, decoder: BodyDecoder, data: bytes) -> None:
        """Decompress a piece; what is left of the data waits for another turn of the loop."""
        try:
            piece, rest = decoder.decode(data)
        except httpx2.DecodingError as error:
            self._spoil(error)
            return
        # The rest comes after the events of the piece, and before what arrived after the data.
        later, self._waiting = self._waiting, deque()
        self._take_data(piece)
        if rest and not self.ended and decoder is self._decoder:
            self._waiting.append(partial(self._decode_data, decoder, rest))
            if not self._is_reading:
                self._let_wait_for(partial(asyncio.sleep, 0))
        self._waiting += later

    def _take_data(self, data: bytes) -> None:
        if self._events is not None:
            self._take_events(self._events.feed(data))
            return
        self._chunks.append(data)
        self._received_bytes += len(data)
        is_refusal = self._status >= 300
        if self._received_bytes > (MAX_REFUSAL_BYTES if is_refusal else self._max_bytes):
            self._abort()
            if is_refusal:
                self._take_status(b"".join(self._chunks))  # it is used as far as it came
            else:
                self._chunks.clear()
                self._misread(self._refusal)

    @property
    def _max_bytes(self) -> int:
        most = self._sender.limits.message_bytes
        return min(LARGE_BYTES, most) if self.request.method in HANDSHAKES else most

    @property
    def _refusal(self) -> str:
        """Why a response of more bytes than that is not read."""
        most = self._sender.limits.message_bytes
        is_usual = self._max_bytes == most
        return too_large(most) if is_usual else too_large_handshake(self.request.method)

    def _abort(self) -> None:
        if self.connection is not None:
            self.connection.abort()
            self.connection = None

    @override
    def on_end(self) -> None:
        self._in_order(self._take_end)

    def _take_end(self) -> None:
        if self._decoder is not None:
            try:
                self._decoder.end()
            except httpx2.DecodingError as error:
                self._take_fault(error)
                return
        if self._events is not None:
            self._take_events(self._events.end())
            self._in_order(self._stream_ended)
            return
        body, self._chunks = b"".join(self._chunks), []  # freed, for what the body is parsed to
        if not 200 <= self._status < 300:
            self._take_status(body)
        else:
            self._take_message(body)
            self._in_order(partial(self._misread, OF_ANOTHER))

    @override
    def on_fault(self, fault: Exception) -> None:
        self._in_order(partial(self._take_fault, fault))

    def _take_fault(self, fault: Exception) -> None:
        if self._events is not None:
            self._in_order(self._stream_ended)
        elif self._status >= 300:
            self._take_status(b"")  # the status is known, even if the body is lost
        elif isinstance(fault, TooLargeError):
            self._misread(self._refusal)
        else:
            self._end(partial(fail_request, self.request, self._sender.wire, fault))

    def _spoil(self, fault: httpx2.RequestError) -> None:
        """Stop reading a response that cannot be used."""
        self._abort()
        self.on_fault(fault)

    def _take_events(self, events: Iterator[ServerEvent]) -> None:
        try:
            for event in events:
                self._in_order(partial(self._take_event, event))
        except httpx2.SSEError as error:
            self._in_order(partial(self.lose, f"SSE stream failed: {error}"))

    def _in_order(self, action: Callable[[], None]) -> None:
        """Do something after everything that arrived before it, unless the response has ended."""
        if self._is_reading:
            self._waiting.append(action)
        elif not self.ended:
            action()

    def _take_event(self, event: ServerEvent) -> None:
        self._event_id = event.event_id or self._event_id
        if event.retry_milliseconds is not None:
            self._retry = event.retry_milliseconds
        if event.kind == "message" and event.data:
            self._take_message(event.data)

    def _let_wait_for(self, work: Callable[[], Awaitable[None]]) -> None:
        """Receive nothing more of the response until some work is done."""
        self._is_reading = True
        if self.connection is not None:
            self.connection.pause()
        self._sender.wire.start(self._go_on_after(work), self.context)

    async def _go_on_after(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # boundary: whatever a server sends, nobody waits in vain
            wire = self._sender.wire
            safe = without_secrets(error, wire.redact)
            logger.error("%s: a message could not be handled", wire.server, exc_info=safe)
            if not self._is_over:
                self._misread("the server sent a message that could not be handled")
        self._is_reading = False
        while self._waiting and not self._is_reading:
            self._in_order(self._waiting.popleft())
        if self.connection is not None and not self._is_reading:
            self.connection.resume()

    def _take_message(self, data: bytes) -> None:
        """Handle a message: an answer at once, one that is large or something else in a task."""
        if len(data) >= LARGE_BYTES:
            self._let_wait_for(partial(self.take, data))
        elif (other := self._outcome(self._read(data), data)) is not None:
            self._let_wait_for(partial(self._dispatch, other))

    async def take(self, data: bytes) -> None:
        """Handle a message, which may be large or of a resumed stream."""
        received = (
            await in_thread(self._read, data) if len(data) >= LARGE_BYTES else self._read(data)
        )
        if not self._is_over and (other := self._outcome(received, data)) is not None:
            await self._dispatch(other)

    async def _dispatch(self, message: Message) -> None:
        await self._sender.wire.dispatch(message, self._sender.limits, self.context)

    def _read(self, data: bytes) -> _Received:
        """Read a message, and what it means for the request; in a thread if it is large."""
        request, limits = self.request, self._sender.limits
        if len(data) >= LARGE_BYTES and request.method in HANDSHAKES and is_answer(data):
            return _Received(refusal=too_large_handshake(request.method))
        try:
            message = read(data, limits, at_once=request.parse is None)
            is_own = message.id == request.request_id or (message.id is None and message.error)
            if message.method is None and is_own:
                return _Received(message, answer_of(request, message, limits))
            return _Received(message)
        except LimitError as error:
            return _Received(refusal=str(error))
        except ValueError:
            return _Received()

    def _outcome(self, received: _Received, data: bytes) -> Message | None:
        """Give the request its outcome, if a message has it; return one that is no answer."""
        message, wire = received.message, self._sender.wire
        if received.answer is not None:
            wire.last_received = time.monotonic()
            self._end(partial(self.request.settle, received.answer, data))
        elif received.refusal is not None:
            if is_answer(data):
                self._misread(received.refusal)
            else:
                logger.warning("%s: %s", wire.server, received.refusal)
        elif message is None:
            if self._events is None and self.resuming is None:
                self._misread(NO_JSON_RPC)
            else:
                wire.note_noise(data)
        elif message.method is not None:
            return message
        else:
            self.request.has_stray = True
        return None

    @property
    def _is_over(self) -> bool:
        return self.is_settled or (self.ended and self.resuming is None)

    def _take_status(self, body: bytes) -> None:
        """Handle a status that is no success."""
        request, wire, response = self.request, self._sender.wire, self._as_response(body)
        if response.has_redirect_location:
            following = redirected(self.template, response, self._sender.client)
            if following is not None and self._redirects < MAX_REDIRECTS:
                self._redirects += 1
                self._status, self._chunks, self._received_bytes = 0, [], 0
                self._decoder = None
                self._sender.follow(self, following)
                return
            response = refused_redirect(self.template, response)
        received = self._read(response.content) if is_json(response) else _Received()
        answer, message = received.answer, received.message
        if answer is not None and "result" in answer:
            if response.is_client_error:
                self._outcome(received, response.content)  # it was run, so nothing is refused
                return
            answer = None
        request.reply = wire.reply = reply_of(response, response.text, wire)
        wire.last_received = time.monotonic()
        request.answered = True
        if answer is not None:
            self._end(partial(request.settle, answer, response.content))
            return
        if message is not None and (detail := message.error) is not None:
            error = RequestError(detail.code, detail.message, detail.data)
        elif self._status == HTTPStatus.NOT_FOUND and SESSION_HEADER in self.template.headers:
            error = RequestError(types.INVALID_REQUEST, "Session terminated")
        elif self._status == HTTPStatus.NOT_FOUND:
            error = RequestError(types.METHOD_NOT_FOUND, "Not Found")
        elif self._status < HTTPStatus.BAD_REQUEST:
            error = RequestError(types.INVALID_REQUEST, "Unexpected content type: ")
        else:
            error = RequestError(types.INTERNAL_ERROR, "Server returned an error response")
        self._end(partial(request.fail, error))

    def _as_response(self, body: bytes = b"") -> httpx2.Response:
        fields = [pair for pair in self._headers if pair[0] != b"content-encoding"]
        return httpx2.Response(
            self._status,
            headers=fields,
            content=body,
            request=self.template,
            extensions=dict(self.extensions),
        )

    def _stream_ended(self) -> None:
        """Resume a stream that ended without a response, or give up."""
        if self.request.has_stray:
            self._misread(OF_ANOTHER)
        elif self._event_id:
            self.ended, self.request.stream_ended = True, True
            self._sender.resume(self, self._event_id, self._retry)
        else:
            self.lose("SSE stream ended without a response")

    def _misread(self, reason: str) -> None:
        """Give up a response that cannot be read: the request has been handled, but not how."""
        self._sender.wire.last_received = time.monotonic()
        self.lose(reason)

    def lose(self, reason: str) -> None:
        """Give up a response stream."""
        self.request.stream_ended = True
        self._end(partial(self.request.fail, RequestError(types.CONNECTION_CLOSED, reason)))

    def _end(self, outcome: Callable[[], None]) -> None:
        """Give the request its outcome."""
        self.ended = self.is_settled = True
        self._sender.conclude(self.request, outcome)


@dataclass(frozen=True, slots=True)
class _Received:
    """One message of a response; without any field it is not JSON-RPC."""

    message: Message | None = None
    answer: dict[str, Any] | None = None
    """The response, if it is that of the request."""
    refusal: str | None = None
    """Why it is not read: a limit."""
