"""Following resources in a loop: every change is one turn of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

import mcp_types as types

from plait.client.subscriptions import Subscription
from plait.errors import ClientClosedError, PlaitError

Follow = Callable[[Subscription], Awaitable[None]]
"""Begins a subscription, and returns when the server has agreed."""

ReadResource = Callable[[str, str], Awaitable[types.ReadResourceResult]]
"""Reads a resource of a server."""

_MOST_WAITING = 1000
"""Changed resources that wait to be taken; more are told as one change of what is followed."""


@dataclass(frozen=True, slots=True)
class ResourceUpdate:
    """A resource that has changed, or may have changed while nobody could see it."""

    server: str

    uri: str
    """The resource that is followed, or one that belongs to it."""

    contents: tuple[types.TextResourceContents | types.BlobResourceContents, ...] = field(
        default=(), repr=False
    )
    """What it holds now, where that was asked for."""

    error: PlaitError | None = None
    """Why it could not be read."""

    @property
    def text(self) -> str:
        """The text in the contents."""
        texts = [one.text for one in self.contents if isinstance(one, types.TextResourceContents)]
        return "\n".join(texts)


class ResourceWatch:
    """Changes of resources as they come: loop over it, in a block of its own or without.

    In an `async with` block the server has agreed when the block begins, and nothing is missed
    from then on; the subscription ends with the block. Without one it begins and ends with the
    loop. Several changes of one resource that nobody has taken yet are one. The loop ends when
    the client is closed.
    """

    def __init__(
        self, server: str, uris: tuple[str, ...], follow: Follow, read: ReadResource | None = None
    ) -> None:
        """Take what to follow; with `read`, each update has the contents, and the first is now."""
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
                put = partial(inbox.put, among=uri)
                subscription = Subscription(self.server, uri, put, inbox.end)
                self._subscriptions.append(subscription)
                await self._follow(subscription)
                if self._read is not None:
                    put(uri)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the subscriptions, and the loop over them; may be called from any thread."""
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions.clear()
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.end()

    def __aiter__(self) -> AsyncGenerator[ResourceUpdate]:
        return self._alone() if self._inbox is None else self._updates(self._inbox)

    async def _alone(self) -> AsyncGenerator[ResourceUpdate]:
        async with self:
            inbox = self._inbox
            while inbox is not None and (update := await self._next(inbox)) is not None:
                yield update

    async def _updates(self, inbox: _Inbox) -> AsyncGenerator[ResourceUpdate]:
        while (update := await self._next(inbox)) is not None:
            yield update

    async def _next(self, inbox: _Inbox) -> ResourceUpdate | None:
        """Return the next update, or `None` when there will be none."""
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
    """What has changed and was not taken yet; filled in one loop, and emptied in another."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._ended = False
        self._rung = asyncio.Event()

    def put(self, uri: str, *, among: str) -> None:
        """Note a change; one that waits already is not noted twice."""
        with self._lock:
            first = not self._waiting
            self._waiting[uri] = None
            if len(self._waiting) > _MOST_WAITING:
                self._waiting = {among: None}
        if first:
            self._ring()

    def end(self) -> None:
        """Let whoever takes know that nothing more will come."""
        self._ended = True
        self._ring()

    async def take(self) -> str | None:
        """Return the next change, or `None` when there will be none."""
        while True:
            self._rung.clear()
            with self._lock:
                uri = next(iter(self._waiting), None)
                if uri is not None:
                    del self._waiting[uri]
                    return uri
            if self._ended:
                return None
            await self._rung.wait()

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody takes any more
            self._loop.call_soon_threadsafe(self._rung.set)
