"""Resource subscriptions that survive restarts, in both protocol eras, and iterating over them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from plait._support import mcp_types as types
from plait.client.connections.change_listener import cancelled_when
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import AnyClient, is_lost_stream, is_modern
from plait.client.protocol.session import McpSession
from plait.errors import ClientClosedError, PlaitError, ProtocolError

if TYPE_CHECKING:
    from plait.client.connections.connection import ServerConnection
    from plait.client.connections.pool import ConnectionPool
    from plait.client.connections.session import Session

logger = logging.getLogger("plait.client.calls")

OnUpdate = Callable[[str], None]
"""Gets the URI of a resource that has changed, or may have changed while disconnected."""

_PAUSE_SECONDS = 1.0
"""The pause before subscribing again, for servers that end a subscription at once."""

_MOST_PENDING = 1000
"""Pending updates; more are merged into one update of the subscribed resource."""


@dataclass(eq=False)
class Subscription:
    """A subscription to a resource; `cancel` ends it, from any loop and any thread."""

    server: str
    uri: str
    on_update: OnUpdate
    on_end: Callable[[], None] | None = None
    """Called if it ends without `cancel`."""
    cancelled: bool = field(default=False, init=False)
    _leave: Callable[[], object] | None = field(default=None, init=False, repr=False)

    def started(self, leave: Callable[[], None]) -> None:
        """Set how to unsubscribe; called in the loop of the connections."""
        self._leave = partial(asyncio.get_running_loop().call_soon_threadsafe, leave)

    def cancel(self) -> None:
        """End the subscription."""
        self.cancelled = True
        if self._leave is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._leave()


class _Resource:
    """A resource with subscriptions, for which one request is made to the server."""

    def __init__(self, server: str, uri: str) -> None:
        self.server = server
        self.uri = uri
        self.subscriptions: list[Subscription] = []
        self.settled = asyncio.Event()
        """Set once the server has accepted or refused for the first time."""
        self.failure: Exception | None = None
        self.unused = asyncio.Event()
        """Set when the last subscription has ended."""
        self.unsubscribed = asyncio.Event()
        """Set after the server got the request to unsubscribe."""
        self.session: Session | None = None
        """The session in which a handshake-era server sends notifications."""

    def accepted(self) -> None:
        """Record that the server has accepted; after a gap, report a possible change."""
        if self.settled.is_set():
            self.notify(self.uri)
        self.settled.set()

    def refused(self, error: Exception) -> None:
        self.failure = error
        self.settled.set()
        self.unused.set()

    def notify(self, uri: str) -> None:
        for subscription in tuple(self.subscriptions):
            subscription.on_update(uri)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription; the last one ends that with the server."""
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
        if not self.subscriptions:
            self.unused.set()


