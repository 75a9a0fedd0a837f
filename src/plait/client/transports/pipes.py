"""Reads lines of any length from a child process, and writes to its pipe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import cast

import anyio

from plait._support.loops import running_loop

_READ_AHEAD_BYTES = 1024 * 1024
"""Reading stops while so much has not been handled."""

_BUFFERS = 64
"""How many messages are written with one system call."""


class LineSplitter:
    """Splits chunks of bytes into lines in linear time, however long they are."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their newlines."""
        first, *rest = chunk.split(b"\n")
        self._partial.append(first)
        if not rest:
            return []
        lines = [b"".join(self._partial), *rest]
        self._partial = [lines.pop()]
        return lines

    def end(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        lines = [b"".join(self._partial)] if self._partial else []
        self._partial = []
        return lines


class LineProtocol(asyncio.Protocol):
    """Receives lines from a pipe; `take` may handle one at once, in the loop's own callback.

    It is offered a line only while everything before it has been read, so that the order of
    messages is kept.
    """

    def __init__(self) -> None:
        self.take: Callable[[bytes], bool] | None = None
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    async def next_line(self) -> bytes | None:
        """Return the next line without its newline, or `None` at the end."""
        while not self._lines:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        line = self._lines.popleft()
        self._queued_bytes -= len(line)
        if self._paused and self._queued_bytes < _READ_AHEAD_BYTES and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport, to stop it while too many lines wait."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Split what arrived, and hand each line on."""
        for line in self._splitter.feed(data):
            idle = self._waiter is not None and not self._lines
            if not (idle and self.take is not None and self.take(line)):
                self._queue(line)
        self._wake()
        if self._queued_bytes >= _READ_AHEAD_BYTES and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the lines."""
        del exc
        for line in self._splitter.end():
            self._queue(line)
        self._ended = True
        self._wake()

    def _queue(self, line: bytes) -> None:
        self._lines.append(line)
        self._queued_bytes += len(line)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and (self._lines or self._ended):
            self._waiter.set_result(None)


class PipeWriter:
    """Writes to a pipe from any thread, and knows how much of it was read.

    A message is queued as a whole: a caller that is cancelled while the pipe is full leaves no
    partial line.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._moved = asyncio.Event()
        self._broken = False
        self._consumed_at_end: int | None = None
        self._turn: asyncio.AbstractEventLoop | None = None
        """The loop in whose current turn something was posted."""
        self.is_doomed: Callable[[], bool] = lambda: False
        """Returns whether the reader is about to end, before something is posted."""
        self.on_broken: Callable[[int], None] | None = None
        """Called in the loop of the pipe, with the offset from which on nothing was written."""

    async def send(self, data: bytes) -> int:
        """Do what `write` does, and wait until the pipe has taken everything."""
        end = self.write(data)
        while self._written_bytes < end:
            self._check()
            self._moved.clear()
            await self._moved.wait()
        return end

    def write(self, data: bytes) -> int:
        """Write, or queue what the pipe cannot take; return the offset of the last byte.

        Raises:
            anyio.BrokenResourceError: The reader is gone.
            anyio.ClosedResourceError: This end was closed.
        """
        with self._lock:
            fd = self._check()
            self._queued_bytes += len(data)
            end = self._queued_bytes
            taken = 0
            if not self._queue:
                try:
                    taken = os.write(fd, data)
                except BlockingIOError:
                    pass
                except OSError:
                    self._broken = True
                    raise anyio.BrokenResourceError from None
                self._written_bytes += taken
                if taken == len(data):
                    return end
            self._queue.append(memoryview(data)[taken:])
        self._loop.call_soon_threadsafe(self._flush)
        return end

    def post(self, data: bytes) -> int:
        """Do what `write` does, with one system call for the second and later of a loop's turn."""
        loop = running_loop()
        if loop is None or loop is not self._turn:
            if self.is_doomed():
                raise anyio.BrokenResourceError
            end, self._turn = self.write(data), loop
            if loop is not None:
                loop.call_soon(self._end_turn)
            return end
        with self._lock:
            self._check()
            self._queue.append(memoryview(data))
            self._queued_bytes += len(data)
            return self._queued_bytes

    def consumed_bytes(self) -> int:
        """Return how many of the written bytes the reader has taken out of the pipe."""
        if self._consumed_at_end is not None:
            return self._consumed_at_end
        return self._written_bytes - self._unread_bytes()

    def close(self) -> None:
        """Stop writing; closing the file descriptor is up to its owner."""
        with self._lock:
            if self._fd is not None:
                self._consumed_at_end = self.consumed_bytes()
                self._loop.remove_writer(self._fd)
                self._fd = None
                self._moved.set()

    def _check(self) -> int:
        if self._fd is None:
            raise anyio.ClosedResourceError
        if self._broken:
            raise anyio.BrokenResourceError
        return self._fd

    def _end_turn(self) -> None:
        """Write what was posted in this turn of the loop that runs here."""
        self._turn = None
        if self._queue:
            with self._lock, contextlib.suppress(BlockingIOError, OSError):
                self._write_queue()
            if self._queue:
                self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        """Write what is queued, in the loop of the pipe."""
        with self._lock:
            if self._fd is None:
                return
            try:
                self._write_queue()
                self._loop.remove_writer(self._fd)
            except BlockingIOError:
                self._loop.add_writer(self._fd, self._flush)
            except OSError:
                self._broken = True
                self._loop.remove_writer(self._fd)
                if self.on_broken is not None:
                    self.on_broken(self._written_bytes)
            self._moved.set()

    def _write_queue(self) -> None:
        while self._queue and self._fd is not None:
            taken = os.writev(self._fd, [*islice(self._queue, _BUFFERS)])
            self._written_bytes += taken
            while self._queue and taken >= len(self._queue[0]):
                taken -= len(self._queue.popleft())
            if taken:
                self._queue[0] = self._queue[0][taken:]

    def _unread_bytes(self) -> int:
        """Return the number of unread bytes in the pipe; zero where the system cannot tell."""
        if self._fd is None or not sys.platform.startswith("linux"):
            return 0
        import fcntl  # noqa: PLC0415  # POSIX only
        import termios  # noqa: PLC0415

        answer = fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
