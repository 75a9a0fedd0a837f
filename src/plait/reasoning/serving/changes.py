"""Telling those who listen that a session changed, whichever process changed it.

PostgreSQL tells us by itself. A file of SQLite has a number that grows with every write of
another process; it is looked at once a second, while somebody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from sqlalchemy import select, text

from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import sessions
from plait.reasoning.values import now

LOOK_SECONDS = 1.0
"""How often a file is looked at."""

CHANNEL = "plait_reasoning"
"""The channel of PostgreSQL on which ids of sessions are told."""


def session_uri(session_id: str) -> str:
    """Return the address of a session as a resource."""
    return f"reasoning://sessions/{session_id}"


class ChangeBus:
    """Carries changes to the streams that wait for them."""

    def __init__(self, store: SqlStorage) -> None:
        self._store = store
        self._local = InMemorySubscriptionBus()
        self._listeners = 0

    async def publish(self, event: ServerEvent) -> None:
        """Tell everybody in this process."""
        await self._local.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add somebody who listens; the return value takes them away again."""
        self._listeners += 1
        inner = self._local.subscribe(listener)
        gone = False

        def unsubscribe() -> None:
            nonlocal gone
            if not gone:
                gone = True
                self._listeners -= 1
                inner()

        return unsubscribe

    async def session_changed(self, session_id: str) -> None:
        """Tell everybody, here and in other processes, that a session changed."""
        await self._tell(session_id)
        if not self._store.database.is_sqlite:
            async with self._store.engine.connect() as connection:
                note = text("SELECT pg_notify(:channel, :session)")
                await connection.execute(note, {"channel": CHANNEL, "session": session_id})
                await connection.commit()

    async def _tell(self, session_id: str) -> None:
        await self.publish(ResourceUpdated(uri=session_uri(session_id)))
        await self.publish(ResourcesListChanged())

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Hear of changes by other processes while the block runs."""
        watch = self._watch_file if self._store.database.is_sqlite else self._watch_channel
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            yield
            group.cancel_scope.cancel()

    async def _watch_file(self) -> None:
        async with self._store.engine.connect() as connection:
            known, since = None, now()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if not self._listeners:
                    known, since = None, now()
                    continue
                version = await connection.scalar(text("PRAGMA data_version"))
                await connection.rollback()
                if known is not None and version != known:
                    for key in await self._changed_since(since):
                        await self._tell(key)
                known, since = version, since if known is None else now()

    async def _changed_since(self, time: str) -> list[str]:
        table = sessions
        async with self._store.engine.connect() as connection:
            rows = await connection.execute(select(table.c.id).where(table.c.updated_at >= time))
            return [row.id for row in rows]

    async def _watch_channel(self) -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def hear(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            heard.put_nowait(payload)

        async with self._store.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            if driver is None:
                return
            await driver.add_listener(CHANNEL, hear)
            try:
                while True:
                    await self._tell(await heard.get())
            finally:
                with suppress(Exception), anyio.CancelScope(shield=True):
                    await driver.remove_listener(CHANNEL, hear)
