"""Iterating over the changes of resources."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import mcp_types as types

from plait.client.subscriptions import Subscription
from plait.errors import ClientClosedError, PlaitError

Follow = Callable[[Subscription], Awaitable[None]]
"""Starts a subscription, and returns when the server has accepted it."""

ReadResource = Callable[[str, str], Awaitable[types.ReadResourceResult]]
"""Reads a resource of a server."""

_MOST_PENDING = 1000
"""Pending updates; more are merged into one update of the subscribed resource."""


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
        """Return the next update, or `None` at the end."""
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
