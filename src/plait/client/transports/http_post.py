"""One message that is posted to a Streamable HTTP endpoint, and what its response means."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx2
from typing_extensions import override

from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.threads import in_thread
from plait.client.protocol.exchange import PendingRequest, set_current
from plait.client.protocol.framing import is_answer
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
    read,
    too_large,
    too_large_handshake,
)
from plait.client.transports.http_bodies import BodyDecoder, EventParser, ServerEvent
from plait.client.transports.http_client import (
    MAX_REDIRECTS,
    MAX_REFUSAL_BYTES,
    SESSION_HEADER,
    TooLargeError,
    fail_request,
    is_json,
    redirected,
    refused_redirect,
    reply_of,
)
from plait.client.transports.http_pool import Fields, HttpExchange, HttpPool

if TYPE_CHECKING:
    from plait.client.transports.client_pool import ClientPool
    from plait.client.transports.http import HttpSender

logger = logging.getLogger("plait.client.transports")

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
        self.context.run(set_current, request)
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
