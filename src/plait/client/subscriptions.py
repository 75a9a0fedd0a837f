"""Being told when a resource changes, through restarts and in both protocol eras."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable
from functools import partial

import anyio
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated, SubscriptionLost
from mcp.shared.exceptions import MCPDeprecationWarning

from plait.client.connections.change_listener import cancel_after
from plait.client.connections.connection import ServerConnection
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import is_modern
from plait.client.connections.pool import ConnectionPool
from plait.client.connections.session import Session
from plait.errors import ClientClosedError, PlaitError, ProtocolError

logger = logging.getLogger("plait.client.calls")

OnUpdate = Callable[[str], None]
"""Gets the URI of a resource that has changed, or may have changed unseen."""

_PAUSE_SECONDS = 1.0
"""Before subscribing again where a server ends the subscription at once."""


class Subscription:
    """Somebody who follows a resource; `cancel` ends it, from any loop and any thread."""

    def __init__(
        self, server: str, uri: str, tell: OnUpdate, on_end: Callable[[], None] | None = None
    ) -> None:
        """Take whom to tell; `on_end` is called if it is not `cancel` that ends it."""
        self.server = server
        self.uri = uri
        self.tell = tell
        self.on_end = on_end
        self.cancelled = False
        self._leave: Callable[[], object] | None = None

    def joined(self, leave: Callable[[], None]) -> None:
        """Note how to leave again; called in the loop that owns the connections."""
        self._leave = partial(asyncio.get_running_loop().call_soon_threadsafe, leave)

    def cancel(self) -> None:
        """End the subscription."""
        self.cancelled = True
        if self._leave is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and all ended with it
                self._leave()


class _Resource:
    """A resource that is followed: subscribed to once, however many follow it."""

    def __init__(self, server: str, uri: str) -> None:
        self.server = server
        self.uri = uri
        self.followers: list[Subscription] = []
        self.settled = asyncio.Event()
        """Set once the server has agreed or refused for the first time."""
        self.failure: Exception | None = None
        self.left = asyncio.Event()
        """Set when nobody follows it any more."""
        self.gone = asyncio.Event()
        """Set when the server has been told so."""
        self.session: Session | None = None
        """The session in which a handshake-era server sends notifications."""

    def agreed(self) -> None:
        """Note that the server has agreed; whatever changed since the last time went unseen."""
        if self.settled.is_set():
            self.tell(self.uri)
        self.settled.set()

    def refused(self, error: Exception) -> None:
        """Note why there is no subscription, and never was one."""
        self.failure = error
        self.settled.set()
        self.left.set()

    def tell(self, uri: str) -> None:
        """Tell all who follow it."""
        for follower in tuple(self.followers):
            follower.tell(uri)

    def leave(self, follower: Subscription) -> None:
        """Let somebody go; the last one ends the subscription."""
        if follower in self.followers:
            self.followers.remove(follower)
        if not self.followers:
            self.left.set()


class Subscriptions:
    """All subscriptions of a client; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._followed: dict[tuple[str, str], _Resource] = {}

    async def add(self, subscription: Subscription) -> None:
        """Subscribe, and wait until the server has agreed.

        Raises:
            PlaitError: The server cannot be reached, or refuses.
        """
        resource = await self._resource(subscription.server, subscription.uri)
        leave = partial(resource.leave, subscription)
        resource.followers.append(subscription)
        subscription.joined(leave)
        try:
            await resource.settled.wait()
        except asyncio.CancelledError:
            leave()
            raise
        if subscription.cancelled:
            leave()
        if resource.failure is not None:
            leave()
            raise _explained(subscription, resource.failure)

    async def _resource(self, server: str, uri: str) -> _Resource:
        while (resource := self._followed.get((server, uri))) is not None:
            if not resource.left.is_set():
                return resource
            await resource.gone.wait()  # or the server would be told so after it agreed again
        resource = _Resource(server, uri)
        self._pool.start(partial(self._keep, resource), name=f"plait subscription {uri}")
        self._followed[server, uri] = resource
        return resource

    def updated(self, server: str, uri: str) -> None:
        """Tell those whom a handshake-era server's notification concerns."""
        spoken = [one for one in self._followed.values() if one.server == server and one.session]
        exactly = [one for one in spoken if one.uri == uri]
        for resource in exactly or [one for one in spoken if uri.startswith(one.uri)]:
            resource.tell(uri)

    def drop(self, server: str) -> None:
        """End all subscriptions of a server that is gone."""
        for resource in self._followed.values():
            if resource.server == server:
                resource.left.set()

    async def _keep(self, resource: _Resource) -> None:
        """Stay subscribed from session to session while somebody follows the resource."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._stay, resource)
                await resource.left.wait()
                group.cancel_scope.cancel()
            await self._unsubscribe(resource)
        finally:
            del self._followed[resource.server, resource.uri]
            if not resource.settled.is_set():
                resource.refused(ClientClosedError("the client was closed meanwhile"))
            resource.left.set()
            resource.gone.set()
            for follower in resource.followers:
                if follower.on_end is not None:
                    follower.on_end()

    async def _stay(self, resource: _Resource) -> None:
        while True:
            try:
                connection = self._pool[resource.server]
                session = await connection.wait_for_session()
                with session.listened_to():
                    if is_modern(session.client):
                        await self._listen(session, resource)
                    else:
                        await self._subscribe(connection, session, resource)
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                if not resource.settled.is_set():
                    resource.refused(error)
                    return
                logger.debug("%s: not subscribed: %s", resource.server, error)
            await asyncio.sleep(_PAUSE_SECONDS)
            logger.debug("%s: subscribing to %s again", resource.server, resource.uri)

    async def _listen(self, session: Session, resource: _Resource) -> None:
        """Be subscribed for as long as a session with a modern server lasts."""
        resource.session = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_after, session.ended, group.cancel_scope)
            try:
                await _hear(session.client, resource)
            except Exception as error:  # noqa: BLE001  # out of the group as it is, not wrapped
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _subscribe(
        self, connection: ServerConnection, session: Session, resource: _Resource
    ) -> None:
        """Be subscribed for as long as a session of the handshake era lasts."""
        resource.session = session
        seconds = connection.server.timeouts.list_seconds
        await connection.request(
            partial(_subscribe, uri=resource.uri),
            Deadline(seconds, setting="list_timeout"),
            method="resources/subscribe",
        )
        resource.agreed()
        await session.ended.wait()

    async def _unsubscribe(self, resource: _Resource) -> None:
        session = resource.session
        if session is None or session.ended.is_set() or resource.failure is not None:
            return
        seconds = self._pool[resource.server].server.timeouts.list_seconds
        try:
            async with asyncio.timeout(seconds):
                with session.borrowed() as client:
                    await _unsubscribe(client, resource.uri)
        except Exception as error:  # noqa: BLE001  # boundary: it is not needed any more
            logger.debug("%s: still subscribed: %s", resource.server, error)


def _explained(subscription: Subscription, error: Exception) -> PlaitError:
    if isinstance(error, PlaitError):
        return error
    server = subscription.server
    made = PlaitError(f"{server}: cannot subscribe to {subscription.uri}: {error}", server=server)
    made.__cause__ = error
    return made


async def _hear(client: Client, resource: _Resource) -> None:
    try:
        async with client.listen(resource_subscriptions=[resource.uri]) as events:
            if not events.honored.resource_subscriptions:
                text = f"{resource.server}: does not tell when {resource.uri} changes"
                raise ProtocolError(text, server=resource.server, retryable=False)
            resource.agreed()
            async for event in events:
                if isinstance(event, ResourceUpdated):
                    resource.tell(event.uri)
    except SubscriptionLost:
        if not resource.settled.is_set():
            raise
        logger.debug("%s: the subscription stream was lost", resource.server)


async def _subscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await client.session.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]


async def _unsubscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        await client.session.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]
