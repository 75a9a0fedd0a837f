"""The stdio transport: MCP on the standard input and output of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import anyio

from plait._support.threads import import_once
from plait.client.config.servers import StdioServer
from plait.client.protocol.exchange import PendingRequest, current_exchange
from plait.client.protocol.large_json import LARGE_BYTES
from plait.client.protocol.peer import closed
from plait.client.transports.oversize import lose_answer, lose_misread, read_large, too_large
from plait.client.transports.pipes import LineProtocol, LineSplitter, is_whole
from plait.client.transports.process import Child, process_of, signal_group
from plait.client.transports.streams import BorrowedStream, frames_of
from plait.client.transports.wire import Wire, receiving

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

logger = logging.getLogger("plait.client.transports.stdio")

_LOGGED_BYTES = 64 * 1024
"""Longer lines of standard error are not logged."""
_EXIT_GRACE_SECONDS = 0.5
"""How long to wait for exit code and stderr of a process whose output has ended."""
_HEAD_BYTES = 200
"""How much of the beginning and the end of a line is searched for its id."""
_TOOLS_CHANGED = b"notifications/tools/list_changed"
_LONGEST_ANNOUNCEMENT = 1000
"""Longer lines are not searched for an announcement."""
_SLICE = 20
"""So many lines are handled before other tasks have their turn."""
_NOISE_SLICE = 100
"""So many lines without a message are read before other tasks have their turn."""
_ORPHAN_GRACE_SECONDS = 5.0
"""How long the children of an ended process, such as a wrapper, may finish their calls."""


@dataclass(eq=False)
class StdioWrite(BorrowedStream):
    """The child's standard input, one message per line."""

    _child: Child

    @property
    def lines(self) -> LineProtocol:
        """What the child writes."""
        return self._child.stdout

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        exchange = current_exchange()
        if self._child.stdin.is_doomed():
            raise anyio.BrokenResourceError
        if exchange is not None:
            exchange.written = True
        try:
            end = await self._child.stdin.send(text.encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if exchange is not None:
                exchange.written = False
            raise
        if exchange is not None:
            exchange.end_offset = end


@dataclass(eq=False)
class StdioSender:
    """Writes requests of our own to the child's standard input, from any thread."""

    any_thread = True
    is_direct = True
    _child: Child
    _wire: Wire

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write one request."""
        request.written = True
        try:
            is_alone = len(self._wire.requests) <= 1
            request.end_offset = self._child.stdin.post(body + b"\n", is_alone=is_alone)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            request.written = False
            raise

    async def deliver(self, body: bytes) -> None:
        """Write a notification or an answer, and wait until the pipe has taken it."""
        if self._child.stdin.is_doomed():
            raise anyio.BrokenResourceError
        await self._child.stdin.send(body + b"\n")

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller no longer waits; one that is gone is not told."""
        del request
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._child.stdin.write(notification + b"\n")


@dataclass(eq=False)
class StdioRead(BorrowedStream):
    """The child's standard output, as messages."""

    _lines: LineProtocol
    _wire: Wire
    _server: StdioServer
    _messages: deque[JSONRPCMessage] = field(default_factory=deque["JSONRPCMessage"])

    async def __anext__(self) -> SessionMessage:
        import_once("mcp.shared.message")
        from mcp.shared.message import SessionMessage  # noqa: PLC0415  # imports the SDK

        for number in count(1):
            if self._messages:
                break
            if number % _NOISE_SLICE == 0:
                await asyncio.sleep(0)
            line = await self._lines.next_line()
            if line is None:
                raise StopAsyncIteration
            encoding, errors = self._server.encoding, self._server.encoding_error_handler
            if len(line) < LARGE_BYTES:
                framed = frames_of(line, encoding=encoding, errors=errors)
            else:
                limits = self._server.incoming
                framed = await read_large(
                    self._wire, line, limits, encoding=encoding, errors=errors
                )
            if framed.noise:
                self._wire.note_noise(line, "; logs belong on standard error")
                if not framed.messages:
                    self._messages.extend(lose_misread(self._wire, line))
            del line  # it may be large, and the next may be long in coming
            self._messages.extend(framed.messages)
        return SessionMessage(self._messages.popleft())


@asynccontextmanager
async def link_stdio(server: StdioServer, wire: Wire) -> AsyncGenerator[None]:
    """Start the server, and receive what it sends during the block, or raise `ConnectError`."""
    async with (
        open_stdio(server, wire) as (_, written),
        receiving(partial(_receive, written.lines, server, wire), wire),
    ):
        yield


async def _receive(lines: LineProtocol, server: StdioServer, wire: Wire) -> None:
    for number in count(1):
        line = await lines.next_line()
        if line is None:
            break
        await wire.receive(
            line,
            server.incoming,
            encoding=server.encoding,
            errors=server.encoding_error_handler,
            advice="; logs belong on standard error",
        )
        del line  # it may be large, and the next may be long in coming
        if number % _SLICE == 0:
            await asyncio.sleep(0)


@asynccontextmanager
async def open_stdio(
    server: StdioServer, wire: Wire
) -> AsyncGenerator[tuple[StdioRead, StdioWrite]]:
    """Start the server and yield its two streams, or raise `ConnectError`."""
    async with process_of(server, wire) as child, anyio.create_task_group() as tasks:
        wire.pid = child.pid
        if child.stderr is not None:
            wire.read_stderr = child.stderr.lines
            if logger.isEnabledFor(logging.DEBUG):
                child.stderr.on_data = partial(_log_stderr, wire, LineSplitter(_LOGGED_BYTES))
        tasks.start_soon(_watch_exit, child, wire)
        wire.before_end = partial(_find_end_reason, child, wire)
        child.stdout.take = partial(_take, wire)
        child.stdout.on_end = child.stdin.refuse
        child.stdout.splitter.on_oversize = partial(_refuse_line, child, wire)
        child.stdout.on_endless = partial(_end_session, child, wire)
        child.stdin.on_broken = partial(_fail_unwritten, wire)
        wire.use(StdioSender(child, wire))
        try:
            yield StdioRead(child.stdout, wire, server), StdioWrite(child)
        finally:
            tasks.cancel_scope.cancel()


def _take(wire: Wire, line: bytes) -> bool:
    """Take a line, and note an announcement that tools changed before the calls that follow.

    The SDK, which handles it, may have to be imported first.
    """
    is_short, notify = len(line) < _LONGEST_ANNOUNCEMENT, wire.on_notification
    if is_short and notify is not None and _TOOLS_CHANGED in line:
        notify(_TOOLS_CHANGED.decode(), None)
    return wire.take_line(line)


def _fail_unwritten(wire: Wire, written_bytes: int) -> None:
    """Fail the requests that the pipe did not take before it broke."""
    for request in tuple(wire.requests.values()):
        # One without an offset is just being posted by another thread.
        is_lost = request.end_offset and not is_whole(request.end_offset, written_bytes)
        if is_lost and wire.requests.pop(request.request_id, None):
            request.written = False
            request.fail(closed())


def _refuse_line(child: Child, wire: Wire, first: bytes, last: bytes) -> None:
    """Fail the request that a line answers which is too long to be kept."""
    reason = too_large(child.stdout.splitter.most_bytes)
    for line in lose_answer(wire, first[:_HEAD_BYTES], last[-_HEAD_BYTES:], reason):
        child.stdout.queue(line)


def _end_session(child: Child, wire: Wire) -> None:
    wire.end(too_large(child.stdout.splitter.most_bytes))


def _log_stderr(wire: Wire, splitter: LineSplitter, data: bytes) -> None:
    for line in splitter.feed(data):
        logger.debug("%s: %s", wire.server, wire.redacted_line(line))


async def _watch_exit(child: Child, wire: Wire) -> None:
    """End the session of an ended process, though its children may still answer."""
    wire.exit_code = await child.process.wait()
    await asyncio.sleep(0)  # its last output is read first
    wire.end("the server ended")
    await asyncio.sleep(_ORPHAN_GRACE_SECONDS)
    signal_group(child.pid, signal.SIGKILL)


async def _find_end_reason(child: Child, wire: Wire) -> None:
    """Find out why the output ended, and which requests the process never read."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_GRACE_SECONDS):
            wire.exit_code = await child.process.wait()
            if child.stderr is not None:
                await child.stderr.ended.wait()
    reached = child.stdin.reached_bytes()
    for exchange in (*wire.pending.values(), *wire.requests.values()):
        if exchange.end_offset and not is_whole(exchange.end_offset, reached):
            exchange.written = False
