"""The tools of all servers: discovered together, remembered, and listed again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plait._support.clock import Clock, SystemClock
from plait._support.gather import gather_outcomes
from plait.client.catalog.disk_cache import ListCache
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.listing import Listing, ToolLister
from plait.client.catalog.lock.drift import Drift
from plait.client.catalog.lock.guard import LockReport
from plait.client.catalog.names import collisions, with_public_names
from plait.client.catalog.options import CatalogOptions
from plait.client.catalog.overrides import override_for, override_problems
from plait.client.catalog.tool import Tool
from plait.client.config.servers import ServerConfig
from plait.client.connections.change_listener import ChangeListener
from plait.client.connections.connection import ServerConnection
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.pool import ConnectionPool
from plait.errors import ListTimeoutError, PermissionDeniedError, PlaitError, ProtocolError

logger = logging.getLogger("plait.client.catalog")

_MOST_PRIVATE = 256
"""Lists for credentials of their own that are remembered."""

_Key = tuple[str, str]
"""A server, and the key of the credentials its tools were listed with."""


@dataclass(frozen=True, slots=True)
class DiscoveredTools:
    """The tools of some servers, and why others have none to offer."""

    tools: tuple[Tool, ...]
    failures: Mapping[str, PlaitError]


class ToolCatalog:
    """Knows the tools of every server; lives in the loop that owns the connections."""

    def __init__(
        self,
        pool: ConnectionPool,
        changes: ChangeListener,
        options: CatalogOptions | None = None,
        *,
        lists: ListCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the connections, and what has servers announce changes; `forget` acts on those."""
        self._pool = pool
        self.options = options or CatalogOptions()
        self._clock = clock or SystemClock()
        self._lister = ToolLister(changes, self.options, self._clock, lists)
        self._filters: dict[str, ToolFilter] = {}
        self._listings: dict[_Key, Listing] = {}
        self._older: dict[_Key, Listing] = {}
        """What was listed before a server announced a change; good enough for a tool's hints."""
        self._sources: dict[_Key, ServerConnection] = {}
        """Over which connection each list came: it holds for as long as that session."""
        self._locks: dict[_Key, asyncio.Lock] = {}
        self._said: set[str] = set()

    async def discover(
        self,
        servers: Sequence[str] = (),
        *,
        refresh: bool = False,
        access: Mapping[str, CallerCredentials | None] | None = None,
    ) -> DiscoveredTools:
        """List the tools that these servers offer, or all of them, under their public names.

        `access` holds the credentials to list with, by server.
        """
        accesses = access or {}
        names = list(servers) or self.options.listed_servers(self._pool.connections)
        answers = await gather_outcomes(
            self.tools_of(name, refresh=refresh, access=accesses.get(name)) for name in names
        )
        found: dict[str, tuple[Tool, ...]] = {}
        failed: dict[str, PlaitError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, PlaitError) and answer.kind != "config":
                failed[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[name] = answer
        self._check_include()
        return DiscoveredTools(tuple(self._named(found)), failed)

    def _named(self, found: Mapping[str, tuple[Tool, ...]]) -> list[Tool]:
        """Name tools so that they clash with none that was handed out before."""
        known = [tool for tools in found.values() for tool in tools]
        for name in self.options.listed_servers(self._pool.connections):
            listing = self._remembered((name, ""))
            if name not in found and listing is not None:
                known += self._offered(name, listing)
        for name, claimants in collisions(known, self.options.names).items():
            servers = ", ".join(sorted({tool.server for tool in claimants}))
            self._say(f"{servers} all have a tool {name!r}: each gets its server's name in front")
        return [
            tool for tool in with_public_names(known, self.options.names) if tool.server in found
        ]

    async def tools_of(
        self, server: str, *, refresh: bool = False, access: CallerCredentials | None = None
    ) -> tuple[Tool, ...]:
        """List the tools one server offers, from memory while that holds."""
        listing = await self._listing(server, access, refresh=refresh)
        if listing.left_out and self.options.throw_on_load_error:
            reasons = "; ".join(listing.left_out)
            raise ProtocolError(f"{server}: {reasons}", server=server, retryable=False)
        return self._offered(server, listing)

    def _offered(self, server: str, listing: Listing) -> tuple[Tool, ...]:
        filtered = self._filter(server)
        return tuple(
            tool
            for name, tool in listing.tools.items()
            if listing.verdict.refusal(name) is None and filtered.offers(listing.listed[name])
        )

    async def recall(
        self, server: str, wire_name: str, access: CallerCredentials | None = None
    ) -> Tool | None:
        """Return what is known of a tool; the server is asked only if it never listed any here.

        Raises:
            PlaitError: The server cannot be reached.
        """
        key = _key(server, access)
        listing = self._remembered(key)
        if listing is None or listing.stored:
            try:
                listing = await self._listing(server, access, live=True)
            except (ProtocolError, ListTimeoutError) as error:
                logger.warning("cannot list the tools of %s: %s", server, error)
                generation = self._pool.connection(server, access).keeper.generation
                self._listings.pop(key, None)
                listing = self._older[key] = Listing({}, {}, generation)
        return listing.tools.get(wire_name)

    def known(
        self, server: str, wire_name: str, access: CallerCredentials | None = None
    ) -> Tool | None:
        """Return what is remembered of a tool; may be called from any thread.

        What was stored long ago does not count: the server may be another by now.
        """
        listing = self._remembered(_key(server, access))
        return None if listing is None or listing.stored else listing.tools.get(wire_name)

    def _remembered(self, key: _Key) -> Listing | None:
        return self._listings.get(key) or self._older.get(key)

    def refusal(
        self, server: str, wire_name: str, access: CallerCredentials | None = None
    ) -> str | None:
        """Say why a tool is not offered, or `None` if it is; may be called from any thread."""
        listing = self._remembered(_key(server, access))
        tool = None if listing is None else listing.listed.get(wire_name)
        if tool is None:
            # One that is not listed is judged by its name, so that nothing slips past a filter.
            tool = Tool(server=server, wire_name=wire_name, name=wire_name)
        return self._filter(server).refusal(tool)

    @property
    def is_guarded(self) -> bool:
        """Whether every call needs to be approved."""
        return self.options.lock is not None and self.options.lock.mode == "block"

    async def approve(
        self, server: str, wire_name: str, access: CallerCredentials | None = None
    ) -> int:
        """Hold a tool against the lockfile, as it is in the session in which it would be called.

        Returns the generation of that session; another one may run another program.

        Raises:
            PermissionDeniedError: The tool is not what was locked.
            PlaitError: The server does not say what its tools are.
        """
        connection = self._pool.connection(server, access)
        await connection.keeper.wait_for_session()
        generation = connection.keeper.generation
        listing = await self._listing(server, access)
        if (refusal := listing.verdict.refusal(wire_name)) is not None:
            raise not_offered(server, wire_name, refusal)
        return generation

    def lock_report(self) -> LockReport:
        """Say how the tools that were listed stand to the lockfile; from any thread."""
        lock = self.options.lock
        if lock is None:
            return LockReport()
        listings = {**self._older, **self._listings}
        drift: list[Drift] = []
        for listing in listings.values():
            drift += [one for one in listing.verdict.drift if one not in drift]
        return LockReport(
            mode=lock.mode,
            file=str(lock.path),
            drift=tuple(drift),
            unchecked=tuple(
                name
                for name in self._pool.connections
                if not any(key[0] == name for key in listings)
            ),
        )

    def forget(self, server: str) -> None:
        """Have the server's tools listed again when they are next listed."""
        for key in [key for key in self._listings if key[0] == server]:
            self._older[key] = self._listings.pop(key)

    async def forget_stored(self, server: str) -> None:
        """Take a server's list off the disk, unless it was listed again meanwhile."""
        key = _key(server, None)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._listings:
                await self._lister.forget(self._pool[server])

    def is_stored(self, server: str) -> bool:
        """Return whether all that is known of a server's tools was stored; from any thread."""
        listing = self._remembered(_key(server, None))
        return listing is not None and listing.stored

    def drop(self, server: str) -> None:
        """Forget everything about a server that is gone."""
        self.forget(server)
        self._filters.pop(server, None)
        for key in [key for key in self._older if key[0] == server]:
            del self._older[key]

    def _filter(self, server: str) -> ToolFilter:
        if server not in self._filters:
            self._filters[server] = self.options.filter_for(self._pool[server].server)
        return self._filters[server]

    async def _listing(
        self,
        server: str,
        access: CallerCredentials | None,
        *,
        refresh: bool = False,
        live: bool = False,
    ) -> Listing:
        """List a server's tools, from memory while that holds; `live` is not from the disk."""
        connection = self._pool.connection(server, access)
        key = _key(server, access)
        before = self._listings.get(key)
        async with self._locks.setdefault(key, asyncio.Lock()):
            listing = self._listings.get(key)
            now = self._clock.monotonic()
            if not refresh or listing is not before:  # listed while waiting for the lock
                if (
                    listing is not None
                    and listing.holds(connection.keeper.generation, now)
                    and not (live and listing.stored)
                ):
                    return listing
                shared = None if access is None else self._shared(server)
                if shared is not None and not (live and shared.stored):
                    # Under these credentials too the tools are known from now on.
                    self._listings.pop(key, None)
                    self._older[key] = shared
                    return shared
            storable = self._lister.may_store(connection.server, access)
            stored = None
            if storable and not refresh and not live and connection.keeper.generation == 0:
                stored = await self._lister.stored(connection)
            listing = stored or await self._lister.asked(connection, store=storable)
            self._listings[key] = listing
            self._sources[key] = connection
            self._forget_oldest()
            connection.tool_count = len(listing.tools)
            self._check(connection.server, listing)
            return listing

    def _forget_oldest(self) -> None:
        """Keep the lists of so many credentials: tokens that change leave lists behind."""
        private = [key for key in (*self._older, *self._listings) if key[1]]
        for key in dict.fromkeys(private[: max(0, len(private) - _MOST_PRIVATE)]):
            for kept in (self._listings, self._older, self._sources):
                kept.pop(key, None)
            if (lock := self._locks.get(key)) is not None and not lock.locked():
                del self._locks[key]

    def _shared(self, server: str) -> Listing | None:
        """Return a list that the server calls the same for everyone, whoever asked for it."""
        now = self._clock.monotonic()
        for key, listing in self._listings.items():
            if key[0] == server and listing.public:
                source = self._sources[key]
                if listing.holds(source.keeper.generation, now):
                    return listing
        return None

    def _check(self, server: ServerConfig, listing: Listing) -> None:
        """Say, once, what is odd about the tools, and what of the client's wishes fits none."""
        tools = listing.listed.values()
        for note in listing.hidden:
            self._say(note)
        for drift in listing.verdict.drift:
            kept_back = " (not offered)" if listing.verdict.blocks and drift.tool else ""
            self._say(f"{drift.server}: {drift.text}{kept_back}")
        if server.include is not None:
            self._say_unknown(ToolFilter.of(include=server.include), tools)
        for tool in tools:
            override = override_for(self.options.overrides, tool)
            for problem in override_problems(tool, override) if override else ():
                self._say(f"{tool.full_name}: {problem}")

    def _check_include(self) -> None:
        """Say, once, which tools the client asks for that no server has."""
        shared = [
            name for name, one in self._pool.connections.items() if one.server.include is None
        ]
        listings = [self._remembered((name, "")) for name in shared]
        if self.options.include is not None and None not in listings:
            tools = [tool for one in listings if one for tool in one.listed.values()]
            self._say_unknown(ToolFilter.of(include=self.options.include), tools)

    def _say_unknown(self, wanted: ToolFilter, tools: Iterable[Tool]) -> None:
        for name, nearest in wanted.unknown_names(tools):
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            self._say(f"there is no tool {name!r}, which `include` names{hint}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            logger.warning("%s", text)


def not_offered(server: str, tool: str, reason: str) -> PermissionDeniedError:
    """Make the error for a tool that must not be called."""
    text = f"{server}/{tool}: this tool is not offered ({reason})"
    return PermissionDeniedError(text, server=server, tool=tool)


def _key(server: str, access: CallerCredentials | None) -> _Key:
    return server, "" if access is None else access.key
