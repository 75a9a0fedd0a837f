"""Listens to changes that servers announce: of their lists, and of subscribed resources.

Both kinds survive restarts of a server, and work in both protocol eras.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, get_args
from weakref import WeakKeyDictionary

import anyio

from plait._support import mcp_types as types
from plait._support.mappings import entries_of
from plait.client.connections.deadline import Deadline, Patience
from plait.client.connections.operations import is_modern
from plait.client.connections.session_keeper import Session
from plait.client.protocol.session import SubscriptionLostError
from plait.errors import ClientClosedError, PlaitError, ProtocolError

if TYPE_CHECKING:
    from plait.client.connections.connection import ConnectionPool, ServerConnection
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.connections")

ListKind = Literal["tools", "prompts", "resources"]
"""A list of a server that may change."""

_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 30.0
"""Pauses before listening again; they double while the server cannot be reached."""
_AGREEMENT_SECONDS = 1.0
"""How long the first list request waits for the subscription, so that no change is missed."""
_RESUBSCRIBE_SECONDS = 1.0
"""The pause before subscribing again, for servers that end a subscription at once."""
_MAX_PENDING_UPDATES = 1000
"""Pending updates; more are merged into one update of the subscribed resource."""
_MAX_ENDINGS = 5
"""How often in a row a server may end the stream at once before listening stops."""
_LASTING_SECONDS = 10.0
"""A stream that was open for this long was not ended at once."""


def announced_lists(capabilities: Mapping[str, Any] | None) -> frozenset[ListKind]:
    """Return the lists for which a server declares `listChanged`."""
    kinds: tuple[ListKind, ...] = get_args(ListKind)
    declared = {kind: entries_of((capabilities or {}).get(kind)) for kind in kinds}
    return frozenset(kind for kind in kinds if declared[kind].get("listChanged"))


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
        lists = self._lists & announced_lists(session.client.capabilities)
        if lists and is_modern(session.client):

            async def listen() -> None:
                try:
                    async with cancelled_when(session.ended):
                        await self._listen(session, lists, subscribed)
                finally:
                    subscribed.set()

            self._pool.tasks.start(listen, name=f"plait listen {session.wire.server}")
        else:
            subscribed.set()
        return subscribed

    async def _listen(
        self, session: Session, lists: frozenset[ListKind], subscribed: asyncio.Event
    ) -> None:
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
        server = session.wire.server
        endings = failures = 0
        while endings < _MAX_ENDINGS:
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
            except Exception as error:  # noqa: BLE001  # boundary: transports may raise anything
                logger.debug("%s: the stream of changes has ended: %r", server, error)
                if isinstance(error, SubscriptionLostError):
                    endings += 1
                elif subscribed.is_set():
                    failures += 1  # perhaps the network: it was subscribed before
                else:
                    return
            if time.monotonic() - began > _LASTING_SECONDS:
                endings = 1
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, _PAUSE_SECONDS * 2**failures))


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


OnUpdate = Callable[[str], None]
"""Gets the URI of a resource that has changed, or may have changed while disconnected."""


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
        server, uri = subscription.server, subscription.uri
        while (resource := self._resources.get((server, uri))) and resource.unused.is_set():
            # Otherwise the old unsubscribe request could arrive after the new subscribe request.
            await resource.unsubscribed.wait()
        if resource is None:
            resource = _Resource(server, uri)
            self._pool.tasks.start(partial(self._keep, resource), name=f"plait subscription {uri}")
            self._resources[server, uri] = resource
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
            text = f"{server}: cannot subscribe to {uri}: {failure}"
            raise PlaitError(text, server=server) from failure

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
                while resource.failure is None:
                    await self._stay_subscribed(resource)
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

    async def _stay_subscribed(self, resource: _Resource) -> None:
        """Stay subscribed for one session."""
        try:
            connection = self._pool[resource.server]
            session = await connection.keeper.wait_for_session()
            with session.listened_to():
                if is_modern(session.client):
                    resource.session = None
                    async with cancelled_when(session.ended):
                        await _listen(session.client, resource)
                else:
                    resource.session = session
                    seconds = connection.server.timeouts.list_seconds
                    await connection.request(
                        lambda client: client.subscribe_resource(resource.uri),
                        Deadline(seconds, setting="list_timeout"),
                        method="resources/subscribe",
                    )
                    resource.accepted()
                    await session.ended.wait()
        except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
            if not resource.settled.is_set():
                resource.refused(error)
                return
            logger.debug("%s: not subscribed: %s", resource.server, error)
        await asyncio.sleep(_RESUBSCRIBE_SECONDS)
        logger.debug("%s: subscribing to %s again", resource.server, resource.uri)

    async def _unsubscribe(self, resource: _Resource) -> None:
        session = resource.session
        if session is None or session.ended.is_set() or resource.failure is not None:
            return
        try:
            async with asyncio.timeout(self._pool[resource.server].server.timeouts.list_seconds):
                with session:
                    await session.client.unsubscribe_resource(resource.uri)
        except Exception as error:  # noqa: BLE001  # boundary: updates are not needed any more
            logger.debug("%s: still subscribed: %s", resource.server, error)


async def _listen(client: McpSession, resource: _Resource) -> None:
    """Stay subscribed for one session with a modern server."""
    try:
        async with client.listen(resource_subscriptions=[resource.uri]) as events:
            if not events.honored.resource_subscriptions:
                text = f"{resource.server}: does not announce changes of {resource.uri}"
                raise ProtocolError(text, server=resource.server, retryable=False)
            resource.accepted()
            async for uri in events:
                resource.notify(uri)
    except SubscriptionLostError:
        if not resource.settled.is_set():
            raise
        logger.debug("%s: the subscription stream was lost", resource.server)


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
            while inbox is not None and (uri := await inbox.take()) is not None:
                update = ResourceUpdate(self.server, uri)
                if self._read is not None:
                    try:
                        result = await self._read(self.server, uri)
                    except ClientClosedError:
                        return
                    except PlaitError as error:
                        update = replace(update, error=error)
                    else:
                        update = replace(update, contents=tuple(result.contents))
                yield update


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
            if len(self._pending) > _MAX_PENDING_UPDATES:
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
