"""The tools of all servers: discovered in parallel, cached, and listed again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plait._support.clock import Clock, SystemClock
from plait._support.sanitize import sanitize_for_terminal
from plait._support.threads import in_thread
from plait.client.catalog.filters import ToolFilter, patterns_in
from plait.client.catalog.listing import ListCache, Listing, ToolLister
from plait.client.catalog.lock import Drift, LockReport, ToolLock
from plait.client.catalog.names import NamePolicy, collisions, with_public_names
from plait.client.catalog.overrides import ToolOverride, override_for, override_problems
from plait.client.catalog.tool import Tool
from plait.client.config.budgets import Deferral
from plait.client.config.servers import InProcessServer, ServerConfig
from plait.client.connections.change_listener import ChangeListener
from plait.client.connections.connection import ConnectionPool, ServerConnection
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.deadline import BRIEF, HASTY, PATIENT, Patience
from plait.errors import ListTimeoutError, PermissionDeniedError, PlaitError, ProtocolError

logger = logging.getLogger("plait.client.catalog")

MAX_TOOLS_NAMED_IN_LOOP = 1_000
"""More tools are named in a thread."""
MAX_WARNINGS = 20
"""Notes of one list that are logged."""
MAX_REPEATED_LISTS = 2
"""How often a list is requested again because the server announced a change meanwhile."""
MAX_PRIVATE_LISTS = 256
"""Cached lists for individual credentials."""

_Access = CallerCredentials | None

_Key = tuple[str, str]
"""A server, and the key of the credentials used to list its tools."""

ListVersion = tuple[int, int]
"""The session in which tools are listed, and how often a change was announced before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """The catalogue options of one client."""

    include: Any = None
    exclude: Any = ()
    tool_filter: Any = None
    names: NamePolicy = field(default_factory=NamePolicy)
    overrides: Mapping[str, ToolOverride] = field(default_factory=dict[str, ToolOverride])
    ttl_seconds: float | None = None
    """The TTL of every list; `None` uses the TTL of each server."""
    unlisted: frozenset[str] = frozenset()
    """Servers whose tools are listed only on request by name."""
    fallbacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """The server that is listed in place of another one that is down."""
    throw_on_load_error: bool = False
    sanitize: bool = True
    """Whether invisible and control characters are removed from the texts of tools."""
    lock: ToolLock | None = None
    """The lockfile to check tools against."""
    defer: Deferral | None = None
    """Which tools are deferred, on servers without a setting of their own."""

    def filter_for(self, server: ServerConfig) -> ToolFilter:
        """Create the filter of one server: its `include` wins, every `exclude` applies."""
        return ToolFilter.of(
            include=self.include if server.include is None else server.include,
            exclude=(
                *patterns_in(server.exclude, "exclude"),
                *patterns_in(self.exclude, "exclude"),
            ),
            tool_filter=self.tool_filter,
        )

    def may_wait(self, server: ServerConfig) -> bool:
        """Return whether a server with known tools is started only for a call."""
        deferral = server.defer or self.defer
        in_process = isinstance(server, InProcessServer)
        return deferral is not None and not deferral.is_off and not in_process

    def listed_servers(self, known: Iterable[str]) -> list[str]:
        """Return the servers whose tools are listed by default."""
        return [name for name in known if name not in self.unlisted]


@dataclass(frozen=True, slots=True)
class DiscoveredTools:
    """The tools of some servers, and the errors of those that could not be listed."""

    tools: tuple[Tool, ...]
    failures: Mapping[str, PlaitError]
    outdated: Mapping[str, PlaitError]
    """Why servers cannot be listed now whose tools are those of an earlier list."""


