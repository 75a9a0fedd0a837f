"""Reads lines of any length from a child process, and writes to its pipe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import cast

import anyio
from typing_extensions import override

from plait._support.threads import running_loop

MAX_READ_AHEAD_BYTES = 1024 * 1024
"""Reading stops while so much has not been handled."""

_PIPE_BYTES = 64 * 1024
"""The usual size of a pipe; a larger buffer would be allocated for every read, and stay empty."""

_ENDLESS = 2
"""A line of so many times the most bytes is taken for one without end."""

MAX_HEAD_BYTES = 256 * 1024
"""How much is kept of the beginning of a line that is too long."""

MAX_BUFFERS = 16
"""How many messages are written with one system call, while the reader handles earlier ones."""


_STAT_BYTES = 1024
_ALIVE_SECONDS = 0.0001
"""How long the status of a process counts as known: many calls at once read it once."""
_KILL_BIT = 1 << (signal.SIGKILL - 1) if os.name == "posix" else 0


class LineSplitter:
    """Splits chunks of bytes into lines in linear time, however long they are.

    A line of more than `most_bytes` is not kept: `on_oversize` gets its beginning and its end.
    """

    def __init__(
        self,
        most_bytes: int = sys.maxsize,
        on_oversize: Callable[[bytes, bytes], None] = lambda _first, _last: None,
    ) -> None:
        self.most_bytes = most_bytes
        self.on_oversize = on_oversize
        # Not a list of chunks: each needs some forty bytes of its own, and may have two.
        self._partial = bytearray()
        self._head: bytes | None = None
        """The beginning of a line that is not kept."""
        self.partial_bytes = 0
        """How long the line is that has no end yet, with what is not kept of it."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their newlines."""
        first, *rest = chunk.split(b"\n")
        self.partial_bytes += len(first)
        if self.partial_bytes > self.most_bytes:
            if self._head is None:
                self._head, self._partial = bytes(self._partial[:MAX_HEAD_BYTES]), bytearray()
            if rest:
                self.on_oversize(self._head, first)
                self._begin_line(rest.pop())
            return rest
        if not rest:
            self._partial += first
            return []
        if self._partial:
            self._partial += first
            first = bytes(self._partial)
        self._begin_line(rest.pop())
        return [first, *rest]

    def _begin_line(self, first: bytes) -> None:
        self._partial, self._head = bytearray(first), None
        self.partial_bytes = len(first)

    def end(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        lines = [bytes(self._partial)] if self._partial else []
        self._begin_line(b"")
        return lines


class LineProtocol(asyncio.Protocol):
    """Receives lines from a pipe; `take` may handle one at once, in the loop's own callback.

    It is offered a line only while everything before it has been read, so that the order of
    messages is kept, and no large one, which takes longer.
    """

    def __init__(self, most_bytes: int = sys.maxsize) -> None:
        self.take: Callable[[bytes], bool] | None = None
        self.on_end: Callable[[], None] | None = None
        """Called when the pipe has ended, before the last lines are read."""
        self.on_endless: Callable[[], None] | None = None
        """Called when a line is too long by far, after which nothing more is read."""
        self.splitter = LineSplitter(most_bytes)
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    async def next_line(self) -> bytes | None:
        """Return the next line that was not taken, without its newline, or `None` at the end."""
        while not self._lines and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._lines:
            return None
        line = self._lines.popleft()
        self._queued_bytes -= len(line)
        if (
            self._paused
            and self._queued_bytes < MAX_READ_AHEAD_BYTES
            and self._transport is not None
        ):
            self._paused = False
            self._transport.resume_reading()
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport, to stop it while too many lines wait."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Split what arrived, and hand each line on."""
        for line in self.splitter.feed(data):
            idle = self._waiter is not None and not self._lines and len(line) < MAX_READ_AHEAD_BYTES
            if not (idle and self.take is not None and self.take(line)):
                self._queue(line)
        self._wake()
        if self.splitter.partial_bytes > _ENDLESS * self.splitter.most_bytes:
            self.splitter.end()
            if self.on_endless is not None:
                self.on_endless()
            if self._transport is not None:
                self._transport.close()
            self._ended = True
            self._wake()
        if self._queued_bytes >= MAX_READ_AHEAD_BYTES and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the lines."""
        del exc
        for line in self.splitter.end():
            self._queue(line)
        self._ended = True
        if self.on_end is not None:
            self.on_end()
        self._wake()

    def _queue(self, line: bytes) -> None:
        self._lines.append(line)
        self._queued_bytes += len(line)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and (self._lines or self._ended):
            self._waiter.set_result(None)


class PipeReader(asyncio.ReadTransport):
    """Reads a pipe for a protocol, which may pause it."""

    def __init__(self, fd: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        os.set_blocking(fd, False)
        self._fd = fd
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        protocol.connection_made(self)
        self.resume_reading()

    @override
    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""
        self._loop.remove_reader(self._fd)

    @override
    def resume_reading(self) -> None:
        """Go on reading."""
        if not self._is_closed:
            self._loop.add_reader(self._fd, self._read)

    @override
    def close(self) -> None:
        """Stop reading; closing the file descriptor is up to its owner."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._fd)
            self._protocol.connection_lost(None)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _PIPE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._protocol.data_received(data)
        else:
            self.close()


class TailProtocol(asyncio.Protocol):
    """Reads a pipe as fast as it can, and keeps the last of it."""

    def __init__(self, most_bytes: int) -> None:
        self.on_data: Callable[[bytes], None] | None = None
        """Gets everything that arrives, if set."""
        self.ended = asyncio.Event()
        self._most_bytes = most_bytes
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._is_cut = False

    def data_received(self, data: bytes) -> None:
        """Keep what arrived, in place of what is too old."""
        self._chunks.append(data)
        self._size += len(data)
        while self._size - len(self._chunks[0]) >= self._most_bytes:
            self._size -= len(self._chunks.popleft())
            self._is_cut = True
        if self.on_data is not None:
            self.on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        del exc
        self.ended.set()

    def lines(self) -> list[bytes]:
        """Return the last lines, whole but for the newest."""
        lines = b"".join(self._chunks).split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines[1:] if self._is_cut else lines


@dataclass(slots=True)
class ReaderStatus:
    """The status of the process that reads a pipe."""

    stat_fd: int | None
    """A descriptor of its `/proc/PID/stat`, where available."""
    has_ended: Callable[[], bool]
    """Returns whether it was seen to end."""
    _alive_at: float = 0.0
    """When its status was last read, on the monotonic clock."""

    def is_doomed(self) -> bool:
        """Return whether the process is dead, or has a pending SIGKILL.

        A dying thread may still read from the pipe on its way back from the kernel; afterwards the
        request would look like one that was run.
        """
        if self.stat_fd is None:
            return self.has_ended()
        now = time.monotonic()
        if now - self._alive_at < _ALIVE_SECONDS:
            return False
        self._alive_at = now
        try:
            stat = os.pread(self.stat_fd, _STAT_BYTES, 0)
        except OSError:
            return True
        # What follows the name of the program: its state, and as the 31st field the pending
        # signals of its main thread, to which the kernel adds a SIGKILL for the process.
        fields = stat[stat.rindex(b")") :].split(b" ", 30)
        return fields[1] in b"ZX" or bool(int(fields[29]) & _KILL_BIT)


def is_whole(end_offset: int, bytes_count: int) -> bool:
    """Return whether the line that ends there is in so many bytes, maybe without its newline."""
    return bytes_count >= end_offset - 1


class PipeWriter:
    """Writes to a pipe from any thread, and knows how much of it can have been read.

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
        self._reached_at_end: int | None = None
        self._turn: asyncio.AbstractEventLoop | None = None
        """The loop at the end of whose current turn the posted messages are written."""
        self.is_doomed: Callable[[], bool] = lambda: False
        """Returns whether the reader is about to end, before something posted is written."""
        self.on_broken: Callable[[int], None] | None = None
        """Called in the loop of the pipe, with the offset from which on nothing was written."""

    async def send(self, data: bytes) -> int:
        """Do what `write` does, and wait until the pipe has taken everything."""
        end = self.write(data)
        while self._written_bytes < end:
            if is_whole(end, self._written_bytes) and (self._broken or self._fd is None):
                break  # it may be read, so it must not look like one that was not sent
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

    def post(self, data: bytes, *, is_alone: bool = False) -> int:
        """Do what `write` does, but write all that is posted in a turn of the loop together.

        A message that is alone does not wait for others.
        """
        loop = None if is_alone else running_loop()
        if loop is None:
            if self.is_doomed():
                raise anyio.BrokenResourceError
            return self.write(data)
        with self._lock:
            self._check()
            self._queue.append(memoryview(data))
            self._queued_bytes += len(data)
            end, count = self._queued_bytes, len(self._queue)
        if loop is not self._turn:
            self._turn = loop
            loop.call_soon(self._end_turn)
        elif count >= MAX_BUFFERS:
            self._write_posted()
        return end

    def refuse(self) -> None:
        """Write nothing more, because nobody could answer it; called in the loop of the pipe."""
        self._broken = True
        self._flush()

    def reached_bytes(self) -> int:
        """Return how many of the written bytes were read, or may still be read.

        What is left in the pipe is lost only when no process has its other end: closing this end
        leaves the bytes to a reader that was stopped, or to a child of it.
        """
        # Another thread may just have written what is not counted yet, and was read already.
        with self._lock:
            return self._reached()

    def _reached(self) -> int:
        if self._reached_at_end is not None:
            return self._reached_at_end
        if self._fd is None or not sys.platform.startswith("linux"):
            return self._written_bytes  # the system cannot tell
        poll = select.poll()
        poll.register(self._fd, 0)
        if not poll.poll(0):  # without a reader, the pipe reports an error
            return self._written_bytes
        import fcntl  # noqa: PLC0415  # POSIX only
        import termios  # noqa: PLC0415

        unread = fcntl.ioctl(self._fd, termios.FIONREAD, b"\0\0\0\0")
        return self._written_bytes - int.from_bytes(unread, sys.byteorder)

    def close(self) -> None:
        """Stop writing; closing the file descriptor is up to its owner."""
        with self._lock:
            if self._fd is not None:
                self._reached_at_end = self._reached()
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
            self._write_posted()

    def _write_posted(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError, OSError):
            # What was refused in this turn has failed as not sent, so it must not be written.
            if self._broken or self.is_doomed():
                self._broken = True
            else:
                self._write_queue()
        if self._queue:
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        """Write what is queued, in the loop of the pipe."""
        with self._lock:
            if self._fd is None:
                return
            try:
                if self._broken:
                    raise BrokenPipeError
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
            taken = os.writev(self._fd, [*islice(self._queue, MAX_BUFFERS)])
            self._written_bytes += taken
            while self._queue and taken >= len(self._queue[0]):
                taken -= len(self._queue.popleft())
            if taken:
                self._queue[0] = self._queue[0][taken:]
