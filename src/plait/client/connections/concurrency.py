"""Limits how many calls a server works on at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass


@dataclass(slots=True)
class _Slot:
    taken: bool = True


class ConcurrencyLimit:
    """Lets a limited number of tasks in at a time; `None` means no limit."""

    def __init__(self, limit: int | None) -> None:
        self._free = asyncio.Semaphore(limit) if limit else None
        self._by_task: dict[asyncio.Task[object] | None, _Slot] = {}

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Hold a slot for the current task."""
        return nullcontext() if self._free is None else self._slot(self._free)

    @asynccontextmanager
    async def _slot(self, free: asyncio.Semaphore) -> AsyncGenerator[None]:
        await free.acquire()
        task = asyncio.current_task()
        slot = self._by_task[task] = _Slot()
        try:
            yield
        finally:
            del self._by_task[task]
            if slot.taken:
                free.release()

    @asynccontextmanager
    async def released(self, task: asyncio.Task[object] | None) -> AsyncGenerator[None]:
        """Give up a task's slot while it waits for something other than the server."""
        slot = self._by_task.get(task)
        if self._free is None or slot is None or not slot.taken:
            yield
            return
        slot.taken = False
        self._free.release()
        yield
        await self._free.acquire()
        slot.taken = True
