"""Listening to modern servers, which announce changes of their lists only to those who listen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Literal
from weakref import WeakKeyDictionary

import anyio
from mcp import MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import ServerCapabilities

from plait.client.connections.connection import ServerConnection
from plait.client.connections.operations import is_modern
from plait.client.connections.pool import ConnectionPool
from plait.client.connections.session import Session
from plait.errors import PlaitError

logger = logging.getLogger("plait.client.connections")

ListKind = Literal["tools", "prompts", "resources"]
"""A list that a server has, and that may change."""

_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
"""Before listening again: at first, and where the server cannot be reached."""

_AGREEMENT_SECONDS = 1.0
"""How long a first list waits, so that no change between listing and listening is missed."""

_MOST_ENDINGS = 5
"""How often in a row a server may end the stream at once before it is left in peace."""

_LASTING_SECONDS = 10.0
"""A stream that was open for this long was not ended at once."""


def announced_lists(capabilities: ServerCapabilities | None) -> frozenset[ListKind]:
    """Name the lists of which a server promises to tell when they change."""
    if capabilities is None:
        return frozenset()
    tools, prompts, resources = capabilities.tools, capabilities.prompts, capabilities.resources
    found: set[ListKind] = set()
    if tools is not None and tools.list_changed:
        found.add("tools")
    if prompts is not None and prompts.list_changed:
        found.add("prompts")
    if resources is not None and resources.list_changed:
        found.add("resources")
    return frozenset(found)


class ChangeListener:
    """Holds one stream of changes open for each session with a modern server.

    What comes over it reaches the message handler of the session, as the notifications of older
    servers do; here only the stream is kept.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        lists: Collection[ListKind],
        on_unheard: Callable[[str, ListKind], None],
    ) -> None:
        """Listen for these lists; `on_unheard` gets those that may have changed unheard."""
        self._pool = pool
        self._lists = frozenset(lists)
        self._on_unheard = on_unheard
        self._agreed: WeakKeyDictionary[Session, asyncio.Event] = WeakKeyDictionary()

    async def listen(self, connection: ServerConnection) -> None:
        """Listen for as long as the present session lasts; returns when the server agreed.

        Raises:
            PlaitError: There is no session to listen to.
        """
        if not self._lists:
            return
        agreed = self.begin(await connection.wait_for_session())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGREEMENT_SECONDS):
                await agreed.wait()

    def begin(self, session: Session) -> asyncio.Event:
        """Listen for as long as a session lasts; what is returned is set when the server agreed."""
        agreed = self._agreed.get(session)
        if agreed is not None:
            return agreed
        agreed = self._agreed[session] = asyncio.Event()
        lists = self._lists & announced_lists(session.client.server_capabilities)
        if lists and is_modern(session.client):
            work = partial(self._stay, session, lists, agreed)
            self._pool.start(work, name=f"plait listen {session.wire.server}")
        else:
            agreed.set()
        return agreed

    async def _stay(
        self, session: Session, lists: frozenset[ListKind], agreed: asyncio.Event
    ) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_after, session.ended, group.cancel_scope)
                await self._listen(session, lists, agreed)
                group.cancel_scope.cancel()
        finally:
            agreed.set()

    async def _listen(
        self, session: Session, lists: frozenset[ListKind], agreed: asyncio.Event
    ) -> None:
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
        server = session.wire.server
        endings = failures = 0
        while endings < _MOST_ENDINGS:
            began = time.monotonic()
            try:
                async with session.client.listen(
                    tools_list_changed="tools" in lists,
                    prompts_list_changed="prompts" in lists,
                    resources_list_changed="resources" in lists,
                ) as events:
                    failures = 0
                    if agreed.is_set():
                        for kind in sorted(lists):
                            self._on_unheard(server, kind)
                    agreed.set()
                    async for _ in events:
                        pass
                endings += 1
            except SubscriptionLost:
                logger.debug("%s: the stream of changes was lost", server)
                endings += 1
            except (ListenNotSupportedError, MCPError, PlaitError, TimeoutError) as error:
                logger.debug("%s cannot be listened to: %s", server, error)
                if not agreed.is_set():
                    return
                failures += 1  # the network, perhaps: it agreed before
            if time.monotonic() - began > _LASTING_SECONDS:
                endings = 1
            await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**failures))


async def cancel_after(event: asyncio.Event, scope: anyio.CancelScope) -> None:
    """Cancel a scope as soon as an event happens."""
    await event.wait()
    scope.cancel()
