"""Where the tasks of all connections live: one task group, entered and left by one task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import anyio
from anyio.abc import TaskGroup

from plait.errors import ClientClosedError

logger = logging.getLogger("plait.connections")


class Home:
    """A task group that can be opened and closed from different tasks of one loop.

    An anyio task group must be left by the task that entered it, but a client is opened and
    closed from wherever its user likes. So one task does both, and everyone else only asks.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None
        self._opened = asyncio.Event()
        self._leave = asyncio.Event()

    @property
    def opened(self) -> bool:
        """Whether the group is there."""
        return self._group is not None

    async def open(self) -> None:
        """Start the group, if it is not there yet."""
        if self._task is None or self._task.done():
            self._opened, self._leave = asyncio.Event(), asyncio.Event()
            self._task = asyncio.create_task(self._live(), name="plait home", context=Context())
        await self._opened.wait()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Run something in the group; if it raises, that is a defect, and no sibling suffers."""
        group = self._group
        if group is None:
            raise ClientClosedError("the client is closed")
        # A fresh context: a connection outlives the call that happened to open it.
        Context().run(lambda: group.start_soon(_contained, work, name=name))

    async def close(self) -> None:
        """Cancel what is left in the group, and wait for it, even if the caller is cancelled."""
        task, self._task = self._task, None
        if task is None:
            return
        self._leave.set()
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _live(self) -> None:
        opened, leave = self._opened, self._leave
        async with anyio.create_task_group() as group:
            self._group = group
            opened.set()
            try:
                await leave.wait()
            finally:
                self._group = None
                group.cancel_scope.cancel()


async def _contained(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await work()
    except Exception:  # boundary: one connection must not take the others along
        logger.exception("a task of a connection failed")
