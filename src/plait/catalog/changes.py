"""Hearing of it when a server's tools change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from mcp import MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, ToolsListChanged

from plait.connections.connection import ServerConnection
from plait.connections.operations import is_modern
from plait.connections.pool import ConnectionPool
from plait.connections.session import Session
from plait.errors import PlaitError

logger = logging.getLogger("plait.catalog")

_PAUSE_SECONDS = 1.0
"""Before listening again where a server ends the stream."""

_AGREEMENT_SECONDS = 1.0
"""How long the first list waits, so that no change between listing and listening is missed."""

_MOST_ENDINGS = 5
"""How often a server may end the stream of one session before it is left in peace."""


def announces_changes(connection: ServerConnection) -> bool:
    """Say whether the server promises to tell when its tools change."""
    capabilities = connection.facts.capabilities
    return bool(capabilities and capabilities.tools and capabilities.tools.list_changed)


class ChangeListener:
    """Listens to modern servers, which speak only when listened to; legacy ones speak up anyway."""

    def __init__(self, pool: ConnectionPool, on_change: Callable[[str], None]) -> None:
        self._pool = pool
        self._on_change = on_change
        self._heard: WeakSet[Session] = WeakSet()

    async def listen(self, connection: ServerConnection) -> None:
        """Listen for as long as the present session lasts; returns when the server agreed.

        Raises:
            PlaitError: There is no session.
        """
        session = await connection.lasting_session()
        if session in self._heard or not announces_changes(connection):
            return
        if not is_modern(session.client):
            return
        self._heard.add(session)
        agreed = asyncio.Event()
        work = partial(self._stay, connection.name, session, agreed)
        self._pool.start(work, name=f"plait listen {connection.name}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGREEMENT_SECONDS):
                await agreed.wait()

    async def _stay(self, server: str, session: Session, agreed: asyncio.Event) -> None:
        listening = asyncio.ensure_future(self._listen(server, session, agreed))
        ended = asyncio.ensure_future(session.ended.wait())
        try:
            await asyncio.wait({listening, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            agreed.set()
            for task in (listening, ended):
                task.cancel()
            await asyncio.gather(listening, ended, return_exceptions=True)

    async def _listen(self, server: str, session: Session, agreed: asyncio.Event) -> None:
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
        for ending in range(_MOST_ENDINGS):
            if ending:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                async with session.client.listen(tools_list_changed=True) as events:
                    if ending:
                        self._on_change(server)  # what changed meanwhile went unheard
                    agreed.set()
                    async for event in events:
                        if isinstance(event, ToolsListChanged):
                            self._on_change(server)
            except SubscriptionLost:
                logger.debug("%s: the stream of changes was lost", server)
            except (ListenNotSupportedError, MCPError, PlaitError) as error:
                logger.debug("%s cannot be listened to: %s", server, error)
                return
