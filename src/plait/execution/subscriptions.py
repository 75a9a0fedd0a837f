"""Being told when a resource changes, through restarts and in both protocol eras."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from functools import partial

from mcp import Client, MCPError
from mcp.client.subscriptions import ResourceUpdated, SubscriptionLost
from mcp.shared.exceptions import MCPDeprecationWarning

from plait.connections.deadline import Deadline
from plait.connections.operations import is_modern
from plait.connections.pool import ConnectionPool
from plait.errors import PlaitError

logger = logging.getLogger("plait.execution")

OnUpdate = Callable[[str], None]
"""Gets the URI of a resource that has changed, or may have changed unseen."""

_PAUSE_SECONDS = 1.0
"""Before subscribing again where a server ends the subscription at once."""


class Subscription:
    """One subscription; `cancel` ends it."""

    def __init__(self, server: str, uri: str, tell: OnUpdate) -> None:
        self.server = server
        self.uri = uri
        self.tell = tell
        self.active = asyncio.Event()
        """Set once the server has agreed for the first time."""
        self.ended = asyncio.Event()
        self.failure: PlaitError | None = None

    def agreed(self) -> None:
        """Note that the server has agreed; whatever changed since the last time went unseen."""
        if self.active.is_set():
            self.tell(self.uri)
        self.active.set()

    def cancel(self) -> None:
        """End the subscription."""
        self.ended.set()


class Subscriptions:
    """All subscriptions of a client; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._all: list[Subscription] = []

    async def add(self, server: str, uri: str, tell: OnUpdate) -> Subscription:
        """Subscribe, and wait until the server has agreed.

        Raises:
            PlaitError: The server cannot be reached, or refuses.
        """
        subscription = Subscription(server, uri, tell)
        self._pool.start(partial(self._keep, subscription), name=f"plait subscription {uri}")
        await subscription.active.wait()
        if subscription.failure is not None:
            raise subscription.failure
        return subscription

    def updated(self, server: str, uri: str) -> None:
        """Tell those whom a legacy server's notification concerns."""
        for subscription in self._all:
            if subscription.server == server and uri.startswith(subscription.uri):
                subscription.tell(uri)

    async def _keep(self, subscription: Subscription) -> None:
        """Stay subscribed from session to session until the subscription is cancelled."""
        ending = asyncio.ensure_future(subscription.ended.wait())
        try:
            while not subscription.ended.is_set():
                staying = asyncio.ensure_future(self._stay(subscription))
                await asyncio.wait({ending, staying}, return_when=asyncio.FIRST_COMPLETED)
                if not staying.done():
                    staying.cancel()
                elif not self._goes_on(subscription, staying):
                    return
        finally:
            ending.cancel()
            if subscription in self._all:
                self._all.remove(subscription)

    def _goes_on(self, subscription: Subscription, staying: asyncio.Future[None]) -> bool:
        """Decide, after a session's subscription ended, whether there will be another."""
        error = staying.exception()
        if error is not None and not subscription.active.is_set():
            subscription.failure = (
                error
                if isinstance(error, PlaitError)
                else PlaitError(
                    f"{subscription.server}: cannot subscribe: {error}", server=subscription.server
                )
            )
            subscription.active.set()
            return False
        logger.debug("%s: subscribing to %s again", subscription.server, subscription.uri)
        return True

    async def _stay(self, subscription: Subscription) -> None:
        """Be subscribed for as long as one session lasts."""
        connection = self._pool[subscription.server]
        seconds = connection.server.timeouts.list_seconds
        again = subscription.active.is_set()
        if again:
            await asyncio.sleep(_PAUSE_SECONDS)
        session = await connection.lasting_session()
        if is_modern(session.client):
            await self._listen(session.client, subscription)
            return
        if subscription not in self._all:
            self._all.append(subscription)
        await connection.request(
            partial(_subscribe, uri=subscription.uri),
            Deadline(seconds, setting="list_timeout"),
            method="resources/subscribe",
        )
        subscription.agreed()
        await session.ended.wait()

    async def _listen(self, client: Client, subscription: Subscription) -> None:
        try:
            async with client.listen(resource_subscriptions=[subscription.uri]) as events:
                subscription.agreed()
                async for event in events:
                    if isinstance(event, ResourceUpdated):
                        subscription.tell(event.uri)
        except SubscriptionLost:
            logger.debug("%s: the subscription stream was lost", subscription.server)
        except MCPError:
            if not subscription.active.is_set():
                raise


async def _subscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await client.session.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
