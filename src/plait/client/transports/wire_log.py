"""Logs each message of a wire; a session that begins while that is off does without."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_core import to_json

from plait._support.logs import UNCUT, WIRE
from plait._support.sizes import size_label
from plait.client.protocol.exchange import PendingRequest, Sender, parse_json
from plait.client.protocol.reading import Message, RequestId, coerced_id
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    import contextvars

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
    wire = Wire(server, redact, on_end)
    if logging.NOTSET < logger.level <= logging.DEBUG:
        wire.taps.append(WireLog(wire))
    return wire


def log_of(wire: Wire) -> WireLog | None:
    """Return what logs the messages of a wire, if they are logged."""
    return next((tap for tap in wire.taps if isinstance(tap, WireLog)), None)


class WireLog:
    """Logs the messages of a wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._asked_at: dict[RequestId | None, tuple[str, float]] = {}
        """Requests of the server without an answer, and when they came."""

    def over(self, sender: Sender) -> Sender:
        """Return a sender that logs what it sends."""
        return _LoggedSender(sender, self)

    def received(self, message: Message, context: contextvars.Context | None) -> None:
        """Log a request or a notification of the server."""
        del context
        method = message.method or ""
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
        text = self.wire.redact(text)
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
        name = self.wire.redact.excerpt(method, _LONGEST_METHOD)
        logger.debug("%s %s%s %s %s %s", direction, self.wire.server, number, name, facts, text)


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"


def _encoded(message: object) -> bytes:
    return to_json(message, inf_nan_mode="null", serialize_unknown=True)


class _LoggedSender:
    """Logs the requests that another sender writes, and their responses."""

    def __init__(self, inner: Sender, log: WireLog) -> None:
        self.inner = inner
        self.any_thread = inner.any_thread
        self._log = log
        self._began: dict[RequestId | None, float] = {}

    @property
    def is_direct(self) -> bool:
        """Whether requests are sent at once."""
        return self.inner.is_direct

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write a request."""
        began = self._began[request.request_id] = time.monotonic()
        self._log.log(_OUT, request.method, body, request_id=request.request_id)
        wake, request.wake = request.wake, partial(self._ended, request, request.wake)
        try:
            self.inner.send(body, request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            request.wake = wake
            why = "was not sent: the connection is closed"
            self._log.log_end(_OUT, request.method, request.request_id, began, why)
            raise

    async def deliver(self, body: bytes) -> None:
        """Write a notification or an answer."""
        self._log.log_delivered(body)
        await self.inner.deliver(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller no longer waits."""
        began = self._began.pop(request.request_id, time.monotonic())
        if request.method == _SUBSCRIPTION:
            self._log.log(_OUT, "notifications/cancelled", notification)
        else:
            self._log.log_end(_OUT, request.method, request.request_id, began, "cancelled")
        self.inner.cancel(request, notification)

    def _ended(self, request: PendingRequest, wake: Callable[[], None]) -> None:
        began = self._began.pop(request.request_id, None)
        if began is None or (request.message is None and request.method == _SUBSCRIPTION):
            pass  # it was cancelled, or its session was closed
        elif request.message is None:
            why = self._log.wire.redact.excerpt(f"no answer: {request.fault!r}")
            self._log.log_end(_IN, request.method, request.request_id, began, why)
        else:
            body = request.body or _encoded(request.message)
            seconds = time.monotonic() - began
            number = request.request_id
            self._log.log(_IN, request.method, body, request_id=number, seconds=seconds)
        wake()
