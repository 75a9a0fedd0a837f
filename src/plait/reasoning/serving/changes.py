"""Telling those who listen that a session changed, whichever process changed it.

PostgreSQL tells us by itself. A file of SQLite has a number that grows with every write of
another process; it is looked at once a second, while somebody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import anyio
from anyio.abc import TaskStatus
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import sessions

LOOK_SECONDS = 1.0
"""How often a file is looked at."""

_OVERLAP = timedelta(seconds=5)
"""A change is dated before it is written, so those from shortly before count as well."""

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
        self._pushed: dict[str, ServerSession] = {}

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

    def push(self, uri: str, session: ServerSession) -> None:
        """Tell the one client of an older connection when a resource changes."""
        self._pushed[uri] = session

    def stop_pushing(self, uri: str) -> None:
        """Tell it no more."""
        self._pushed.pop(uri, None)

    async def session_changed(self, session_id: str) -> None:
        """Tell everybody, here and in other processes, that a session changed."""
        await self._tell(session_id)
        if not self._store.database.is_sqlite:
            async with self._store.engine.connect() as connection:
                note = text("SELECT pg_notify(:channel, :session)")
                await connection.execute(note, {"channel": CHANNEL, "session": session_id})
                await connection.commit()

    async def _tell(self, session_id: str) -> None:
        uri = session_uri(session_id)
        await self.publish(ResourceUpdated(uri=uri))
        await self.publish(ResourcesListChanged())
        if (client := self._pushed.get(uri)) is not None:
            await client.send_resource_updated(uri)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Hear of changes by other processes while the block runs."""
        watch = self._watch_file if self._store.database.is_sqlite else self._watch_channel
        async with anyio.create_task_group() as group:
            await group.start(watch)
            yield
            group.cancel_scope.cancel()

    async def _watch_file(self, *, task_status: TaskStatus[None]) -> None:
        async with self._store.engine.connect() as connection:
            known, looked = await _version(connection), datetime.now(UTC)
            task_status.started()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                version, since = await _version(connection), looked - _OVERLAP
                if version == known:
                    continue
                known, looked = version, datetime.now(UTC)
                if self._listeners or self._pushed:
                    for key in await self._changed_since(since.isoformat(timespec="microseconds")):
                        await self._tell(key)

    async def _changed_since(self, time: str) -> list[str]:
        table = sessions
        async with self._store.engine.connect() as connection:
            rows = await connection.execute(select(table.c.id).where(table.c.updated_at >= time))
            return [row.id for row in rows]

    async def _watch_channel(self, *, task_status: TaskStatus[None]) -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()

        def hear(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            heard.put_nowait(payload)

        async with self._store.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            if driver is None:
                raise RuntimeError("the pool has lost its connection")
            await driver.add_listener(CHANNEL, hear)
            task_status.started()
            try:
                while True:
                    await self._tell(await heard.get())
            finally:
                with suppress(Exception), anyio.CancelScope(shield=True):
                    await driver.remove_listener(CHANNEL, hear)


async def _version(connection: AsyncConnection) -> int:
    """Return the number that grows when another connection writes."""
    version = await connection.scalar(text("PRAGMA data_version"))
    await connection.rollback()
    return int(version or 0)
