"""Event loops: which one runs here, and calls into one that runs in another thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class LoopCalls:
    """Calls functions in an event loop from other threads; many calls wake it only once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._waiting: deque[Callable[[], object]] = deque()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop soon; a loop that has ended ignores it."""
        self._waiting.append(function)
        if len(self._waiting) == 1:  # otherwise the loop is about to take them
            self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            self._waiting.clear()

    def _run(self) -> None:
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            if self._waiting:  # a function has failed
                self._schedule()


_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopCalls] = WeakKeyDictionary()


def calls_into(loop: asyncio.AbstractEventLoop) -> LoopCalls:
    """Return what makes calls into a loop."""
    return _calls.get(loop) or _calls.setdefault(loop, LoopCalls(loop))
