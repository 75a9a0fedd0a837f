"""Helpers for streams with the SDK's interface."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream


class BorrowedStream:
    """A stream that its transport closes; closing it here does nothing."""

    async def aclose(self) -> None:
        """Leave closing to the transport."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    def __aiter__(self) -> Self:
        return self


class MergedRead:
    """A receiving stream of the SDK, with messages of our own between its items.

    `pump` must run while it is read. Every item has the context its handlers run in.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception]) -> None:
        self.last_context: contextvars.Context | None = None
        self._inner = inner
        self._items: deque[
            tuple[contextvars.Context | None, SessionMessage | Exception | Callable[[], None]]
        ] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._ended = False

    async def pump(self) -> None:
        """Take over the items of the SDK's stream until it ends."""
        try:
            with contextlib.suppress(anyio.ClosedResourceError):
                async for item in self._inner:
                    self._add(item, getattr(self._inner, "last_context", None))
        finally:
            self._ended = True
            self._wake()

    def push(self, message: SessionMessage, context: contextvars.Context) -> None:
        """Add a message, whose handlers run in the context."""
        self._add(message, context)

    def run_in_order(self, action: Callable[[], None]) -> None:
        """Call a function once all items before it are dispatched; now, if there are none."""
        if self._items:
            self._add(action, None)
        else:
            action()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next item."""
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            while self._items:
                context, item = self._items.popleft()
                if isinstance(item, SessionMessage | Exception):
                    self.last_context = context
                    return item
                item()
            if self._ended:
                raise StopAsyncIteration
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived

    async def aclose(self) -> None:
        """Close the SDK's stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _add(
        self,
        item: SessionMessage | Exception | Callable[[], None],
        context: contextvars.Context | None,
    ) -> None:
        self._items.append((context, item))
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


def start_task(
    work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]
) -> asyncio.Task[None]:
    """Start a task that `tasks` holds until it ends, since the loop does not."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
