"""The background tasks of all connections of one client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import anyio

from plait.errors import ClientClosedError

logger = logging.getLogger("plait.client.connections")


class TaskSet:
    """Tasks of one loop that end together.

    Not an anyio task group, which must be left by the task that entered it: a client may be opened
    and closed by different tasks.
    """

    def __init__(self) -> None:
        self._scopes: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self.opened = False
        """Whether tasks can be started."""

    def open(self) -> None:
        """Allow tasks to be started."""
        self.opened = True

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Run a task until it ends or the set is closed; an exception in it is only logged."""
        if not self.opened:
            raise ClientClosedError("the client is closed")
        scope = anyio.CancelScope()
        # A fresh context: a connection outlives the call that happened to open it.
        task = asyncio.create_task(_contained(work, scope), name=name, context=Context())
        self._scopes[task] = scope
        task.add_done_callback(self._scopes.pop)

    async def close(self) -> None:
        """Cancel the remaining tasks, and wait for them even if the caller is cancelled."""
        self.opened = False
        cancelled: asyncio.CancelledError | None = None
        for scope in self._scopes.values():
            scope.cancel()
        while left := [task for task in self._scopes if not task.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled


async def _contained(
    work: Callable[[], Coroutine[Any, Any, None]], scope: anyio.CancelScope
) -> None:
    try:
        with scope:
            await work()
    except Exception:  # boundary: one connection must not end the others
        logger.exception("a task of a connection failed")
