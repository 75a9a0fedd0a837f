"""Measures how long an event loop does not get its turn."""

from __future__ import annotations

import asyncio
import gc
import time
from types import TracebackType
from typing import Self

_TICK_SECONDS = 0.002


class LoopStalls:
    """Ticks in the running loop, and keeps the longest time of its thread between two ticks.

    The time is CPU time of the thread, which a busy machine does not make longer. What other tests
    have left behind is not searched for garbage meanwhile.
    """

    def __init__(self) -> None:
        self.worst_seconds = 0.0
        self.worst_wait_seconds = 0.0
        """The longest time between two ticks by the clock, which a busy machine makes longer."""
        self._last = 0.0
        self._last_tick = 0.0
        self._ticks: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        gc.collect()
        gc.freeze()
        self._last, self._last_tick = time.thread_time(), time.monotonic()
        self._ticks = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._note()
        gc.unfreeze()
        assert self._ticks is not None
        self._ticks.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._note()

    def _note(self) -> None:
        now, tick = time.thread_time(), time.monotonic()
        self.worst_wait_seconds = max(self.worst_wait_seconds, tick - self._last_tick)
        self._last_tick = tick
        self.worst_seconds = max(self.worst_seconds, now - self._last)
        self._last = now