class Subscriptions:
    """All subscriptions of a client; lives in the loop of the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._resources: dict[tuple[str, str], _Resource] = {}

    async def add(self, subscription: Subscription) -> None:
        """Subscribe, and wait until the server has accepted."""
        resource = await self._resource(subscription.server, subscription.uri)
        leave = partial(resource.remove, subscription)
        resource.subscriptions.append(subscription)
        subscription.started(leave)
        try:
            await resource.settled.wait()
        except asyncio.CancelledError:
            leave()
            raise
        failure = resource.failure
        if subscription.cancelled or failure is not None:
            leave()
        if isinstance(failure, PlaitError):
            raise failure
        if failure is not None:
            server, uri = subscription.server, subscription.uri
            text = f"{server}: cannot subscribe to {uri}: {failure}"
            raise PlaitError(text, server=server) from failure

    async def _resource(self, server: str, uri: str) -> _Resource:
        while (resource := self._resources.get((server, uri))) is not None:
            if not resource.unused.is_set():
                return resource
            # Otherwise the old unsubscribe request could arrive after the new subscribe request.
            await resource.unsubscribed.wait()
        resource = _Resource(server, uri)
        self._pool.start(partial(self._keep, resource), name=f"plait subscription {uri}")
        self._resources[server, uri] = resource
        return resource

    def resource_updated(self, server: str, uri: str) -> None:
        """Dispatch the notification of a handshake-era server to its subscriptions."""
        resources = [
            resource
            for resource in self._resources.values()
            if resource.server == server and resource.session and uri.startswith(resource.uri)
        ]
        exact = [resource for resource in resources if resource.uri == uri]
        for resource in exact or resources:
            resource.notify(uri)

    def drop(self, server: str) -> None:
        """End all subscriptions of a server that was removed."""
        for resource in self._resources.values():
            if resource.server == server:
                resource.unused.set()

    async def _keep(self, resource: _Resource) -> None:
        """Stay subscribed from session to session until the last subscription has ended."""
        try:
            async with cancelled_when(resource.unused):
                await self._resubscribe(resource)
            await self._unsubscribe(resource)
        finally:
            del self._resources[resource.server, resource.uri]
            if not resource.settled.is_set():
                resource.refused(ClientClosedError("the client was closed while subscribing"))
            resource.unused.set()
            resource.unsubscribed.set()
            for subscription in resource.subscriptions:
                if subscription.on_end is not None:
                    subscription.on_end()

    async def _resubscribe(self, resource: _Resource) -> None:
        while True:
            try:
                connection = self._pool[resource.server]
                session = await connection.keeper.wait_for_session()
                with session.listened_to():
                    if is_modern(session.client):
                        resource.session = None
                        async with cancelled_when(session.ended):
                            await _listen(session.client, resource)
                    else:
                        await self._subscribe(connection, session, resource)
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                if not resource.settled.is_set():
                    resource.refused(error)
                    return
                logger.debug("%s: not subscribed: %s", resource.server, error)
            await asyncio.sleep(_PAUSE_SECONDS)
            logger.debug("%s: subscribing to %s again", resource.server, resource.uri)

    async def _subscribe(
        self, connection: ServerConnection, session: Session, resource: _Resource
    ) -> None:
        """Stay subscribed for one session of the handshake era."""
        resource.session = session
        seconds = connection.server.timeouts.list_seconds
        await connection.request(
            partial(_set_subscribed, uri=resource.uri, subscribed=True),
            Deadline(seconds, setting="list_timeout"),
            method="resources/subscribe",
        )
        resource.accepted()
        await session.ended.wait()

    async def _unsubscribe(self, resource: _Resource) -> None:
        session = resource.session
        if session is None or session.ended.is_set() or resource.failure is not None:
            return
        seconds = self._pool[resource.server].server.timeouts.list_seconds
        try:
            async with asyncio.timeout(seconds):
                with session:
                    await _set_subscribed(session.client, resource.uri, subscribed=False)
        except Exception as error:  # noqa: BLE001  # boundary: updates are not needed any more
            logger.debug("%s: still subscribed: %s", resource.server, error)


async def _listen(client: AnyClient, resource: _Resource) -> None:
    """Stay subscribed for one session with a modern server."""
    try:
        async with client.listen(resource_subscriptions=[resource.uri]) as events:
            if not events.honored.resource_subscriptions:
                text = f"{resource.server}: does not announce changes of {resource.uri}"
                raise ProtocolError(text, server=resource.server, retryable=False)
            resource.accepted()
            async for event in events:
                uri = event if isinstance(event, str) else getattr(event, "uri", None)
                if uri is not None:
                    resource.notify(uri)
    except Exception as error:
        if not is_lost_stream(error) or not resource.settled.is_set():
            raise
        logger.debug("%s: the subscription stream was lost", resource.server)


async def _set_subscribed(client: AnyClient, uri: str, *, subscribed: bool) -> None:
    if isinstance(client, McpSession):
        await (client.subscribe_resource if subscribed else client.unsubscribe_resource)(uri)
        return
    from mcp.shared.exceptions import MCPDeprecationWarning  # noqa: PLC0415  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if subscribed:
            await client.session.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        else:
            await client.session.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]


Follow = Callable[[Subscription], Awaitable[None]]
"""Starts a subscription, and returns when the server has accepted it."""

ReadResource = Callable[[str, str], Awaitable["types.ReadResourceResult"]]
"""Reads a resource of a server."""


@dataclass(frozen=True, slots=True)
class ResourceUpdate:
    """A resource that has changed, or may have changed while disconnected."""

    server: str
    uri: str
    """The subscribed resource, or one below it."""
    contents: tuple[types.TextResourceContents | types.BlobResourceContents, ...] = field(
        default=(), repr=False
    )
    """The new contents, if the watch has `read=True`."""
    error: PlaitError | None = None
    """Why reading it failed."""

    @property
    def text(self) -> str:
        """The text in the contents."""
        return "\n".join(
            part.text for part in self.contents if isinstance(part, types.TextResourceContents)
        )


class ResourceWatch:
    """An async iterator of resource updates, which is also an async context manager.

    In an `async with` block the server has accepted the subscription when the block begins, and no
    change is missed from then on; it ends with the block. Without a block the subscription begins
    and ends with the `async for` loop. Pending changes of one resource are merged. The loop ends
    when the client is closed.
    """

    def __init__(
        self, server: str, uris: tuple[str, ...], follow: Follow, read: ReadResource | None = None
    ) -> None:
        """Take the resources; with `read`, updates have contents, and the first comes at once."""
        self.server = server
        self.uris = uris
        self._follow = follow
        self._read = read
        self._inbox: _Inbox | None = None
        self._subscriptions: list[Subscription] = []

    async def __aenter__(self) -> Self:
        self._inbox = inbox = _Inbox()
        try:
            for uri in self.uris:
                put = partial(inbox.put, subscribed=uri)
                subscription = Subscription(self.server, uri, put, inbox.end)
                self._subscriptions.append(subscription)
                await self._follow(subscription)
                if self._read is not None:
                    put(uri)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the subscriptions and the loop over them; may be called from any thread."""
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions.clear()
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.end()

    def __aiter__(self) -> AsyncGenerator[ResourceUpdate]:
        return self._updates(self._inbox)

    async def _updates(self, inbox: _Inbox | None) -> AsyncGenerator[ResourceUpdate]:
        async with self if inbox is None else contextlib.nullcontext():
            inbox = inbox or self._inbox
            while inbox is not None and (update := await self._next(inbox)) is not None:
                yield update

    async def _next(self, inbox: _Inbox) -> ResourceUpdate | None:
        uri = await inbox.take()
        if uri is None:
            return None
        if self._read is None:
            return ResourceUpdate(self.server, uri)
        try:
            result = await self._read(self.server, uri)
        except ClientClosedError:
            return None
        except PlaitError as error:
            return ResourceUpdate(self.server, uri, error=error)
        return ResourceUpdate(self.server, uri, tuple(result.contents))


class _Inbox:
    """Pending updates, put in from one event loop and taken out in another."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pending: dict[str, None] = {}
        self._ended = False
        self._wakeup = asyncio.Event()

    def put(self, uri: str, *, subscribed: str) -> None:
        """Add an update, unless the same one is pending."""
        with self._lock:
            first = not self._pending
            self._pending[uri] = None
            if len(self._pending) > _MOST_PENDING:
                self._pending = {subscribed: None}
        if first:
            self._wake()

    def end(self) -> None:
        """Make `take` return `None` after the pending updates."""
        self._ended = True
        self._wake()

    async def take(self) -> str | None:
        """Return the next URI, or `None` at the end."""
        while True:
            self._wakeup.clear()
            with self._lock:
                if self._pending:
                    uri = next(iter(self._pending))
                    del self._pending[uri]
                    return uri
            if self._ended:
                return None
            await self._wakeup.wait()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wakeup.set)
