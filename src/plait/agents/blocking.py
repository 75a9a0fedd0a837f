"""Running a coroutine from code that blocks, whether or not a loop runs in its thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from plait.errors import AgentTimeoutError

T = TypeVar("T")

_CLOSING_SECONDS = 10.0
"""How long work that was called off may take to end."""


def run_bounded(
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    seconds: float,
    closing_seconds: float = _CLOSING_SECONDS,
) -> T:
    """Run a coroutine function in a thread and a loop of its own, and wait for what it returns.

    Ctrl-C, and the end of the time, cancel the work; then it has `closing_seconds` to end.

    Raises:
        AgentTimeoutError: It took longer than `seconds`.
    """
    worker = _Worker(work)
    try:
        worker.start()
        if not worker.ended.wait(seconds):
            worker.cancel()
            worker.ended.wait(closing_seconds)
            if not worker.has_value:  # else it ended in time after all
                raise AgentTimeoutError(f"the run took longer than {seconds:g} s, and was stopped")
    except KeyboardInterrupt:
        worker.cancel()
        worker.ended.wait(closing_seconds)
        raise
    return worker.result()


class _Worker(threading.Thread, Generic[T]):
    """A thread that runs one coroutine, with the context of whoever made it."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        super().__init__(name="plait agent", daemon=True)
        self.ended = threading.Event()
        self._work = work
        self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[T] | None = None
        self._called_off = False
        self._value: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the coroutine, then close the loop."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                self._value.append(runner.run(self._watched(), context=self._context))
        except BaseException as error:  # noqa: BLE001  # boundary: it is raised where it is awaited
            self._error = error
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """Call the work off, whether or not it has begun."""
        self._called_off = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has just ended
            self._loop.call_soon_threadsafe(self._cancel_task)

    @property
    def has_value(self) -> bool:
        """Whether the coroutine has returned something."""
        return bool(self._value)

    def result(self) -> T:
        """Return what the coroutine returned, or raise what it raised."""
        if self._value:
            return self._value[0]
        assert self._error is not None  # noqa: S101  # it has ended, in one way or the other
        raise self._error

    async def _watched(self) -> T:
        self._task = asyncio.current_task()
        if self._called_off:
            raise asyncio.CancelledError
        return await self._work()

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
