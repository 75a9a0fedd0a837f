"""The tool list of one server: from the server or from disk, and how long it is valid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from plait._support.clock import Clock
from plait.client.catalog.disk_cache import ListCache, StoredList
from plait.client.catalog.lock.guard import UNCHECKED, LockCheck
from plait.client.catalog.lock.identity import identity_of
from plait.client.catalog.options import CatalogOptions
from plait.client.catalog.overrides import ToolOverride, apply_override, override_for
from plait.client.catalog.sanitize_tools import sanitize_tool
from plait.client.catalog.tool import Tool
from plait.client.config.servers import ServerConfig
from plait.client.connections.change_listener import ChangeListener, announced_lists
from plait.client.connections.connection import ServerConnection
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import ToolList, list_tools

OWN_TTL_SECONDS = 300.0
"""The TTL of a list if the server declares none and does not announce changes."""

ANNOUNCED_TTL_SECONDS = 3600.0
"""The TTL if the server announces changes, since announcements can be lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, before filters."""

    original: Mapping[str, Tool]
    """As listed, sanitized unless switched off, by wire name; of duplicates, the first."""

    tools: Mapping[str, Tool]
    """The same with the user's overrides."""

    generation: int
    """The session in which they were listed."""

    expires_at: float = float("inf")
    """The monotonic time after which they must be listed again."""

    public: bool = False
    """Whether the list is the same for all credentials."""

    rejected: tuple[str, ...] = ()
    """Why tools were left out."""

    sanitized: tuple[str, ...] = ()
    """What was sanitized in the texts of the others."""

    lock_check: LockCheck = UNCHECKED
    """How the tools differ from the lockfile."""

    stored: bool = False
    """Whether the list is from disk."""

    def holds(self, generation: int, now: float) -> bool:
        """Return whether the list is still valid."""
        return self.generation == generation and now < self.expires_at


def listing_from(
    server: str,
    listed: ToolList,
    *,
    overrides: Mapping[str, ToolOverride],
    generation: int,
    now: float,
    ttl_seconds: float,
    notes: Iterable[str],
    sanitize: bool = True,
    check: Callable[[Iterable[Tool]], LockCheck] | None = None,
    stored: bool = False,
) -> Listing:
    """Create a listing from a server's reply; `check` compares the original tools with a lockfile.

    Raises:
        ConfigError: An override does not fit its tool.
    """
    plain: dict[str, Tool] = {}
    for item in listed.tools:
        plain.setdefault(item.name, Tool.from_mcp(server, item))
    lock_check = UNCHECKED if check is None else check(plain.values())
    sanitized: list[str] = []
    if sanitize:
        for name, tool in plain.items():
            plain[name], notes_of_tool = sanitize_tool(tool)
            sanitized += [f"{tool.full_name}: {note}" for note in notes_of_tool]
    changed = {name: override_for(overrides, tool) for name, tool in plain.items()}
    return Listing(
        plain,
        {
            name: tool if (override := changed[name]) is None else apply_override(tool, override)
            for name, tool in plain.items()
        },
        generation,
        now + ttl_seconds,
        listed.public,
        tuple(note for note in notes if note.startswith("tool ")),
        tuple(sanitized),
        lock_check,
        stored,
    )


def ttl_of(listed: ToolList, *, announces: bool, own: float | None) -> float:
    """Return the TTL of a list in seconds; `own` is the user's setting."""
    if own is not None:
        return own
    if listed.ttl_seconds is not None:
        return listed.ttl_seconds
    return ANNOUNCED_TTL_SECONDS if announces else OWN_TTL_SECONDS


class ToolLister:
    """Creates listings by a client's options, without caching them."""

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
        """Return whether the list may be stored on disk: not with credentials of a run."""
        private = access is not None and (access.headers or access.env or access.auth is not None)
        return self._options.may_wait(server) and not private

    async def forget(self, connection: ServerConnection) -> None:
        """Delete a list from disk."""
        if self._options.may_wait(connection.server):
            await self._lists.drop(connection.name, connection.server)

    async def load(self, connection: ServerConnection) -> Listing | None:
        """Return a list from disk that is not too old."""
        ttl = self._options.ttl_seconds
        stored = await self._lists.load(connection.name, connection.server, ttl_seconds=ttl)
        if stored is None:
            return None
        # Other processes may write a newer one, so it is read again from time to time.
        return self._listing_from(connection, stored, OWN_TTL_SECONDS, is_stored=True)

    async def fetch(self, connection: ServerConnection, *, store: bool) -> Listing:
        """Request the list from the server, and optionally store it on disk.

        Raises:
            PlaitError: The server cannot be reached, or does not list its tools.
        """
        await self._changes.listen(connection)
        seconds = connection.server.timeouts.list_seconds
        answer = await connection.read(
            list_tools, Deadline(seconds, setting="list_timeout"), method="tools/list"
        )
        announces = "tools" in announced_lists(connection.keeper.info.capabilities)
        ttl = ttl_of(answer.value, announces=announces, own=self._options.ttl_seconds)
        stored_list = StoredList(answer.value, connection.keeper.info.identity, answer.notes)
        listing = self._listing_from(connection, stored_list, ttl)
        if store:
            await self._lists.save(connection.name, connection.server, stored_list)
        return listing

    def _listing_from(
        self,
        connection: ServerConnection,
        stored_list: StoredList,
        ttl_seconds: float,
        *,
        is_stored: bool = False,
    ) -> Listing:
        return listing_from(
            connection.name,
            stored_list.listed,
            overrides=self._options.overrides,
            generation=connection.keeper.generation,
            now=self._clock.monotonic(),
            ttl_seconds=ttl_seconds,
            notes=stored_list.notes,
            sanitize=self._options.sanitize,
            check=self._lock_check(connection, stored_list.identity),
            stored=is_stored,
        )

    def _lock_check(
        self, connection: ServerConnection, identity: Mapping[str, str] | None
    ) -> Callable[[Iterable[Tool]], LockCheck] | None:
        lock = self._options.lock
        if lock is None:
            return None
        server_identity = identity_of(connection.server, identity, lock.path.parent)
        return partial(lock.check, connection.name, server_identity)
