"""Subscriptions to list changes of modern servers, which notify only clients that listen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakKeyDictionary

import anyio

from plait.client.connections.operations import is_lost_stream, is_modern
from plait.client.connections.session import Session

if TYPE_CHECKING:
    from mcp_types import ServerCapabilities

    from plait.client.connections.connection import ServerConnection
    from plait.client.connections.deadline import Patience
    from plait.client.connections.pool import ConnectionPool

logger = logging.getLogger("plait.client.connections")

ListKind = Literal["tools", "prompts", "resources"]
"""A list of a server that may change."""

_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
"""Pauses before listening again; they double while the server cannot be reached."""
_AGREEMENT_SECONDS = 1.0
"""How long the first list request waits for the subscription, so that no change is missed."""
_MOST_ENDINGS = 5
"""How often in a row a server may end the stream at once before listening stops."""
_LASTING_SECONDS = 10.0
"""A stream that was open for this long was not ended at once."""


def announced_lists(capabilities: ServerCapabilities | None) -> frozenset[ListKind]:
    """Return the lists for which a server declares `listChanged`."""
    kinds: tuple[ListKind, ...] = get_args(ListKind)
    declared: Any = capabilities
    return frozenset(
        kind for kind in kinds if (lists := getattr(declared, kind, None)) and lists.list_changed
    )


@dataclass(eq=False)
class ChangeListener:
    """Holds one stream of changes open for each session with a modern server.

    Notifications on it reach the session's message handler, as those of older servers do; this
    class only keeps the stream open.
    """

    _pool: ConnectionPool
    _lists: frozenset[ListKind]
    _on_possible_change: Callable[[str, ListKind], None]
    """Gets the lists whose changes were missed."""
    _subscribed: WeakKeyDictionary[Session, asyncio.Event] = field(
        default_factory=WeakKeyDictionary[Session, asyncio.Event], init=False
    )

    async def listen(self, connection: ServerConnection, patience: Patience | None = None) -> None:
        """Listen while the present session lasts; returns when the server has subscribed."""
        if not self._lists:
            return
        subscribed = self.begin(await connection.keeper.wait_for_session(patience))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGREEMENT_SECONDS):
                await subscribed.wait()

    def begin(self, session: Session) -> asyncio.Event:
        """Listen while a session lasts; the returned event is set when the server has confirmed."""
        if (subscribed := self._subscribed.get(session)) is not None:
            return subscribed
        subscribed = self._subscribed[session] = asyncio.Event()
        lists = self._lists & announced_lists(session.client.server_capabilities)
        if lists and is_modern(session.client):
            work = partial(self._stay, session, lists, subscribed)
            self._pool.start(work, name=f"plait listen {session.wire.server}")
        else:
            subscribed.set()
        return subscribed

    async def _stay(
        self, session: Session, lists: frozenset[ListKind], subscribed: asyncio.Event
    ) -> None:
        try:
            async with cancelled_when(session.ended):
                await self._listen(session, lists, subscribed)
        finally:
            subscribed.set()

    async def _listen(
        self, session: Session, lists: frozenset[ListKind], subscribed: asyncio.Event
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
                    if subscribed.is_set():
                        for kind in sorted(lists):
                            self._on_possible_change(server, kind)
                    subscribed.set()
                    async for _ in events:
                        pass
                endings += 1
            except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
                logger.debug("%s: the stream of changes has ended: %r", server, error)
                if is_lost_stream(error):
                    endings += 1
                elif subscribed.is_set():
                    failures += 1  # perhaps the network: it was subscribed before
                else:
                    return
            if time.monotonic() - began > _LASTING_SECONDS:
                endings = 1
            await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**failures))


@contextlib.asynccontextmanager
async def cancelled_when(event: asyncio.Event) -> AsyncGenerator[None]:
    """Cancel the block, and go on after it, as soon as an event is set."""
    with anyio.CancelScope() as scope:
        waiting = asyncio.ensure_future(event.wait())
        waiting.add_done_callback(lambda _: scope.cancel())
        try:
            yield
        finally:
            waiting.cancel()
