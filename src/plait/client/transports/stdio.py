"""The stdio transport: MCP on the standard input and output of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import anyio

from plait.client.config.servers import StdioServer
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import closed
from plait.client.protocol.reading import too_large
from plait.client.transports import process
from plait.client.transports.pipes import LineSplitter, is_whole
from plait.client.transports.process import Child, process_of, signal_group
from plait.client.transports.wire import Wire, receiving

logger = logging.getLogger("plait.client.transports.stdio")

MAX_LOGGED_BYTES = 64 * 1024
"""Longer lines of standard error are not logged."""
_EXIT_GRACE_SECONDS = 0.5
"""How long to wait for exit code and stderr of a process whose output has ended."""
_ORPHAN_GRACE_SECONDS = 5.0
"""How long the children of an ended process, such as a wrapper, may finish their calls."""
_SLICE = 20
"""So many lines are handled before other tasks have their turn."""


@asynccontextmanager
async def link_stdio(server: StdioServer, wire: Wire) -> AsyncGenerator[None]:
    """Start the server, and receive what it sends during the block, or raise `ConnectError`."""
    if not process.IS_POSIX:
        # It needs the MCP SDK.
        from plait.client.transports.windows import link_on_windows  # noqa: PLC0415

        async with link_on_windows(server, wire):
            yield
        return
    async with process_of(server, wire) as child:
        sender = StdioSender(child, server, wire)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.watch_exit)
            async with receiving(sender.receive, wire, sender.find_end_reason):
                yield
            tasks.cancel_scope.cancel()


class StdioSender:
    """The pipes of a child process: messages are written from any thread.

    A pipe breaks a moment before it is known how its process has ended. What was not sent fails
    only then, since the exit code and the last line of standard error explain why.
    """

    any_thread = True
    is_direct = True

    def __init__(self, child: Child, server: StdioServer, wire: Wire) -> None:
        self._child = child
        self._server = server
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._unsent: list[PendingRequest] = []
        self._has_ended = asyncio.Event()
        """Whether it is known how the process has ended."""
        self._stderr_lines = LineSplitter(MAX_LOGGED_BYTES)
        wire.pid = child.pid
        if child.stderr is not None:
            wire.read_stderr = child.stderr.lines
            if logger.isEnabledFor(logging.DEBUG):
                child.stderr.on_data = self._log_stderr
        output = child.stdout
        output.take = wire.take_line
        output.on_end = child.stdin.refuse
        refusal = too_large(output.splitter.most_bytes)
        output.splitter.on_oversize = partial(wire.lose_answer, reason=refusal)
        output.on_endless = partial(wire.end, refusal)
        child.stdin.on_broken = self._lose_unwritten
        wire.use(self)

    # What is sent

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write one request."""
        request.written = True
        try:
            # The loop of a thread that blocks has no next turn.
            is_alone = request.blocks or len(self._wire.requests) - self._wire.streams <= 1
            request.end_offset = self._child.stdin.post(body + b"\n", is_alone=is_alone)
        except anyio.BrokenResourceError:
            request.written = False
            if self._has_ended.is_set():
                raise
            self._loop.call_soon_threadsafe(self._lose, request)
        except anyio.ClosedResourceError:
            request.written = False
            raise

    async def deliver(self, body: bytes) -> None:
        """Write a notification or an answer, and wait until the pipe has taken it."""
        try:
            if self._child.stdin.is_doomed():
                raise anyio.BrokenResourceError
            await self._child.stdin.send(body + b"\n")
        except anyio.BrokenResourceError:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_GRACE_SECONDS):
                    await self._has_ended.wait()
            raise

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller no longer waits; one that is gone is not told."""
        del request
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._child.stdin.write(notification + b"\n")

    def _lose_unwritten(self, written_bytes: int) -> None:
        """Give up the requests that the pipe did not take before it broke."""
        for request in tuple(self._wire.requests.values()):
            # One without an offset is just being posted by another thread.
            if request.end_offset and not is_whole(request.end_offset, written_bytes):
                request.written = False
                self._lose(request)

    def _lose(self, request: PendingRequest) -> None:
        self._unsent.append(request)
        if self._has_ended.is_set():
            self._fail_unsent()
        else:
            self._loop.call_later(_EXIT_GRACE_SECONDS, self._fail_unsent)

    def _fail_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for request in unsent:
            if self._wire.requests.pop(request.request_id, None) is not None:
                request.fail(closed())
        self._wire.check_drained()

    # What arrives

    async def receive(self) -> None:
        """Handle the lines of the process until its output ends."""
        for number in count(1):
            line = await self._child.stdout.next_line()
            if line is None:
                break
            await self._wire.receive(
                line,
                self._server.incoming,
                encoding=self._server.encoding,
                errors=self._server.encoding_error_handler,
                advice="; logs belong on standard error",
            )
            del line  # it may be large, and the next may be long in coming
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    def _log_stderr(self, data: bytes) -> None:
        for line in self._stderr_lines.feed(data):
            logger.debug("%s: %s", self._wire.server, self._wire.redacted_line(line))

    # How the process ends

    async def watch_exit(self) -> None:
        """End the session of an ended process, though its children may still answer."""
        self._wire.exit_code = await self._child.process.wait()
        await asyncio.sleep(0)  # its last output is read first
        self._wire.end("the server ended")
        self._has_ended.set()
        self._fail_unsent()
        await asyncio.sleep(_ORPHAN_GRACE_SECONDS)
        signal_group(self._child.pid, signal.SIGKILL)

    async def find_end_reason(self) -> None:
        """Find out why the output ended, and which requests the process never read."""
        child = self._child
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_GRACE_SECONDS):
                self._wire.exit_code = await child.process.wait()
                if child.stderr is not None:
                    await child.stderr.ended.wait()
        reached = child.stdin.reached_bytes()
        for request in tuple(self._wire.requests.values()):
            if request.end_offset and not is_whole(request.end_offset, reached):
                request.written = False