class ToolCatalog:
    """Caches the tools of every server; used in the event loop that owns the connections."""

    def __init__(
        self,
        pool: ConnectionPool,
        changes: ChangeListener,
        options: CatalogOptions | None = None,
        *,
        on_late: Callable[[str], None],
        lists: ListCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Use these connections; `changes` subscribes to list changes, which call `forget`.

        `on_late` gets the name of a server whose tools are listed after somebody went on without.
        """
        self._pool = pool
        self.options = options or CatalogOptions()
        self._clock = clock or SystemClock()
        self._lister = ToolLister(
            changes, self.options, self._clock, lists, config_of=lambda name: pool[name].server
        )
        self._filters: dict[str, ToolFilter] = {}
        self._listings: dict[_Key, Listing] = {}
        self._outdated: dict[_Key, Listing] = {}
        """Lists from before a server announced a change; good enough for annotations."""
        self.lists = (self._listings, self._outdated)
        """The cached lists by server and credentials; current ones first."""
        self._announced: Counter[str] = Counter()
        """How often each server announced a change."""
        self._sources: dict[_Key, ServerConnection] = {}
        """The connection of each list, which is valid as long as its session."""
        self._locks: dict[_Key, asyncio.Lock] = {}
        self._missed: dict[_Key, PlaitError] = {}
        """Why servers were not ready for an earlier listing."""
        self._late: dict[_Key, asyncio.Event] = {}
        """Lists that are under way in the background."""
        self._hurried: set[_Key] = set()
        """Lists that are missing only because a caller waited less than `connect_timeout`."""
        self._on_late = on_late
        self._warned: set[str] = set()

    async def discover(
        self,
        servers: Sequence[str] = (),
        *,
        refresh: bool = False,
        access: Mapping[str, CallerCredentials | None] | None = None,
        wait: float | None = None,
    ) -> DiscoveredTools:
        """List the offered tools of these servers, or of all, under their public names.

        `access` maps servers to the credentials to list with. Servers that need longer than
        `wait` seconds, and without it those that were not ready before, are listed in the
        background.
        """
        accesses = access or {}
        names = list(servers) or self.options.listed_servers(self._pool.connections)
        listing = (
            self._tools_in_time(
                name, accesses.get(name), wait, refresh=refresh, named=name in servers
            )
            for name in names
        )
        answers = await asyncio.gather(*listing, return_exceptions=True)
        listed_tools: dict[str, tuple[Tool, ...]] = {}
        failed: dict[str, PlaitError] = {}
        outdated: dict[str, PlaitError] = {}
        for name, answer in zip(names, answers, strict=True):
            unusable = self._pool[name].server.problem is not None
            if isinstance(answer, PlaitError) and (unusable or answer.kind != "config"):
                failed[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                listed_tools[name] = answer
                access_of_list = accesses.get(name)
                missed = self._missed.get(_key(name, access_of_list))
                if missed and self._pool.connection(name, access_of_list).tools_outdated:
                    outdated[name] = missed
        self._check_names()
        return DiscoveredTools(tuple(await self._named(listed_tools)), failed, outdated)

    async def _named(self, listed_tools: Mapping[str, tuple[Tool, ...]]) -> list[Tool]:
        """Name tools so that they do not collide with tools returned earlier."""
        known = [tool for tools in listed_tools.values() for tool in tools]
        for name in self.options.listed_servers(self._pool.connections):
            listing = self._remembered((name, ""))
            if name not in listed_tools and listing is not None:
                known += self._offered(name, listing)

        def named() -> tuple[list[str], list[Tool]]:
            notes: list[str] = []
            for name, claimants in collisions(known, self.options.names).items():
                servers = ", ".join(sorted({tool.server for tool in claimants}))
                about = "each gets its server's name in front"
                notes.append(f"{servers} all have a tool {name!r}: {about}")
            return notes, with_public_names(known, self.options.names)

        many = len(known) > MAX_TOOLS_NAMED_IN_LOOP
        notes, tools = await in_thread(named) if many else named()
        self._warn_some(notes)
        return [tool for tool in tools if tool.server in listed_tools]

    async def _tools_in_time(
        self, server: str, access: _Access, wait: float | None, *, refresh: bool, named: bool
    ) -> tuple[Tool, ...]:
        connection, key = self._pool.connection(server, access), _key(server, access)
        earlier = None if refresh else self._remembered(key)
        earlier = earlier if earlier is not None and earlier.tools else None
        missed = self._missed.get(key)
        is_back = connection.keeper.ready_session is not None
        needed = earlier is None and (named or connection.server.required)
        patient = needed or missed is None or key in self._hurried
        patient = patient or (is_back and not isinstance(missed, ListTimeoutError))
        try:
            if refresh or (wait is None and patient):
                patience = None if earlier is None else BRIEF
                tools = await self.tools_of(
                    server, refresh=refresh, access=access, patience=patience
                )
                self._missed.pop(key, None)
                return tools
            if not self._is_listed(key, connection):
                listed = self._in_background(server, access)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait or 0.0):
                        await listed.wait()
                if not listed.is_set() or key in self._missed:
                    if wait is not None and not listed.is_set() and missed is None:
                        self._hurried.add(key)
                    late = connection.keeper.not_ready_error(wait or 0.0)
                    raise copy(self._missed.get(key, late))
            return await self.tools_of(server, access=access)
        except PlaitError as error:
            if error.kind != "transport":
                raise
            self._missed[key] = error
            if wait is None:
                self._hurried.discard(key)
            if len(self._missed) > MAX_PRIVATE_LISTS:
                del self._missed[next(iter(self._missed))]
                self._hurried &= self._missed.keys()
            backup = self.options.fallbacks.get(server)
            if backup is not None and backup in self.options.unlisted:
                with suppress(PlaitError):
                    listing = await self._listing(backup, None)
                    backed_up = f"its tools are listed as those of {backup}, its backup"
                    self._warn_once(f"{error}; {backed_up}")
                    tools = self._offered(server, listing)
                    return tuple(replace(tool, server=server) for tool in tools)
            if earlier is None:
                raise
            # An agent that knows of these tools must not read that there are none: its calls wait
            # for the server, or say what is wrong with it.
            connection.tools_outdated = True
            return self._offered(server, earlier)

    def _in_background(self, server: str, access: _Access = None) -> asyncio.Event:
        """List a server's tools in the background; the event is set when that has ended."""
        key = _key(server, access)
        if (known := self._late.get(key)) is not None:
            return known

        async def list_late() -> None:
            try:
                await self._listing(server, access)
            except PlaitError as error:
                self._missed[key] = error
            else:
                if self._missed.pop(key, None) is not None:
                    self._on_late(server)
            finally:
                self._late.pop(key).set()

        self._pool.tasks.start(list_late, name=f"plait list {server}")
        self._late[key] = asyncio.Event()
        return self._late[key]

    def session_opened(self, server: str) -> None:
        """List the tools of a server that was not ready before."""
        if _key(server, None) in self._missed:
            self._in_background(server)

    async def tools_of(
        self,
        server: str,
        *,
        refresh: bool = False,
        access: _Access = None,
        patience: Patience | None = None,
    ) -> tuple[Tool, ...]:
        """List the offered tools of one server, from the cache while it is valid."""
        listing = await self._listing(server, access, refresh=refresh, patience=patience)
        if listing.rejected and self.options.throw_on_load_error:
            reasons = "; ".join(listing.rejected)
            raise ProtocolError(f"{server}: {reasons}", server=server, retryable=False)
        return self._offered(server, listing)

    def _offered(self, server: str, listing: Listing) -> tuple[Tool, ...]:
        filtered, lock = self._filter(server), listing.lock_check
        if filtered.is_open and not lock.blocks:
            return tuple(listing.tools.values())
        return tuple(
            tool
            for name, tool in listing.tools.items()
            if lock.refusal(name) is None and filtered.offers(listing.original[name])
        )

    async def recall(self, server: str, wire_name: str, access: _Access = None) -> Tool | None:
        """Return a cached tool; the server lists its tools only if it never did here."""
        key = _key(server, access)
        listing = self._remembered(key)
        if listing is None or listing.stored:
            keeper = self._pool.connection(server, access).keeper
            down = self._missed.get(key) if server in self.options.fallbacks else None
            if down is not None and keeper.ready_session is None:
                raise copy(down)  # the backup need not wait for it
            # Listing alone would not wait long for a server that has never been there.
            has_backup = server in self.options.fallbacks
            await keeper.wait_for_session(HASTY if has_backup else PATIENT)
            try:
                listing = await self._listing(server, access, live=True)
            except (ProtocolError, ListTimeoutError) as error:
                logger.warning("cannot list the tools of %s: %s", server, error)
                generation = keeper.generation
                self._listings.pop(key, None)
                listing = self._outdated[key] = Listing({}, {}, generation)
        return listing.tools.get(wire_name)

    def known(self, server: str, wire_name: str, access: _Access = None) -> Tool | None:
        """Return a cached tool, from any thread.

        A list from disk does not count: the server may have changed since.
        """
        listing = self._remembered(_key(server, access))
        return None if listing is None or listing.stored else listing.tools.get(wire_name)

    def _remembered(self, key: _Key) -> Listing | None:
        return self._listings.get(key) or self._outdated.get(key)

    def refusal(self, server: str, wire_name: str, access: _Access = None) -> str | None:
        """Return why a tool is not offered, or `None` if it is, from any thread."""
        listing = self._remembered(_key(server, access))
        tool = None if listing is None else listing.original.get(wire_name)
        if tool is None:
            # A tool that is not listed is filtered by its name.
            tool = Tool(server=server, wire_name=wire_name, name=wire_name)
        return self._filter(server).refusal(tool)

    @property
    def is_guarded(self) -> bool:
        """Whether every call is checked against the lockfile."""
        return self.options.lock is not None and self.options.lock.mode == "block"

    def version(self, server: str, access: _Access = None) -> ListVersion:
        """Return a value that is another one when the tools of a server may have changed."""
        return self._pool.connection(server, access).keeper.generation, self._announced[server]

    async def approve(self, server: str, wire_name: str, access: _Access = None) -> ListVersion:
        """Check a tool against the lockfile, as listed in the session of the call.

        Returns the version of that list; another session may run another program.
        """
        patience = HASTY if server in self.options.fallbacks else PATIENT
        await self._pool.connection(server, access).keeper.wait_for_session(patience)
        version = self.version(server, access)
        listing = await self._listing(server, access)
        if (refusal := listing.lock_check.refusal(wire_name)) is not None:
            raise not_offered(server, wire_name, refusal)
        return version

    async def current(
        self, server: str, wire_name: str, access: _Access = None
    ) -> tuple[Tool | None, ListVersion]:
        """Return a tool as listed in the session of the call, and the version of that list.

        A server that cannot list its tools has none: nothing is known of them.
        """
        patience = HASTY if server in self.options.fallbacks else None
        await self._pool.connection(server, access).keeper.wait_for_session(patience)
        version = self.version(server, access)
        try:
            listing = await self._listing(server, access, live=True)
        except (ProtocolError, ListTimeoutError) as error:
            logger.warning("cannot list the tools of %s: %s", server, error)
            return None, version
        return listing.tools.get(wire_name), version

    def lock_report(self) -> LockReport:
        """Compare the cached tools with the lockfile, from any thread."""
        lock = self.options.lock
        if lock is None:
            return LockReport()
        listings = {**self._outdated, **self._listings}
        drift: list[Drift] = []
        for listing in listings.values():
            drift += [entry for entry in listing.lock_check.drift if entry not in drift]
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
        """Invalidate the cached tools of a server, and the list that is under way."""
        self._announced[server] += 1
        for key in [key for key in self._listings if key[0] == server]:
            self._outdated[key] = self._listings.pop(key)

    async def forget_stored(self, server: str) -> None:
        """Delete a server's list from disk, unless it was listed again meanwhile."""
        key = _key(server, None)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._listings:
                await self._lister.forget(self._pool[server])

    def is_stored(self, server: str) -> bool:
        """Return whether a server's cached list is from disk; from any thread."""
        listing = self._remembered(_key(server, None))
        return listing is not None and listing.stored

    def drop(self, server: str) -> None:
        """Remove a server from the cache."""
        self.forget(server)
        self._filters.pop(server, None)
        for kept in (self._outdated, self._missed):
            for key in [key for key in kept if key[0] == server]:
                del kept[key]

    def _filter(self, server: str) -> ToolFilter:
        if server not in self._filters:
            self._filters[server] = self.options.filter_for(self._pool[server].server)
        return self._filters[server]

    async def _listing(
        self,
        server: str,
        access: _Access,
        *,
        refresh: bool = False,
        live: bool = False,
        patience: Patience | None = None,
    ) -> Listing:
        """List a server's tools, from the cache while it is valid; `live` skips the disk.

        `patience` is how long to wait for a session.
        """
        connection = self._pool.connection(server, access)
        key = _key(server, access)
        before, missed_before = self._listings.get(key), self._missed.get(key)
        with connection.used():
            async with self._locks.setdefault(key, asyncio.Lock()):
                listing = self._listings.get(key)
                if not refresh or listing is not before:  # listed while waiting for the lock
                    if self._is_listed(key, connection) and not (
                        live and self._listings[key].stored
                    ):
                        return self._listings[key]
                    shared = None if access is None else self._shared(server)
                    if shared is not None and not (live and shared.stored):
                        # These credentials use the shared list from now on.
                        self._listings.pop(key, None)
                        self._outdated[key] = shared
                        return shared
                missed = self._missed.get(key)
                if patience is BRIEF and missed is not None and missed is not missed_before:
                    raise copy(missed)  # it was tried while waiting for the lock
                storable = self._lister.may_store(connection.server, access)
                stored = None
                if storable and not refresh and not live and connection.keeper.generation == 0:
                    stored = await self._lister.load(connection)
                announced = self._announced[server]
                fetch = partial(self._lister.fetch, connection, store=storable, patience=patience)
                listing = stored or await fetch()
                for _ in range(MAX_REPEATED_LISTS):
                    if self._announced[server] == announced:
                        break
                    announced = self._announced[server]
                    listing = await fetch()
                if self._announced[server] == announced:
                    self._listings[key] = listing
                else:  # it may be from before the change
                    self._outdated[key] = listing
                self._sources[key] = connection
                # Changing tokens leave lists behind: those of individual credentials are limited.
                private = [known for known in (*self._outdated, *self._listings) if known[1]]
                for known in dict.fromkeys(private[: max(0, len(private) - MAX_PRIVATE_LISTS)]):
                    for kept in (self._listings, self._outdated, self._sources):
                        kept.pop(known, None)
                    if (lock := self._locks.get(known)) is not None and not lock.locked():
                        del self._locks[known]
                connection.tool_count, connection.tools_outdated = len(listing.tools), False
                self._check(connection.name, connection.server, listing)
                return listing

    def _shared(self, server: str) -> Listing | None:
        """Return a list that the server declares to be the same for all credentials."""
        for key, listing in self._listings.items():
            if key[0] == server and listing.public and self._is_listed(key, self._sources[key]):
                return listing
        return None

    def _is_listed(self, key: _Key, connection: ServerConnection) -> bool:
        listing, now = self._listings.get(key), self._clock.monotonic()
        return listing is not None and listing.holds(connection.keeper.generation, now)

    def _check(self, name: str, server: ServerConfig, listing: Listing) -> None:
        """Warn once about suspicious tools, and options that match no tool."""
        tools = listing.original.values()
        self._warn_some([f"{name}: {note}" for note in listing.rejected])
        self._warn_some(listing.sanitized)
        for drift in listing.lock_check.drift:
            kept_back = " (not offered)" if listing.lock_check.blocks and drift.tool else ""
            self._warn_once(f"{drift.server}: {drift.text}{kept_back}")
        self.warn_unknown("include", server.include, tools)
        self.warn_unknown("exclude", server.exclude, tools)
        for tool in tools if self.options.overrides else ():
            override = override_for(self.options.overrides, tool)
            for problem in override_problems(tool, override) if override else ():
                self._warn_once(f"{tool.full_name}: {problem}")

    def _check_names(self) -> None:
        """Warn once about names in options that no server has, when all servers were listed."""
        connections, options = self._pool.connections, self.options
        timed = [name for one in connections.values() for name in one.server.timeouts.tool_seconds]
        named = {"include": options.include, "exclude": options.exclude, "tool_timeouts": timed}
        named["tool_overrides"] = tuple(options.overrides)
        listings = [self._remembered((name, "")) for name in connections]
        if any(named.values()) and None not in listings:
            tools = [tool for one in listings if one for tool in one.original.values()]
            for option, names in named.items():
                self.warn_unknown(option, names, tools)

    def warn_unknown(self, option: str, names: Any, tools: Iterable[Tool]) -> None:
        """Warn once about names in an option that none of the tools has."""
        if not names:
            return
        for name, nearest in ToolFilter.of(include=names).unknown_names(tools):
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            self._warn_once(f"there is no tool {name!r}, which `{option}` names{hint}")

    def _warn_some(self, notes: Sequence[str]) -> None:
        """Warn about the first of many notes, and say how many more there are."""
        for note in notes[:MAX_WARNINGS]:
            self._warn_once(note)
        if (more := len(notes) - MAX_WARNINGS) > 0:
            self._warn_once(f"{notes[-1]} (and {more - 1} more such notes)")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", sanitize_for_terminal(" ".join(text.split())))


def not_offered(server: str, tool: str, reason: str) -> PermissionDeniedError:
    """Create the error for a tool that must not be called."""
    text = f"{server}/{tool}: this tool is not offered ({reason})"
    return PermissionDeniedError(text, server=server, tool=tool)


def _key(server: str, access: _Access) -> _Key:
    return server, "" if access is None else access.key
