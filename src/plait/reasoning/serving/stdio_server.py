"""The stdio transport of the server: every line is answered, and the end of input ends it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, TypeAlias, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

logger = logging.getLogger(__name__)

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""A longer line is refused, and not kept in memory."""

DRAIN_SECONDS: Final = 5.0
"""How long requests that are under way at the end of input may take."""

_CHUNK_BYTES: Final = 64 * 1024
_STDIN, _STDOUT, _STDERR = 0, 1, 2

Incoming: TypeAlias = SessionMessage | Exception
RequestId: TypeAlias = str | int


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
]:
    """Open standard input and output as the streams of a server.

    A line that is no message of JSON-RPC is answered with an error. The receiving end is closed at
    the end of input, once the requests before it are answered. Meanwhile nothing else in this
    process can read or write on the wire: it finds an empty input, and standard error.
    """
    with _divert(_STDIN) as source, _divert(_STDOUT) as sink:
        wire = _Wire(source, sink)
        async with anyio.create_task_group() as group:
            group.start_soon(wire.receive)
            group.start_soon(wire.send)
            yield wire.incoming, wire.outgoing
            group.cancel_scope.cancel()


@contextmanager
def _divert(number: int) -> Generator[int]:
    """Move a standard stream to another file descriptor while the block runs.

    It is not closed afterwards: a thread may still wait for it.
    """
    moved = os.dup(number)
    instead = os.open(os.devnull, os.O_RDONLY) if number == _STDIN else os.dup(_STDERR)
    os.dup2(instead, number)
    os.close(instead)
    try:
        yield moved
    finally:
        os.dup2(moved, number)


class _Wire:
    """Lines of one client as messages, and back."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._to_server, self.incoming = anyio.create_memory_object_stream[Incoming](0)
        self.outgoing, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._unanswered: set[RequestId] = set()
        self._all_answered = anyio.Event()
        self._is_ended = False

    async def receive(self) -> None:
        """Pass messages on until the input ends."""
        sender, lines = anyio.create_memory_object_stream[bytes | None](16)
        loop = asyncio.get_running_loop()

        def read() -> None:
            try:
                for line in read_lines(self._source):
                    asyncio.run_coroutine_threadsafe(sender.send(line), loop).result()
                loop.call_soon_threadsafe(sender.close)
            except RuntimeError:
                return  # the loop is closed

        # A daemon, since nothing can wake a thread that waits for input.
        threading.Thread(target=read, name="plait-stdin", daemon=True).start()
        async with self._to_server, lines:
            async for line in lines:
                await self._accept(line)
            self._is_ended = True
            if self._unanswered:
                with anyio.move_on_after(DRAIN_SECONDS):
                    await self._all_answered.wait()

    async def _accept(self, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        message = message_from_line(line)
        match message:
            case types.JSONRPCError():
                await self._write(message)
                return
            case types.JSONRPCRequest():
                self._unanswered.add(message.id)
            case types.JSONRPCNotification(method="notifications/cancelled"):
                self._settle((message.params or {}).get("requestId"))
            case _:
                pass
        await self._to_server.send(SessionMessage(message))

    async def send(self) -> None:
        """Write messages until the server ends."""
        async with self._from_server:
            async for item in self._from_server:
                await self._write(item.message)
                if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._settle(item.message.id)

    def _settle(self, key: object) -> None:
        self._unanswered.discard(cast("RequestId", key))
        if self._is_ended and not self._unanswered:
            self._all_answered.set()

    async def _write(self, message: types.JSONRPCMessage) -> None:
        data = line_from_message(message)
        try:
            await anyio.to_thread.run_sync(_write_all, self._sink, data, abandon_on_cancel=True)
        except OSError:
            # The client is gone: there is nothing left to wait for.
            self._unanswered.clear()
            self._all_answered.set()


def read_lines(source: int) -> Iterator[bytes | None]:
    """Yield the lines of a file descriptor; `None` stands for one that is too long."""
    kept = bytearray()
    is_too_long = False
    # An error while reading ends the input, too.
    with suppress(OSError):
        while chunk := os.read(source, _CHUNK_BYTES):
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                is_too_long = is_too_long or len(kept) + len(part) > MAX_LINE_BYTES
                yield None if is_too_long else bytes(kept + part)
                kept.clear()
                is_too_long = False
            kept += rest
            if len(kept) > MAX_LINE_BYTES:
                kept.clear()
                is_too_long = True
    if kept or is_too_long:
        yield None if is_too_long else bytes(kept)


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def message_from_line(line: bytes | None) -> types.JSONRPCMessage:
    """Parse a line; one that is no message becomes the error that answers it."""
    if line is None:
        return _error(None, types.INVALID_REQUEST, f"A line has at most {MAX_LINE_BYTES} bytes")
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        if not (isinstance(message, types.JSONRPCNotification) and b'"id"' in line):
            return message
        problem = "the id must be a string or a whole number"
    except ValidationError as error:
        message = None
        problem = error.errors(include_url=False, include_input=False)[0]["msg"]
    try:
        value: object = json.loads(line)
    except RecursionError:
        return _error(None, types.PARSE_ERROR, "Parse error: nested too deeply")
    except ValueError as error:
        return _error(None, types.PARSE_ERROR, f"Parse error: {error}")
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if message is not None and "id" not in fields:
        return message
    key = fields.get("id")
    known = key if isinstance(key, str | int) and not isinstance(key, bool) else None
    if isinstance(known, str) and not known.isascii():
        known = known.encode("utf-8", "replace").decode()
    return _error(known, types.INVALID_REQUEST, f"Invalid request: {problem}")


def line_from_message(message: types.JSONRPCMessage) -> bytes:
    """Return a message as a line; one that cannot be written becomes an error of its request."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeError):
        logger.exception("an answer could not be written")
        key = getattr(message, "id", None)
        failed = _error(key, types.INTERNAL_ERROR, "The answer could not be written as JSON")
        return line_from_message(failed)


def _error(key: RequestId | None, code: int, text: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=key, error=types.ErrorData(code=code, message=text))
