"""Serves one client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.protocol.peer import RequestError
from plait.client.transports.pipes import LineProtocol, PipeReader, PipeWriter

if TYPE_CHECKING:
    from plait.client.protocol.exchange import PendingRequest
    from plait.serve.answer_store import AnswerStore
    from plait.serve.first_answers import Conversation
    from plait.serve.session import ClientSession

DRAIN_SECONDS: Final = 5.0
"""How long requests that are under way at the end of input may take."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2


async def serve_stdio(
    session: ClientSession, begun: Conversation | None = None, store: AnswerStore | None = None
) -> None:
    """Serve until the input ends, or a signal arrives; a conversation that has begun goes on."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stopped.set)
    with _diverted(_STDIN) as source, _diverted(_STDOUT) as sink:
        lines = LineProtocol(DEFAULT_LIMITS.message_bytes)
        if begun is not None:
            lines.data_received(begun.unread)
        reader, writer = PipeReader(source, lines), PipeWriter(sink)
        async with session.open():
            session.peer.use(_LineSender(writer))
            unsent = b"" if begun is None else bytes(begun.unsent)
            sending = loop.create_task(writer.send(unsent))
            if begun is not None and begun.opening is not None:
                with suppress(RequestError):  # what follows will fail in the same way
                    await loop.create_task(session.answer(0, *begun.opening))
            receiving = loop.create_task(_receive(session, lines))
            stopping = loop.create_task(stopped.wait())
            tasks: list[asyncio.Task[Any]] = [sending, receiving, stopping]
            if store is not None:
                tasks.append(loop.create_task(store.run()))
            try:
                await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
                requests = session.peer.server_requests.values()
                under_way = [one.task for one in requests if one.task is not None]
                await asyncio.wait([sending, *under_way], timeout=DRAIN_SECONDS)
                if store is not None:
                    await store.store()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
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
