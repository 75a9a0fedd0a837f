"""What one server listed, and for how long that may be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from plait._support.clock import Clock
from plait.client.catalog.disk_cache import ListCache, StoredList
from plait.client.catalog.lock.guard import UNCHECKED, Verdict
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
"""How long a list holds where the server neither says so nor announces changes."""

ANNOUNCED_TTL_SECONDS = 3600.0
"""The same where the server announces changes: announcements can be lost."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server: all of them, whatever the filters say."""

    listed: Mapping[str, Tool]
    """As the server listed them, by wire name; of two with one name, the first.

    Their texts are harmless already, unless the client wants them as they are.
    """

    tools: Mapping[str, Tool]
    """The same with the user's overrides."""

    generation: int
    """In which session they were listed."""

    expires_at: float = float("inf")
    """The monotonic time after which they must be listed again."""

    public: bool = False
    """Whether the list is the same for all credentials."""

    left_out: tuple[str, ...] = ()
    """What is wrong with the tools that could not be taken."""

    hidden: tuple[str, ...] = ()
    """What was made harmless in the texts of the others."""

    verdict: Verdict = UNCHECKED
    """How the tools stand to the lockfile."""

    stored: bool = False
    """Whether this is what the server listed some time ago, to another client."""

    def holds(self, generation: int, now: float) -> bool:
        """Return whether the list can still be used."""
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
    judge: Callable[[Iterable[Tool]], Verdict] | None = None,
    stored: bool = False,
) -> Listing:
    """Make a listing of what the server answered.

    `judge` holds the tools, exactly as they came, against a lockfile.

    Raises:
        ConfigError: An override does not fit its tool.
    """
    plain: dict[str, Tool] = {}
    for item in listed.tools:
        plain.setdefault(item.name, Tool.from_mcp(server, item))
    verdict = UNCHECKED if judge is None else judge(plain.values())
    hidden: list[str] = []
    if sanitize:
        for name, tool in plain.items():
            plain[name], found = sanitize_tool(tool)
            hidden += [f"{tool.full_name}: {note}" for note in found]
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
        tuple(hidden),
        verdict,
        stored,
    )


def ttl_of(listed: ToolList, *, announces: bool, own: float | None) -> float:
    """Say for how many seconds a list holds; `own` is what the user asks for."""
    if own is not None:
        return own
    if listed.ttl_seconds is not None:
        return listed.ttl_seconds
    return ANNOUNCED_TTL_SECONDS if announces else OWN_TTL_SECONDS


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
        """Return whether the list may be kept on disk: not for credentials that come with a run."""
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
        answer = await connection.read(
            list_tools, Deadline(seconds, setting="list_timeout"), method="tools/list"
        )
        announces = "tools" in announced_lists(connection.keeper.info.capabilities)
        ttl = ttl_of(answer.value, announces=announces, own=self._options.ttl_seconds)
        seen = StoredList(answer.value, connection.keeper.info.identity, answer.notes)
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
            generation=connection.keeper.generation,
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
