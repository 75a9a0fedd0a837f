"""Reads the bodies of HTTP responses: decompresses them, and finds server-sent events."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import httpx2

PIECE_BYTES: Final = 32 * 1024
"""How much is decompressed, or read as events, before other tasks have their turn: it may be tens
of thousands of lines."""
MAX_IGNORED_BYTES: Final = 64 * 1024
"""What may follow a body that is complete, such as padding or a line end."""
MAX_RETRY_DIGITS: Final = 8
"""A server that is back only after a day is taken as one that does not say when."""

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_GZIP_START: Final = b"\x1f"


class BodyDecoder:
    """Decompresses a body of gzip or zlib; one of gzip may have several members."""

    def __init__(self) -> None:
        self._decompress = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._ignored_bytes = 0

    def decode(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the next decompressed bytes, and the rest of the data.

        Raises:
            httpx2.DecodingError: The data cannot be decompressed.
        """
        given, decoded = data[:PIECE_BYTES], bytearray()
        while given and len(decoded) < PIECE_BYTES:
            if self._decompress.eof:
                # Never given to the finished object, which would keep and copy all of it.
                if not given.startswith(_GZIP_START):
                    self._ignored_bytes += len(given)
                    if self._ignored_bytes > MAX_IGNORED_BYTES:
                        text = "the compressed response does not end where its data does"
                        raise httpx2.DecodingError(text)
                    return bytes(decoded), data[PIECE_BYTES:]
                self._decompress = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                decoded += self._decompress.decompress(given, PIECE_BYTES - len(decoded))
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from error
            given = self._decompress.unused_data or self._decompress.unconsumed_tail
        return bytes(decoded), given + data[PIECE_BYTES:]

    def end(self) -> None:
        """Note the end of the body.

        Raises:
            httpx2.DecodingError: It is not the end of the compressed data.
        """
        if not self._decompress.eof:
            raise httpx2.DecodingError("the compressed response is cut off")


async def decoded_body(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Decompress a body, with a turn of the event loop between any two pieces."""
    decoder = BodyDecoder()
    async for chunk in chunks:
        rest = chunk
        while rest:
            piece, rest = decoder.decode(rest)
            if piece:
                yield piece
            await asyncio.sleep(0)
    decoder.end()


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
            if (event := self._take(self._whole_line(line.rstrip(b"\r\n")))) is not None:
                yield event
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            self._check_size(self._line_size)

    def end(self) -> Iterator[ServerEvent]:
        """Yield the event that only a final carriage return has ended, if there is one."""
        if self._after_cr and (event := self._take(self._whole_line(b""))) is not None:
            yield event

    def _whole_line(self, rest: bytes) -> bytes:
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
            return self._finish_event()
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
            case b"retry" if value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
                self._retry = int(value)
            case _:
                return None
        self._pending = True
        return None

    def _finish_event(self) -> ServerEvent | None:
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
