"""Bounds of an HTTP server on connections, and on how long they wait for their clients.

h11 reads the requests: it keeps at most 64 KiB of a head, and parses one request at a time.
httptools keeps heads of any size, and all the requests that a client sends at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections there may be, and how long they may wait for their client."""

    max_connections: int = 512
    """Open connections; others are answered with 503."""
    header_seconds: float = 10.0
    """From the connection, or the first byte of a request, to the end of its headers."""
    body_seconds: float = 30.0
    """Between two parts of the body of a request."""
    unread_seconds: float = 30.0
    """While the client reads nothing of a response that waits for it."""
    idle_seconds: float = 60.0
    """Between a response and the next request."""


MAX_JOINED_BYTES = 65_536
"""What is written in one turn of the loop beyond this is passed on at once."""


class _JoinedWrites:
    """A transport that writes the head and the body of a response together.

    The second of two writes is a second system call, and wakes the client once more: on a busy
    machine this takes longer than everything else about a small answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write until the turn of the loop ends, or the response."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > MAX_JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held back."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._bytes = 0
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection when everything is written."""
        self.flush()
        self._transport.close()


def protocol_with(limits: ConnectionLimits) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits."""

    class LimitedProtocol(H11Protocol):
        """Closes connections whose client is slower than the limits allow.

        Streams of responses have no limit: while a request is answered, the client owes nothing.
        """

        _timer: asyncio.TimerHandle | None = None
        _awaited: str | None = None
        """What the client owes while the timer runs: `headers` or `body`."""
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._joined = _JoinedWrites(transport, self.loop)
            super().connection_made(self._joined)  # type: ignore[arg-type]
            if len(self.connections) > limits.max_connections:
                transport.write(_BUSY)
                transport.close()
            else:
                self._expect("headers")

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            super().data_received(data)
            if not self.cycle or self.cycle.response_complete:
                self._expect("headers")
                return
            self._stop_timer()
            if self.cycle.more_body:
                self._expect("body")

        def send_400_response(self, msg: str) -> None:
            try:
                super().send_400_response(msg)
            except h11.LocalProtocolError:  # in the middle of another response
                self.transport.abort()

        def on_response_complete(self) -> None:
            # A client may be answered before its body is complete; then it owes nothing more.
            self._stop_timer()
            self._joined.flush()
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.unread_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop_unread()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            self._stop_unread()
            super().connection_lost(exc)

        def _stop_unread(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _expect(self, part: str) -> None:
            """Start the timer for a part of a request, unless it runs for that part."""
            if self._timer is not None and self._awaited == part:
                return
            self._stop_timer()
            seconds = limits.header_seconds if part == "headers" else limits.body_seconds
            self._awaited = part
            self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._awaited = None

    return LimitedProtocol
