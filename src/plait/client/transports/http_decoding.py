"""Decompresses the bodies of HTTP responses, a piece at a time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

import httpx2

PIECE_BYTES: Final = 32 * 1024
"""How much is decompressed, or read as events, before other tasks have their turn: it may be tens
of thousands of lines."""

MAX_IGNORED_BYTES: Final = 64 * 1024
"""What may follow a body that is complete, such as padding or a line end."""

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
                    self._ignore(given)
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

    def _ignore(self, data: bytes) -> None:
        self._ignored_bytes += len(data)
        if self._ignored_bytes > MAX_IGNORED_BYTES:
            raise httpx2.DecodingError("the compressed response does not end where its data does")


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
