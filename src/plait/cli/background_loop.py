"""An event loop in a thread of its own, so that the main thread can read the terminal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_CLOSE_SECONDS: Final = 30.0
"""How long the resources may take to close."""


class BackgroundLoop(Generic[R]):
    """Runs coroutines in another thread, with resources that are opened and closed there."""

    def __init__(self, resources: Callable[[], AbstractAsyncContextManager[R]]) -> None:
        self._resources = resources
        self._opened: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, R]] = Future()
        self._thread = threading.Thread(target=self._run, name="plait background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop, self._end, self.resources = self._opened.result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_CLOSE_SECONDS)

    def start(self, work: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], None]]:
        """Start a coroutine; return the future of its result, and what cancels it.

        The future is done when the coroutine has ended, also after a cancellation.
        """
        task: Future[asyncio.Task[T]] = Future()

        async def run() -> T:
            inner = asyncio.create_task(work)
            task.set_result(inner)
            await asyncio.wait([inner])
            return inner.result()

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)

        def cancel() -> None:
            task.add_done_callback(
                lambda done: self._loop.call_soon_threadsafe(done.result().cancel)
            )

        return future, cancel

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    async def _serve(self) -> None:
        end = asyncio.Event()
        async with self._resources() as resources:
            self._opened.set_result((asyncio.get_running_loop(), end, resources))
            await end.wait()
