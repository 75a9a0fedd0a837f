"""Records sessions of the MCP SDK: those over Streamable HTTP, and with servers in this process.

Other sessions have `replay.link_tape`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp.client._transport import TransportStreams
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from plait.client.protocol.exchange import current_exchange
from plait.client.protocol.reading import coerced_id
from plait.client.transports.replay import CANCELLED, TapePlayer, TapeRecorder, outcome_of
from plait.client.transports.streams import BorrowedStream, MergedRead, start_task
from plait.client.transports.tape import Tape
from plait.client.transports.wire import Wire


@asynccontextmanager
async def open_taped(
    tape: Tape, wire: Wire, live: AbstractAsyncContextManager[TransportStreams]
) -> AsyncGenerator[TransportStreams]:
    """Connect to the server and record, but for what is on the tape."""
    async with live as (read, write):
        recorder = TapeRecorder(tape, wire)
        received = MergedRead(_RecordedRead(read, recorder))
        tasks: set[asyncio.Task[None]] = set()
        pump = start_task(received.pump(), tasks)

        async def push(message: dict[str, Any]) -> None:
            played = jsonrpc_message_adapter.validate_python(message)
            received.push(SessionMessage(played), contextvars.copy_context())

        player = TapePlayer(tape, wire, push, cut=pump.cancel, has_server=True)
        try:
            yield received, _TapedWrite(write, player, recorder)
        finally:
            await player.stop()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)


class _TapedWrite(BorrowedStream):
    """The sending stream: leaves to the player what is on the tape."""

    def __init__(
        self, inner: WriteStream[SessionMessage], player: TapePlayer, recorder: TapeRecorder
    ) -> None:
        self._inner, self._player, self._recorder = inner, player, recorder

    async def send(self, item: SessionMessage, /) -> None:
        """Play the answer to a request, or pass the message on to the server."""
        match item.message:
            case JSONRPCRequest(id=request_id, method=method, params=params):
                if self._player.plays(request_id, method, params):
                    if (exchange := current_exchange()) is not None:
                        exchange.written = True
                    return
                self._recorder.begin(request_id, method, params)
            case JSONRPCResponse() | JSONRPCError() as answer:
                outcome = outcome_of(answer.model_dump(by_alias=True))
                if self._player.answer(coerced_id(answer.id), outcome):
                    return
                self._recorder.answer(coerced_id(answer.id), outcome)
            case JSONRPCNotification(method=method, params=params):
                if method == CANCELLED and self._player.cancel((params or {}).get("requestId")):
                    return
        await self._inner.send(item)


class _RecordedRead(BorrowedStream):
    """The receiving stream of a server, each of whose messages is recorded."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], recorder: TapeRecorder
    ) -> None:
        self._inner, self._recorder = inner, recorder

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context the last item was sent in, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        if not isinstance(item, SessionMessage):
            return item
        context = self.last_context
        exchange = None if context is None else context.run(current_exchange)
        match item.message:
            case JSONRPCRequest(id=question_id, method=method, params=params):
                self._recorder.ask(coerced_id(question_id), method, params, exchange)
            case JSONRPCNotification(method=method, params=params):
                self._recorder.notify(method, params, exchange)
            case answer:
                outcome = answer.model_dump(by_alias=True)
                self._recorder.end(coerced_id(answer.id), outcome)
        return item
