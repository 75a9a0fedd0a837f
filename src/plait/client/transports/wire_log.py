"""Logs each message of a wire; a session that begins while that is off has none of this code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import AsyncResource
from pydantic_core import to_json
from typing_extensions import override

from plait._support.logs import UNCUT, WIRE
from plait._support.sizes import size_label
from plait.client.config.budgets import IncomingLimits
from plait.client.protocol.exchange import PendingRequest, Sender, parse_json
from plait.client.protocol.reading import Message, RequestId, coerced_id
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    import contextvars

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.dispatcher import CallOptions, Dispatcher
    from mcp.shared.message import SessionMessage

    from plait._support.redact import Redactor

logger = logging.getLogger(WIRE)

_OUT, _IN = "→", "←"
_SHOWN = 400
"""Characters of a message that are shown."""
_SEARCHED = 64_000
"""Characters of a message that are searched for secrets before it is cut."""
_LONGEST_METHOD = 100
_SUBSCRIPTION = "subscriptions/listen"
"""A request whose only end is its cancellation."""


def make_wire(server: str, redact: Redactor, on_end: Callable[[], None]) -> Wire:
    """Make the wire of a session, which logs its messages if the logger's own level shows them.

    The level of another logger is not enough: messages hold arguments and results.
    """
    is_chosen = logging.NOTSET < logger.level <= logging.DEBUG
    return (LoggedWire if is_chosen else Wire)(server, redact, on_end)


class LoggedWire(Wire):
    """A wire whose messages are logged."""

    def __init__(self, server: str, redact: Redactor, on_end: Callable[[], None]) -> None:
        super().__init__(server, redact, on_end)
        self._asked_at: dict[RequestId | None, tuple[str, float]] = {}
        """Requests of the server without an answer, and when they came."""

    @override
    async def dispatch(
        self, message: Message, limits: IncomingLimits, context: contextvars.Context | None
    ) -> None:
        if message.method is not None:
            self._log_received(message.method, message)
        await super().dispatch(message, limits, context)

    def _log_received(self, method: str, message: Message) -> None:
        if message.id is not None:
            self._asked_at[message.id] = (method, time.monotonic())
        elif method == "notifications/cancelled":
            cancelled = coerced_id((message.params or {}).get("requestId"))
            if (asked := self._asked_at.pop(cancelled, None)) is not None:
                self.log_end(_IN, asked[0], cancelled, asked[1], "cancelled")
        body = message.body or _encoded({"method": method, "params": message.params})
        self.log(_IN, method, body, request_id=message.id)

    def log_delivered(self, body: bytes) -> None:
        """Log a notification, or an answer to a request of the server."""
        message = cast("dict[str, Any]", parse_json(body))
        request_id, method, seconds = message.get("id"), message.get("method"), None
        if method is None:
            method, began = self._asked_at.pop(request_id, ("response", None))
            seconds = None if began is None else time.monotonic() - began
        self.log(_OUT, method, body, request_id=request_id, seconds=seconds)

    def use(self, sender: Sender) -> None:
        """Send requests of our own with this sender, and log them."""
        self.sender = _LoggedSender(sender, self)

    def log(
        self,
        direction: str,
        method: str,
        message: bytes,
        *,
        request_id: object = None,
        seconds: float | None = None,
    ) -> None:
        """Log one message, without secrets, and cut unless everything is to be shown."""
        whole = logger.isEnabledFor(UNCUT)
        # Redacted before it is cut: half of a secret would not be found.
        text = (message if whole else message[:_SEARCHED]).decode("utf-8", "replace")
        text = self.redact(text)
        if not whole and len(text) > _SHOWN:
            text = f"{text[:_SHOWN]}…"
        facts = [_milliseconds(seconds), size_label(len(message))]
        self._write(direction, method, " ".join(filter(None, facts)), text, request_id)

    def log_end(
        self, direction: str, method: str, request_id: object, began: float, why: str
    ) -> None:
        """Log that a request has ended without a response."""
        facts = f"{_milliseconds(time.monotonic() - began)} {why}"
        self._write(direction, method, facts, "", request_id)

    def _write(
        self, direction: str, method: str, facts: str, text: str, request_id: object
    ) -> None:
        number = "" if request_id is None else f" #{request_id}"
        name = self.redact.excerpt(method, _LONGEST_METHOD)
        logger.debug("%s %s%s %s %s %s", direction, self.server, number, name, facts, text)


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"


def _encoded(message: object) -> bytes:
    return to_json(message, inf_nan_mode="null", serialize_unknown=True)


class _LoggedSender:
    """Logs the requests that another sender writes, and their responses."""

    def __init__(self, inner: Sender, wire: LoggedWire) -> None:
        self.inner = inner
        self.any_thread = inner.any_thread
        self._wire = wire
        self._began: dict[RequestId | None, float] = {}

    @property
    def is_direct(self) -> bool:
        """Whether requests are sent at once."""
        return self.inner.is_direct

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write a request."""
        began = self._began[request.request_id] = time.monotonic()
        self._wire.log(_OUT, request.method, body, request_id=request.request_id)
        wake, request.wake = request.wake, partial(self._ended, request, request.wake)
        try:
            self.inner.send(body, request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            request.wake = wake
            why = "was not sent: the connection is closed"
            self._wire.log_end(_OUT, request.method, request.request_id, began, why)
            raise

    async def deliver(self, body: bytes) -> None:
        """Write a notification or an answer."""
        self._wire.log_delivered(body)
        await self.inner.deliver(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller no longer waits."""
        began = self._began.pop(request.request_id, time.monotonic())
        if request.method == _SUBSCRIPTION:
            self._wire.log(_OUT, "notifications/cancelled", notification)
        else:
            self._wire.log_end(_OUT, request.method, request.request_id, began, "cancelled")
        self.inner.cancel(request, notification)

    def _ended(self, request: PendingRequest, wake: Callable[[], None]) -> None:
        began = self._began.pop(request.request_id, None)
        if began is None or (request.message is None and request.method == _SUBSCRIPTION):
            pass  # it was cancelled, or its session was closed
        elif request.message is None:
            why = self._wire.redact.excerpt(f"no answer: {request.fault!r}")
            self._wire.log_end(_IN, request.method, request.request_id, began, why)
        else:
            body = request.body or _encoded(request.message)
            seconds = time.monotonic() - began
            number = request.request_id
            self._wire.log(_IN, request.method, body, request_id=number, seconds=seconds)
        wake()


class _Seen:
    """The requests of both sides that have no response yet."""

    def __init__(self) -> None:
        self.sent: dict[RequestId | None, tuple[str, float]] = {}
        self.received: dict[RequestId | None, tuple[str, float]] = {}


def logged_streams(
    read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage], wire: Wire
) -> tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]:
    """Return the streams of a session, logged if the messages of the wire are."""
    if not isinstance(wire, LoggedWire):
        return read, write
    seen = _Seen()
    return _LoggedRead(read, wire, seen), _LoggedWrite(write, wire, seen)


def _log_message(
    wire: LoggedWire,
    direction: str,
    message: Any,
    begun: dict[RequestId | None, tuple[str, float]],
    answered: dict[RequestId | None, tuple[str, float]],
) -> None:
    """Log a request or notification of one side, or its response to a request of the other."""
    request_id = coerced_id(getattr(message, "id", None))
    method: str | None = getattr(message, "method", None)
    seconds = None
    if method is None:
        method, began = answered.pop(request_id, ("response", None))
        seconds = None if began is None else time.monotonic() - began
    elif request_id is not None:
        begun[request_id] = (method, time.monotonic())
    elif method == "notifications/cancelled":
        params: dict[str, Any] = message.params or {}
        cancelled = coerced_id(params.get("requestId"))
        ended = begun.pop(cancelled, None)
        if ended is not None and ended[0] != _SUBSCRIPTION:
            wire.log_end(direction, ended[0], cancelled, ended[1], "cancelled")
    body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    wire.log(direction, method, body, request_id=request_id, seconds=seconds)


class _LoggedRead(AsyncResource):
    """A receiving stream whose messages are logged."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], wire: LoggedWire, seen: _Seen
    ) -> None:
        self._inner, self._wire, self._seen = inner, wire, seen

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context the last item was sent in, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next item."""
        return await self.__anext__()

    def __aiter__(self) -> _LoggedRead:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        message = getattr(item, "message", None)
        ours = coerced_id(getattr(message, "id", None)) in self._wire.requests
        # Our own requests are logged where they end.
        if message is not None and (hasattr(message, "method") or not ours):
            seen = self._seen
            _log_message(self._wire, _IN, message, begun=seen.received, answered=seen.sent)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LoggedWrite(AsyncResource):
    """A sending stream whose messages are logged."""

    def __init__(self, inner: WriteStream[SessionMessage], wire: LoggedWire, seen: _Seen) -> None:
        self._inner, self._wire, self._seen = inner, wire, seen

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        seen = self._seen
        _log_message(self._wire, _OUT, item.message, begun=seen.sent, answered=seen.received)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


def logged_dispatcher(dispatcher: Dispatcher[Any], wire: Wire) -> Dispatcher[Any]:
    """Return the dispatcher of an in-process server, logged if the messages of the wire are."""
    if not isinstance(wire, LoggedWire):
        return dispatcher
    return cast("Dispatcher[Any]", _LoggedDispatcher(dispatcher, wire))


class _LoggedDispatcher:
    """Logs what goes to and from an in-process server, as it would be on a wire."""

    def __init__(self, inner: Dispatcher[Any], wire: LoggedWire) -> None:
        self._inner, self._wire = inner, wire
        self._numbers = count(1)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        options: CallOptions = {**opts} if opts else {}
        if (on_progress := options.get("on_progress")) is not None:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                fields = {"progress": progress, "total": total, "message": message}
                self._log(_IN, "notifications/progress", fields)
                await on_progress(progress, total, message)

            options["on_progress"] = report
        send = partial(self._inner.send_raw_request, method, params, options, **related)
        return await self._exchange(_OUT, method, params, send)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        self._log(_OUT, method, params)
        await self._inner.notify(method, params, opts)

    async def run(self, on_request: Any, on_notify: Any, *rest: Any, **named: Any) -> None:
        async def request(context: Any, method: str, params: Mapping[str, Any] | None) -> Any:
            handle = partial(on_request, context, method, params)
            return await self._exchange(_IN, method, params, handle)

        async def notification(context: Any, method: str, params: Any) -> None:
            self._log(_IN, method, params)
            await on_notify(context, method, params)

        await self._inner.run(request, notification, *rest, **named)

    async def _exchange(self, direction: str, method: str, params: Any, send: Any) -> Any:
        number, began = next(self._numbers), time.monotonic()
        back = _IN if direction == _OUT else _OUT
        self._log(direction, method, params, request_id=number)
        try:
            result = await send()
        except Exception as error:
            seconds = time.monotonic() - began
            self._log(back, method, repr(error), request_id=number, seconds=seconds)
            raise
        seconds = time.monotonic() - began
        self._log(back, method, result, request_id=number, seconds=seconds)
        return result

    def _log(self, direction: str, method: str, content: Any, **facts: Any) -> None:
        self._wire.log(direction, method, _encoded(content), **facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
