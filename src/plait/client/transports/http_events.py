"""Parses streams of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass

import httpx2

from plait.client.transports.http_decoding import PIECE_BYTES

_MAX_RETRY_DIGITS = 8
"""A server that is back only after a day is taken as one that does not say when."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; its `event_id` is the last one the stream has sent."""

    kind: str
    data: bytes
    event_id: str
    retry_milliseconds: int | None


class EventParser:
    """Turns the bytes of a stream into events, like `httpx2.EventSource`.

    `max_event_size` bounds the bytes of one event, including a line that has not ended yet.
    """

    def __init__(self, max_event_size: int | None) -> None:
        self._max_event_size = max_event_size
        self._line: list[bytes] = []
        self._line_size = 0
        self._after_cr = False
        self._kind = ""
        self._data: bytes | None = None
        self._more_data = bytearray()
        """The lines of data after the first: joining a list of millions takes much memory."""
        self._event_id = ""
        self._retry: int | None = None
        self._size = 0
        self._pending = False

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end in these bytes."""
        if self._after_cr:
            data = b"\r" + data
        self._after_cr = data.endswith(b"\r")
        if self._after_cr:
            data = data[:-1]  # a line feed may follow, which belongs to it
        lines = data.splitlines(keepends=True)
        rest = lines.pop() if lines and lines[-1][-1:] not in {b"\n", b"\r"} else b""
        for line in lines:
            if (event := self._take(self._whole(line.rstrip(b"\r\n")))) is not None:
                yield event
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            self._check_size(self._line_size)

    def end(self) -> Iterator[ServerEvent]:
        """Yield the event that only a final carriage return has ended, if there is one."""
        if self._after_cr and (event := self._take(self._whole(b""))) is not None:
            yield event

    def _whole(self, rest: bytes) -> bytes:
        if not self._line:
            return rest
        self._line.append(rest)
        line = b"".join(self._line)
        self._line.clear()
        self._line_size = 0
        return line

    def _take(self, line: bytes) -> ServerEvent | None:
        """Read one line; return the event that an empty one ends."""
        if not line:
            return self._ended()
        if line.startswith(b":"):
            return None
        self._size += len(line)
        self._check_size(0)
        # A long line is copied once only.
        colon = line.find(b":")
        name = line if colon < 0 else line[:colon]
        start = len(line) if colon < 0 else colon + 1
        value = line[start + (line[start : start + 1] == b" ") :]
        match name:
            case b"data" if self._data is None:
                self._data = value
            case b"data":
                self._more_data += b"\n"
                self._more_data += value
            case b"event":
                self._kind = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._event_id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                self._retry = int(value)
            case _:
                return None
        self._pending = True
        return None

    def _ended(self) -> ServerEvent | None:
        self._size = 0
        if not self._pending:
            return None
        data = self._data or b""
        if self._more_data:
            data += self._more_data
        event = ServerEvent(self._kind or "message", data, self._event_id, self._retry)
        self._kind, self._retry, self._pending = "", None, False
        self._data, self._more_data = None, bytearray()
        return event

    def _check_size(self, pending: int) -> None:
        if self._max_event_size is not None and self._size + pending > self._max_event_size:
            text = (
                f"Server-sent event exceeded the {self._max_event_size} byte limit "
                "(raise `message_bytes` in `limits`)."
            )
            raise httpx2.SSEError(text)


async def events_of(
    chunks: AsyncIterable[bytes], most_event_bytes: int | None
) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream."""
    parser = EventParser(most_event_bytes)
    async for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            await asyncio.sleep(0)  # what was decompressed arrives without waiting
            for event in parser.feed(chunk[start : start + PIECE_BYTES]):
                yield event
    for event in parser.end():
        yield event
