"""One request to a Streamable HTTP endpoint, and what its response means."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httpx2
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from typing_extensions import override

from plait._support.threads import in_thread
from plait.client.protocol.exchange import PendingRequest, is_response, parse_json, parse_nested
from plait.client.protocol.large_json import LARGE_BYTES, LimitError, parse_large
from plait.client.protocol.nesting import NESTED_NOTE
from plait.client.protocol.reading import coerced_id
from plait.client.transports.http_answers import OF_ANOTHER
from plait.client.transports.http_client import (
    LONGEST_REFUSAL_BYTES,
    MOST_REDIRECTS,
    SESSION_HEADER,
    TooLargeError,
    fail_request,
    is_json,
    redirected,
    refused_redirect,
    reply_of,
)
from plait.client.transports.http_decoding import BodyDecoder
from plait.client.transports.http_events import EventParser, ServerEvent
from plait.client.transports.http_pool import Fields, HttpExchange, Pool
from plait.client.transports.library_logs import log_as
from plait.client.transports.oversize import too_large

if TYPE_CHECKING:
    from plait.client.transports.http_sender import HttpSender


def _object_of(message: object) -> dict[str, Any]:
    return cast("dict[str, Any]", message) if type(message) is dict else {}


def _validated(message: object, body: bytes) -> JSONRPCMessage | None:
    """Return a message as the SDK reads it; a large one is not parsed again."""
    try:
        if len(body) >= LARGE_BYTES:
            return jsonrpc_message_adapter.validate_python(message, by_name=False)
        return jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValidationError:
        return None


class HttpPost(HttpExchange):
    """A request, and what its response means."""

    def __init__(
        self,
        sender: HttpSender,
        head: bytes,
        body: bytes,
        request: PendingRequest,
        template: httpx2.Request,
    ) -> None:
        super().__init__(head, body, template)
        self.exchange = self.request = request
        self.pool: Pool | None = None
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
        """Whether a large message is parsed or decompressed; what arrives after it waits."""
        self._waiting: deque[Callable[[], None]] = deque()

    @override
    def on_write(self) -> None:
        self.request.written = True

    @override
    def on_response(self, status: int, headers: Fields) -> None:
        self._status, self._headers = status, headers
        content_type, encoding = b"", b""
        for name, value in headers:
            if name == b"content-type":
                content_type = value.lower()
            elif name == b"content-encoding":
                encoding = value.lower()
            elif name == b"set-cookie":
                self._sender.client.cookies.extract_cookies(self._as_response())
                self._sender.keep_cookies()
        is_unreadable = encoding not in {b"", b"identity"} and not self._decode(encoding)
        if is_unreadable or not 200 <= status < 300:
            return
        if status == HTTPStatus.ACCEPTED:
            self._misread("the server answered a request with 202 Accepted")
        elif content_type.startswith(b"text/event-stream"):
            self._events = EventParser(self._sender.max_event_size)
        elif not content_type.startswith(b"application/json"):
            self._misread(f"unexpected content type: {content_type.decode('latin-1')}")

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
        if self._status >= 300:
            if self._received_bytes > LONGEST_REFUSAL_BYTES:
                self._cut(b"".join(self._chunks))
        elif self._received_bytes > self._sender.longest_body_bytes:
            self._chunks.clear()
            self._cut(None)

    def _cut(self, body: bytes | None) -> None:
        """Stop reading a body that is too large; that of a refusal is used as far as it came."""
        if self.connection is not None:
            self.connection.abort()
            self.connection = None
        if body is None:
            self._misread(too_large(self._sender.longest_body_bytes))
        else:
            self._take_status(body)

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
        elif len(body) >= LARGE_BYTES:
            self._read_large(body, self._take_answer)
        else:
            self._take_answer(self._parsed(body), body)

    @override
    def on_fault(self, fault: Exception) -> None:
        self._in_order(partial(self._take_fault, fault))

    def _take_fault(self, fault: Exception) -> None:
        if self._events is not None:
            self._in_order(self._stream_ended)
        elif self._status >= 300:
            self._take_status(b"")  # the status is known, even if the body is lost
        elif isinstance(fault, TooLargeError):
            self._misread(too_large(self._sender.longest_body_bytes))
        else:
            self._end(partial(fail_request, self.request, self._sender.wire, fault))

    def _spoil(self, fault: httpx2.RequestError) -> None:
        """Stop reading a response that cannot be used."""
        if self.connection is not None:
            self.connection.abort()
            self.connection = None
        self.on_fault(fault)

    def _decode(self, encoding: bytes) -> bool:
        if encoding not in {b"gzip", b"x-gzip", b"deflate"}:
            text = f"the response has the encoding {encoding.decode('latin-1')!r}, not requested"
            self._spoil(httpx2.DecodingError(text))
            return False
        self._decoder = BodyDecoder()
        return True

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
        if event.kind != "message" or not event.data:
            return
        if len(event.data) >= LARGE_BYTES:
            self._read_large(event.data, self._take_message)
        else:
            self._take_message(self._parsed(event.data), event.data)

    async def take(self, data: bytes) -> None:
        """Handle a message of a resumed stream."""
        if len(data) < LARGE_BYTES:
            self._take_message(self._parsed(data), data)
        else:
            await self._parse_large(data, self._take_message)
        if self._sender.received.is_full:
            await self._sender.received.dispatched()

    def _take_message(self, message: object, data: bytes) -> None:
        """Handle a message of the response stream, in which the response may follow."""
        other = self._settle_by(message, data)
        if self.is_settled:
            return
        if other is None:
            self._sender.wire.note_noise(data)
        elif isinstance(other, JSONRPCResponse | JSONRPCError):
            self.request.has_stray = True
        else:
            self._pass_on(other)

    def _settle_by(self, message: object, body: bytes) -> JSONRPCMessage | None:
        """Settle the request if a message answers it; else return it, unless it is no message."""
        own = _object_of(message)
        if coerced_id(own.get("id")) == self.request.request_id and is_response(own):
            self._settle(own, body)
            return None
        parsed = _validated(message, body)
        if isinstance(parsed, JSONRPCResponse | JSONRPCError) and (
            coerced_id(parsed.id) == self.request.request_id
            or (isinstance(parsed, JSONRPCError) and parsed.id is None)
        ):
            self._settle(parsed.model_dump(by_alias=True, exclude_unset=True))
        return parsed

    def _parsed(self, body: bytes) -> object:
        try:
            return self.request.parse(body)
        except ValueError:
            message = parse_nested(body)
            if message is not None and is_response(message):
                self.request.wants_body, self.request.notes = False, (NESTED_NOTE,)
            return message

    def _read_large(self, body: bytes, take: Callable[[object, bytes], None]) -> None:
        """Parse a large message in a thread."""
        self._let_wait_for(partial(self._parse_large, body, take))

    def _let_wait_for(self, work: Callable[[], Awaitable[None]]) -> None:
        """Receive nothing more of the response until some work is done."""
        self._is_reading = True
        if self.connection is not None:
            self.connection.pause()
        self._sender.start(self._go_on_after(work), self.context)

    async def _go_on_after(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()
        if not self._is_over:
            await self._sender.received.dispatched()
        self._is_reading = False
        while self._waiting and not self._is_reading:
            self._in_order(self._waiting.popleft())
        if self.connection is not None and not self._is_reading:
            self.connection.resume()

    async def _parse_large(self, body: bytes, take: Callable[[object, bytes], None]) -> None:
        parse, limits = self.request.parse, self._sender.limits
        if parse is parse_json:
            parse = partial(parse_large, most_values=limits.values, most_bytes=limits.message_bytes)
        message: object = None
        try:
            message = await in_thread(parse, body)
        except LimitError as error:
            if not self._is_over:
                self._misread(str(error))
        except ValueError:
            pass  # nothing can be made of it
        if not self._is_over:
            take(message, body)

    @property
    def _is_over(self) -> bool:
        return self.is_settled or (self.ended and self.resuming is None)

    def _take_answer(self, message: object, body: bytes) -> None:
        """Handle the message that is the whole response."""
        other = self._settle_by(message, body)
        if self.is_settled:
            return
        if other is None:
            self._misread("it is not JSON-RPC")
            return
        if not isinstance(other, JSONRPCResponse | JSONRPCError):
            self._pass_on(other)
        self._misread(OF_ANOTHER)

    def _pass_on(self, message: JSONRPCMessage) -> None:
        """Pass a message that is not the response to the SDK."""
        self.context.run(log_as, self._sender.wire)
        self._sender.received.push(SessionMessage(message), self.context)
        if self._sender.received.is_full and not self._is_reading:
            self._let_wait_for(partial(asyncio.sleep, 0))

    def _take_status(self, body: bytes) -> None:
        """Handle a status that is no success."""
        request, wire, response = self.request, self._sender.wire, self._as_response(body)
        if response.has_redirect_location:
            following = redirected(self.template, response, self._sender.client)
            if following is not None and self._redirects < MOST_REDIRECTS:
                self._redirects += 1
                self._status, self._chunks, self._received_bytes = 0, [], 0
                self._decoder = None
                self._sender.follow(self, following)
                return
            response = refused_redirect(self.template, response)
        request.reply = wire.reply = reply_of(response, response.text, wire)
        wire.last_received = time.monotonic()
        error = self._status_error()
        if is_json(response):
            with contextlib.suppress(ValidationError):
                parsed = jsonrpc_message_adapter.validate_json(response.content, by_name=False)
                if isinstance(parsed, JSONRPCError):
                    error = parsed.error
        self._end(partial(self._refuse, error))

    def _refuse(self, error: ErrorData) -> None:
        """Make the request fail: the status says something about the session it was sent in."""
        self.request.answered = True
        self.request.fail(MCPError(code=error.code, message=error.message, data=error.data))

    def _status_error(self) -> ErrorData:
        """Return the error that the SDK makes from a status."""
        match self._status:
            case HTTPStatus.NOT_FOUND if SESSION_HEADER in self.template.headers:
                return ErrorData(code=INVALID_REQUEST, message="Session terminated")
            case HTTPStatus.NOT_FOUND:
                return ErrorData(code=METHOD_NOT_FOUND, message="Not Found")
            case status if status < HTTPStatus.BAD_REQUEST:
                return ErrorData(code=INVALID_REQUEST, message="Unexpected content type: ")
            case _:
                return ErrorData(code=INTERNAL_ERROR, message="Server returned an error response")

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
        fault = MCPError(code=CONNECTION_CLOSED, message=reason)
        self._end(partial(self.request.fail, fault))

    def _settle(self, message: dict[str, Any], body: bytes | None = None) -> None:
        self._sender.wire.last_received = time.monotonic()
        self._end(partial(self.request.settle, message, body))

    def _end(self, outcome: Callable[[], None]) -> None:
        """Give the request its outcome, after everything that its response has sent before."""
        self.ended = self.is_settled = True
        sender = self._sender
        if sender.received.waiting:
            sender.received.run_in_order(partial(sender.conclude, self.request, outcome))
        else:
            sender.conclude(self.request, outcome)
