"""Streams with the SDK's interface, and finding JSON-RPC messages in the lines that servers write.

A line may hold a banner, a byte order mark, half of another line, invalid UTF-8, or two messages.
What is not a message is noise.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import anyio
from anyio.abc import AsyncResource
from pydantic import ValidationError

from plait._support import mcp_types as types
from plait.client.protocol.nesting import shallow

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

Item: TypeAlias = "SessionMessage | Exception | Callable[[], None]"

_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()
_MOST_FAILURES = 64
"""How many positions of a noisy line are tried as the start of a message."""
_MOST_WAITING = 1000
"""How many messages wait to be dispatched before no more are received."""
_MOST_BATCHED = 1000
"""How many messages of a batch are read."""
_MOST_SEARCHED = 4 * 1024 * 1024
"""The characters of a line that is not one message, and is still searched as a whole."""
_MOST_WASTED = 1_000_000
"""How many characters may be parsed in vain; a long line must not hold up the event loop."""
_SIGN = '{"jsonrpc"'
"""The start of nearly all messages."""
_PADDING = "\ufeff \t\r\n\0"
"""Characters around a message that are not noise."""


class BorrowedStream(AsyncResource):
    """A stream that its transport closes; closing it here does nothing."""

    async def aclose(self) -> None:
        """Leave closing to the transport."""

    def __aiter__(self) -> Self:
        return self


class MergedRead(AsyncResource):
    """A receiving stream of the SDK, with messages of our own between its items.

    `pump` must run while it is read. Every item has the context its handlers run in.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception]) -> None:
        self.last_context: contextvars.Context | None = None
        self._inner = inner
        self.waiting: deque[tuple[contextvars.Context | None, Item]] = deque()
        """The items that are not dispatched yet, with their contexts."""
        self._arrived: asyncio.Future[None] | None = None
        self._dispatched = asyncio.Event()
        self._ended = False

    async def pump(self) -> None:
        """Take over the items of the SDK's stream until it ends."""
        try:
            with contextlib.suppress(anyio.ClosedResourceError):
                async for item in self._inner:
                    self.push(item, getattr(self._inner, "last_context", None))
                    if self.is_full:
                        await self.dispatched()
        finally:
            self._ended = True
            self._dispatched.set()
            self._wake()

    @property
    def is_full(self) -> bool:
        """Whether so many items wait that no more should be received before."""
        return len(self.waiting) >= _MOST_WAITING

    async def dispatched(self) -> None:
        """Wait until every item is dispatched, so that a server cannot fill the memory."""
        if self.waiting and not self._ended:
            self._dispatched.clear()
            await self._dispatched.wait()

    def push(self, item: Item, context: contextvars.Context | None) -> None:
        """Add a message, whose handlers run in the context."""
        self.waiting.append((context, item))
        self._wake()

    def run_in_order(self, action: Callable[[], None]) -> None:
        """Call a function once all items before it are dispatched; now, if there are none."""
        if self.waiting:
            self.push(action, None)
        else:
            action()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next item."""
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            while self.waiting:
                context, item = self.waiting.popleft()
                if not callable(item):
                    self.last_context = context
                    return item
                item()
            if self._ended:
                raise StopAsyncIteration
            self._dispatched.set()
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived

    async def aclose(self) -> None:
        """Close the SDK's stream."""
        await self._inner.aclose()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


def start_task(
    work: Coroutine[Any, Any, None],
    tasks: set[asyncio.Task[None]],
    context: contextvars.Context | None = None,
) -> asyncio.Task[None]:
    """Start a task that `tasks` holds until it ends, since the loop does not."""
    task = asyncio.get_running_loop().create_task(work, context=context)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


@dataclass(frozen=True, slots=True)
class Framed:
    """The messages of one line, and whether it held anything else."""

    messages: tuple[JSONRPCMessage, ...]
    noise: bool = False


def frames_of(line: bytes, *, encoding: str = "utf-8", errors: str = "replace") -> Framed:
    """Find the messages in one line; never raises."""
    line = line.strip().removeprefix(_BOM)
    if not line:
        return Framed(())
    if encoding == "utf-8":
        with contextlib.suppress(ValidationError):
            return Framed((types.jsonrpc_message_adapter.validate_json(line, by_name=False),))
        if (cut := shallow(line)) is not line:
            with contextlib.suppress(ValidationError):
                return Framed((types.jsonrpc_message_adapter.validate_json(cut, by_name=False),))
    try:
        return _search(line.decode(encoding, errors))
    except UnicodeError:
        return Framed((), noise=True)


def frames_from(value: object) -> Framed:
    """Return the messages of one line that is parsed."""
    messages = [_message(item) for item in _batch(value)]
    found = tuple(message for message in messages if message is not None)
    return Framed(found, noise=len(found) < len(messages))


def _search(text: str) -> Framed:
    """Look for JSON objects anywhere in the line."""
    messages: list[JSONRPCMessage] = []
    noise = False
    surrogates = "\\ud" in text or "\\uD" in text
    # In a very long line, only the last part that looks like a message is tried.
    position = 0 if len(text) <= _MOST_SEARCHED else max(0, text.rfind(_SIGN))
    failures, wasted = 0, 0
    while failures < 2 * _MOST_FAILURES and (start := _next_start(text, position)) is not None:
        noise = noise or bool(text[position:start].strip(_PADDING))
        found: list[JSONRPCMessage] = []
        try:
            value, position = _DECODER.raw_decode(text, start)
            value = _encodable(value) if surrogates else value
            found = [message for item in _batch(value) if (message := _message(item)) is not None]
        except (ValueError, RecursionError) as error:
            position = start + 1
            wasted += max(0, getattr(error, "pos", len(text)) - start)
        if not found:
            failures += 1
            noise = True
            if wasted > _MOST_WASTED:
                # Only the last part that looks like a message is tried: half a line, and a whole.
                position = max(position, text.rfind(_SIGN))
                failures = max(failures, 2 * _MOST_FAILURES - 1)
            elif failures >= _MOST_FAILURES:
                # In so much noise, only try what looks like a message.
                sign = text.find(_SIGN, position)
                if sign < 0:
                    break
                position = sign
        messages.extend(found)
    noise = noise or bool(text[position:].strip(_PADDING))
    return Framed(tuple(messages), noise)


def _next_start(text: str, position: int) -> int | None:
    """Find the next object, or the array it opens."""
    start = text.find("{", position)
    if start < 0:
        return None
    return start - 1 if start > position and text[start - 1] == "[" else start


def _encodable(value: object) -> object:
    """Replace lone surrogates, which JSON can encode and UTF-8 cannot."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _batch(value: object) -> list[Any]:
    return cast("list[Any]", value)[:_MOST_BATCHED] if isinstance(value, list) else [value]


def _message(value: object) -> JSONRPCMessage | None:
    if isinstance(value, dict) and "result" in value and value["result"] is None:
        value = {**cast("dict[str, Any]", value), "result": {}}
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return None
