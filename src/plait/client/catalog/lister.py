"""Getting the list of a server's tools: from the server, or as it was kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from plait._support.clock import Clock
from plait.client.catalog.disk_cache import ListCache, StoredList
from plait.client.catalog.listing import OWN_TTL_SECONDS, Listing, listing_from, ttl_of
from plait.client.catalog.lock.guard import Verdict
from plait.client.catalog.lock.identity import identity_of
from plait.client.catalog.options import CatalogOptions
from plait.client.catalog.tool import Tool
from plait.client.config.servers import ServerConfig
from plait.client.connections.change_listener import ChangeListener, announced_lists
from plait.client.connections.connection import ServerConnection
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import list_tools


class ToolLister:
    """Makes listings as a client wants them; remembers nothing itself."""

    def __init__(
        self,
        changes: ChangeListener,
        options: CatalogOptions,
        clock: Clock,
        lists: ListCache | None = None,
    ) -> None:
        self._changes = changes
        self._options = options
        self._clock = clock
        self._lists = lists or ListCache()

    def may_store(self, server: ServerConfig, access: CallerCredentials | None) -> bool:
        """Say whether the list may be kept on disk: not for credentials that come with a run."""
        private = access is not None and (access.headers or access.env or access.auth is not None)
        return self._options.may_wait(server) and not private

    async def forget(self, connection: ServerConnection) -> None:
        """Take a list off the disk."""
        if self._options.may_wait(connection.server):
            await self._lists.drop(connection.name, connection.server)

    async def stored(self, connection: ServerConnection) -> Listing | None:
        """Return what a server listed to an earlier client, if that is not too old."""
        ttl = self._options.ttl_seconds
        stored = await self._lists.load(connection.name, connection.server, ttl_seconds=ttl)
        if stored is None:
            return None
        # Others may write a newer one, so it is read again from time to time.
        return self._listing_from(connection, stored, OWN_TTL_SECONDS, is_stored=True)

    async def asked(self, connection: ServerConnection, *, store: bool) -> Listing:
        """Have the server list its tools, and keep the list on disk if that is wanted.

        Raises:
            PlaitError: The server cannot be reached, or does not list them.
        """
        await self._changes.listen(connection)
        seconds = connection.server.timeouts.list_seconds
        answer = await connection.answer(
            list_tools, Deadline(seconds, setting="list_timeout"), method="tools/list"
        )
        announces = "tools" in announced_lists(connection.facts.capabilities)
        ttl = ttl_of(answer.value, announces=announces, own=self._options.ttl_seconds)
        seen = StoredList(answer.value, connection.facts.identity, answer.notes)
        listing = self._listing_from(connection, seen, ttl)
        if store:
            await self._lists.save(connection.name, connection.server, seen)
        return listing

    def _listing_from(
        self,
        connection: ServerConnection,
        seen: StoredList,
        ttl_seconds: float,
        *,
        is_stored: bool = False,
    ) -> Listing:
        return listing_from(
            connection.name,
            seen.listed,
            overrides=self._options.overrides,
            generation=connection.generation,
            now=self._clock.monotonic(),
            ttl_seconds=ttl_seconds,
            notes=seen.notes,
            sanitize=self._options.sanitize,
            judge=self._judge(connection, seen.identity),
            stored=is_stored,
        )

    def _judge(
        self, connection: ServerConnection, said: Mapping[str, str] | None
    ) -> Callable[[Iterable[Tool]], Verdict] | None:
        lock = self._options.lock
        if lock is None:
            return None
        identity = identity_of(connection.server, said, lock.path.parent)
        return partial(lock.verdict, connection.name, identity)
