"""Reads lines of any length from a child process, and writes to its pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from typing import Protocol

import anyio

_CHUNK_BYTES = 256 * 1024


class ByteSource(Protocol):
    """A source of bytes."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return up to `n` bytes, or nothing at the end."""
        ...


class LineReader:
    """Splits a byte stream into lines in linear time, however long they are."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._ended = False

    async def next_line(self) -> bytes | None:
        """Return the next line without its newline, or `None` at the end."""
        while not self._lines:
            if self._ended:
                return None
            await self._fill()
        return self._lines.popleft()

    async def _fill(self) -> None:
        chunk = await self._source.read(_CHUNK_BYTES)
        if not chunk:
            self._ended = True
            if self._partial:
                self._lines.append(b"".join(self._partial))
                self._partial.clear()
            return
        first, *rest = chunk.split(b"\n")
        self._partial.append(first)
        for piece in rest:
            self._lines.append(b"".join(self._partial))
            self._partial = [piece]


class PipeWriter:
    """Writes to a pipe, and knows how much of it was read.

    A message is queued as a whole: a caller that is cancelled while the pipe is full leaves no
    partial line.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._loop = asyncio.get_running_loop()
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._moved = asyncio.Event()
        self._broken = False
        self._consumed_at_end: int | None = None

    async def send(self, data: bytes) -> int:
        """Write everything, waiting while the pipe is full; return the offset of the last byte.

        Raises:
            anyio.BrokenResourceError: The reader is gone.
            anyio.ClosedResourceError: This end was closed.
        """
        self._check()
        self._queue.append(memoryview(data))
        self._queued_bytes += len(data)
        end = self._queued_bytes
        self._flush()
        while self._written_bytes < end:
            self._check()
            self._moved.clear()
            await self._moved.wait()
        return end

    def consumed_bytes(self) -> int:
        """Return how many of the written bytes the reader has taken out of the pipe."""
        if self._consumed_at_end is not None:
            return self._consumed_at_end
        return self._written_bytes - self._unread_bytes()

    def close(self) -> None:
        """Stop writing; closing the file descriptor is up to its owner."""
        if self._fd is not None:
            self._consumed_at_end = self.consumed_bytes()
            self._loop.remove_writer(self._fd)
            self._fd = None
            self._moved.set()

    def _check(self) -> None:
        if self._fd is None:
            raise anyio.ClosedResourceError
        if self._broken:
            raise anyio.BrokenResourceError

    def _flush(self) -> None:
        if self._fd is None:
            return
        try:
            while self._queue:
                taken = os.write(self._fd, self._queue[0])
                self._written_bytes += taken
                rest = self._queue[0][taken:]
                if rest:
                    self._queue[0] = rest
                else:
                    self._queue.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._flush)
        except OSError:
            self._broken = True
            self._loop.remove_writer(self._fd)
        else:
            self._loop.remove_writer(self._fd)
        self._moved.set()

    def _unread_bytes(self) -> int:
        """Return the number of unread bytes in the pipe; zero where the system cannot tell."""
        if self._fd is None or not sys.platform.startswith("linux"):
            return 0
        import fcntl  # noqa: PLC0415  # POSIX only
        import termios  # noqa: PLC0415

        answer = fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
