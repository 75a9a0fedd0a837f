"""Serves one client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio

from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.transports.pipes import LineProtocol, PipeReader, PipeWriter

if TYPE_CHECKING:
    from plait.client.protocol.exchange import PendingRequest
    from plait.serve.session import ClientSession

DRAIN_SECONDS: Final = 5.0
"""How long requests that are under way at the end of input may take."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2


async def serve_stdio(session: ClientSession) -> None:
    """Serve until the input ends, or a signal arrives."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stopped.set)
    with _diverted(_STDIN) as source, _diverted(_STDOUT) as sink:
        lines = LineProtocol(DEFAULT_LIMITS.message_bytes)
        reader, writer = PipeReader(source, lines), PipeWriter(sink)
        async with session.open():
            session.peer.use(_LineSender(writer))
            receiving = loop.create_task(_receive(session, lines))
            stopping = loop.create_task(stopped.wait())
            try:
                await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                requests = session.peer.server_requests.values()
                if under_way := [one.task for one in requests if one.task is not None]:
                    await asyncio.wait(under_way, timeout=DRAIN_SECONDS)
            finally:
                for task in (receiving, stopping):
                    task.cancel()
                await asyncio.gather(receiving, stopping, return_exceptions=True)
                reader.close()
                writer.close()


async def _receive(session: ClientSession, lines: LineProtocol) -> None:
    while (line := await lines.next_line()) is not None:
        if line.strip() and not session.peer.take_line(line):
            await session.peer.receive(line)


class _LineSender:
    """Writes messages as lines."""

    any_thread = False
    is_direct = True

    def __init__(self, writer: PipeWriter) -> None:
        self._writer = writer

    def send(self, body: bytes, request: PendingRequest) -> None:
        request.written = True
        self._writer.write(body + b"\n")

    async def deliver(self, body: bytes) -> None:
        try:
            await self._writer.send(body + b"\n")
        except OSError:
            raise anyio.BrokenResourceError from None

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        del request
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._writer.write(notification + b"\n")


@contextmanager
def _diverted(number: int) -> Generator[int]:
    """Move a standard stream to another file descriptor during the block.

    What else in this process reads finds an empty input; what else writes, standard error.
    """
    moved, blocks = os.dup(number), os.get_blocking(number)
    instead = os.open(os.devnull, os.O_RDONLY) if number == _STDIN else os.dup(_STDERR)
    os.dup2(instead, number)
    os.close(instead)
    try:
        yield moved
    finally:
        os.set_blocking(moved, blocks)  # a terminal is shared with the shell
        os.dup2(moved, number)
        os.close(moved)
