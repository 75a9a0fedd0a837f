"""Notifications about changed sessions, also when another process changed them.

PostgreSQL sends notifications itself. SQLite has a number that grows with every write of another
process; it is polled once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import sessions

POLL_SECONDS = 1.0
"""The interval at which SQLite is polled."""

_OVERLAP = timedelta(seconds=5)
"""A change is dated before it is written, so slightly older changes count as well."""

CHANNEL = "plait_reasoning"
"""The PostgreSQL channel for ids of changed sessions."""


def session_uri(session_id: str) -> str:
    """Return the resource URI of a session."""
    return f"reasoning://sessions/{quote(session_id, safe='')}"


class ChangeBus(InMemorySubscriptionBus):
    """Publishes changes to the subscribed streams and clients."""

    def __init__(self, store: SqlStorage) -> None:
        super().__init__()
        self._store = store
        schema = store.database.schema
        self._channel = f"{CHANNEL}_{schema}" if schema else CHANNEL
        self._pushed: dict[str, ServerSession] = {}

    async def push(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Send updates of a resource to the client of an older connection."""
        self._pushed[params.uri] = ctx.session
        return types.EmptyResult()

    async def stop_pushing(
        self, _ctx: object, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Stop sending updates of a resource."""
        self._pushed.pop(params.uri, None)
        return types.EmptyResult()

    async def session_changed(self, session_id: str) -> None:
        """Notify subscribers in this and other processes that a session changed."""
        await self._notify(session_id)
        if not self._store.database.is_sqlite:
            async with self._store.engine.connect() as connection:
                note = text("SELECT pg_notify(:channel, :session)")
                await connection.execute(note, {"channel": self._channel, "session": session_id})
                await connection.commit()

    async def _notify(self, session_id: str) -> None:
        uri = session_uri(session_id)
        await self.publish(ResourceUpdated(uri=uri))
        await self.publish(ResourcesListChanged())
        if (client := self._pushed.get(uri)) is not None:
            await client.send_resource_updated(uri)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Watch for changes by other processes while the block runs."""
        watch = self._watch_file if self._store.database.is_sqlite else self._watch_channel
        ended = anyio.Event()
        async with anyio.create_task_group() as group:
            await group.start(watch, ended)
            try:
                yield
            finally:
                ended.set()

    async def _watch_file(self, ended: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        async with self._store.engine.connect() as connection:
            known, checked_at = await _version(connection), datetime.now(UTC)
            task_status.started()
            while True:
                with anyio.move_on_after(POLL_SECONDS):
                    await ended.wait()
                if ended.is_set():
                    return
                changed: Sequence[str] = ()
                # A query that is cancelled leaves a thread behind that keeps the process alive.
                with anyio.CancelScope(shield=True):
                    version, since = await _version(connection), checked_at - _OVERLAP
                    if version != known:
                        known, checked_at = version, datetime.now(UTC)
                        recent = sessions.c.updated_at >= since.isoformat(timespec="microseconds")
                        ids = select(sessions.c.id).where(recent)
                        changed = (await connection.scalars(ids)).all()
                        await connection.rollback()
                for session_id in changed:
                    await self._notify(session_id)

    async def _watch_channel(self, ended: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        session_ids: asyncio.Queue[str] = asyncio.Queue()

        def on_notification(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            session_ids.put_nowait(payload)

        async def notify() -> None:
            while True:
                await self._notify(await session_ids.get())

        async with self._store.engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            if driver is None:
                raise RuntimeError("the pool has lost its connection")
            await driver.add_listener(self._channel, on_notification)
            task_status.started()
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(notify)
                    await ended.wait()
                    group.cancel_scope.cancel()
            finally:
                with suppress(Exception), anyio.CancelScope(shield=True):
                    await driver.remove_listener(self._channel, on_notification)


async def _version(connection: AsyncConnection) -> int:
    """Return the number that grows when another connection writes."""
    version = await connection.scalar(text("PRAGMA data_version"))
    await connection.rollback()
    return int(version or 0)
