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
from plait.client.protocol.exchange import PendingRequest, Sender
from plait.client.protocol.reading import Message, RequestId, coerced_id, parse_json
from plait.client.transports.wire import Wire

if TYPE_CHECKING:
    import contextvars

    from plait._support.redact import Redactor

logger = logging.getLogger(WIRE)

_OUT, _IN = "→", "←"
MAX_SHOWN_CHARS = 400
MAX_METHOD_CHARS = 100
"""How much of a message, and of a method, is shown."""
MAX_SEARCHED_CHARS = 64_000
"""How much of a message is searched for secrets before it is cut."""
_SUBSCRIPTION = "subscriptions/listen"
"""A request whose only end is its cancellation."""


def make_wire(server: str, redact: Redactor, on_end: Callable[[], None]) -> Wire:
    """Make the wire of a session, which logs its messages if the logger's own level shows them.

    The level of another logger is not enough: messages hold arguments and results.
    """
    wire = Wire(server, redact, on_end)
    if logging.NOTSET < logger.level <= logging.DEBUG:
        wire.taps.append(_WireLog(wire))
    return wire


class _WireLog:
    """Logs the messages of a wire: what a sender writes, and what arrives."""

    any_thread: bool
    _inner: Sender

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._began: dict[RequestId | None, float] = {}
        """When requests of our own were sent that have no answer."""
        self._asked_at: dict[RequestId | None, tuple[str, float]] = {}
        """Requests of the server without an answer, and when they came."""

    def over(self, sender: Sender) -> Sender:
        """Return a sender that logs what it sends."""
        self._inner, self.any_thread = sender, sender.any_thread
        return self

    @property
    def is_direct(self) -> bool:
        return self._inner.is_direct

    def received(self, message: Message, context: contextvars.Context | None) -> None:
        """Log a request or a notification of the server."""
        del context
        method = message.method or ""
        if message.id is not None:
            self._asked_at[message.id] = (method, time.monotonic())
        elif method == "notifications/cancelled":
            cancelled = coerced_id((message.params or {}).get("requestId"))
            if (asked := self._asked_at.pop(cancelled, None)) is not None:
                seconds = time.monotonic() - asked[1]
                self._log(_IN, asked[0], request_id=cancelled, seconds=seconds, end="cancelled")
        body = message.body or _json_of({"method": method, "params": message.params})
        self._log(_IN, method, body, request_id=message.id)

    def _log(
        self,
        direction: str,
        method: str,
        message: bytes = b"",
        *,
        request_id: object = None,
        seconds: float | None = None,
        end: str = "",
    ) -> None:
        """Log a message without secrets, and cut unless all is to be shown.

        `end` is how a request ended that has no response.
        """
        whole = logger.isEnabledFor(UNCUT)
        # Redacted before it is cut: half of a secret would not be found.
        text = (message if whole else message[:MAX_SEARCHED_CHARS]).decode("utf-8", "replace")
        text = self._wire.redact(text)
        if not whole and len(text) > MAX_SHOWN_CHARS:
            text = f"{text[:MAX_SHOWN_CHARS]}…"
        facts = end or size_label(len(message))
        if seconds is not None:
            facts = f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms {facts}"
        number = "" if request_id is None else f" #{request_id}"
        name = self._wire.redact.excerpt(method, MAX_METHOD_CHARS)
        logger.debug("%s %s%s %s %s %s", direction, self._wire.server, number, name, facts, text)

    def send(self, body: bytes, request: PendingRequest) -> None:
        self._began[request.request_id] = time.monotonic()
        self._log(_OUT, request.method, body, request_id=request.request_id)
        wake, request.wake = request.wake, partial(self._log_outcome, request, request.wake)
        try:
            self._inner.send(body, request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            request.wake = wake
            self._log_end(_OUT, request, "was not sent: the connection is closed")
            raise

    async def deliver(self, body: bytes) -> None:
        message = cast("dict[str, Any]", parse_json(body))
        request_id, method, seconds = message.get("id"), message.get("method"), None
        if method is None:
            method, began = self._asked_at.pop(request_id, ("response", None))
            seconds = None if began is None else time.monotonic() - began
        self._log(_OUT, method, body, request_id=request_id, seconds=seconds)
        await self._inner.deliver(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        if request.method == _SUBSCRIPTION:
            self._began.pop(request.request_id, None)
            self._log(_OUT, "notifications/cancelled", notification)
        else:
            self._log_end(_OUT, request, "cancelled")
        self._inner.cancel(request, notification)

    def _log_end(self, direction: str, request: PendingRequest, end: str) -> None:
        seconds = time.monotonic() - self._began.pop(request.request_id, time.monotonic())
        number = request.request_id
        self._log(direction, request.method, request_id=number, seconds=seconds, end=end)

    def _log_outcome(self, request: PendingRequest, wake: Callable[[], None]) -> None:
        # One that was cancelled, or whose session was closed, is logged already or needs no line.
        is_closed_stream = request.message is None and request.method == _SUBSCRIPTION
        if request.request_id in self._began and not is_closed_stream:
            if request.message is None:
                why = self._wire.redact.excerpt(f"no answer: {request.fault!r}")
                self._log_end(_IN, request, why)
            else:
                number = request.request_id
                seconds = time.monotonic() - self._began.pop(number)
                body = request.body or _json_of(request.message)
                self._log(_IN, request.method, body, request_id=number, seconds=seconds)
        wake()


def _json_of(message: object) -> bytes:
    return to_json(message, inf_nan_mode="null", serialize_unknown=True)
