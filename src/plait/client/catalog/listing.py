"""The tool list of one server: from the server or from disk, and how long it is valid.

Lists on disk make tools known without starting their server. They are used only to show and to
search tools; before a call, the server lists them itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from plait._support.exception_groups import one_line
from plait._support.files import write_atomically
from plait._support.folders import cache_folder
from plait._support.redact import Redactor, encoded_forms
from plait._support.sanitize import escaped, is_clean_body, is_clean_json, sanitize_text
from plait._support.threads import collection_paused, in_thread
from plait._version import __version__
from plait.client.catalog.lock import UNCHECKED, LockCheck, identity_of
from plait.client.catalog.overrides import apply_override, override_for
from plait.client.catalog.tool import Tool
from plait.client.config.secrets import secret_values
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url
from plait.client.connections.change_listener import ChangeListener, announced_lists
from plait.client.connections.deadline import Deadline, Patience
from plait.client.connections.operations import ToolList, list_tools
from plait.client.protocol.tool_rows import (
    MAX_ROW_BYTES,
    RawRow,
    Row,
    checked_row,
    may_mirror,
    whole_row,
)
from plait.models.schemas.json_schema import is_list, is_mapping

if TYPE_CHECKING:
    from plait._support.clock import Clock
    from plait.client.catalog.catalog import CatalogOptions
    from plait.client.config.budgets import IncomingLimits
    from plait.client.connections.connection import ServerConnection
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.catalog")

_DEFAULT_TTL_SECONDS: Final = 7 * 24 * 3600.0
"""The TTL of a list if the server declares none."""
_OTHERS_MAY_WRITE: Final = 0o022


@dataclass(frozen=True, slots=True)
class StoredList:
    """The tools that a server listed, and its identity."""

    listed: ToolList
    identity: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What had to be repaired in it."""


@dataclass(frozen=True, slots=True)
class _Document:
    plait: str
    saved_at: float
    stored: StoredList


@cache
def _document() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)  # most clients need none


class ListCache:
    """Stores each server's list in a file; failures are logged, not raised.

    Its methods block.
    """

    def __init__(self, folder: Path | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    @property
    def folder(self) -> Path:
        """Where the lists are."""
        if self._folder is None:
            self._folder = cache_folder() / "tools"
        return self._folder

    def path_of(self, name: str, server: ServerConfig) -> Path:
        """Return the file of a server; it changes when the server's program changes."""
        text = json.dumps(_fingerprint(name, server), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def load(
        self, name: str, server: ServerConfig, ttl_seconds: float | None = None
    ) -> StoredList | None:
        """Return a stored list that is not too old; `ttl_seconds` overrides the server's TTL."""
        path = self.path_of(name, server)
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                others_write = facts.st_mode & _OTHERS_MAY_WRITE
                if os.name == "posix" and (others_write or facts.st_uid != os.getuid()):
                    logger.warning("%s is writable by others, and is not used", path)
                    return None
                body = file.read()
            document = _document().validate_json(body)
            stored = document.stored
            # Tools are checked like those that a server sends.
            tools = tuple(map(checked_row, stored.listed.tools))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.debug("%s cannot be used: %s", path, type(error).__name__)
            return None
        ttls = (ttl_seconds, stored.listed.ttl_seconds, _DEFAULT_TTL_SECONDS)
        max_age = next(ttl for ttl in ttls if ttl is not None)
        is_fresh = 0 <= self._now() - document.saved_at < max_age
        if not is_fresh or document.plait != __version__:
            return None
        clean, mirrors = is_clean_body(body), may_mirror(body)
        return replace(
            stored, listed=replace(stored.listed, tools=tools, clean=clean, may_mirror=mirrors)
        )

    def save(self, name: str, server: ServerConfig, stored: StoredList) -> None:
        """Store a list, unless it contains a secret of the server's configuration."""
        listed = replace(stored.listed, tools=tuple(map(whole_row, stored.listed.tools)))
        document = _Document(__version__, self._now(), replace(stored, listed=listed))
        try:
            text = _document().dump_json(document, by_alias=True, exclude_none=True).decode()
            secrets = secret_values(server)
            if any(form in text for one in secrets for form in (one, *encoded_forms(one)) if form):
                logger.debug("the list of %s holds a secret, and is not stored", name)
                self.drop(name, server)
                return
            path = self.path_of(name, server)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, text, mode=0o600)
        except (OSError, ValueError) as error:
            logger.debug("the list of %s cannot be stored: %s", name, error)

    def drop(self, name: str, server: ServerConfig) -> None:
        """Delete the list of a server."""
        with contextlib.suppress(OSError):
            self.path_of(name, server).unlink(missing_ok=True)


def _fingerprint(name: str, server: ServerConfig) -> dict[str, Any]:
    """Describe a server without its secrets, including the versions of its program files."""
    redact = Redactor(secret_values(server))
    details: dict[str, Any] = {"name": name, "transport": server.transport}
    if isinstance(server, RemoteOptions):
        details["url"] = public_url(server.url)
        if not callable(server.headers):
            details["headers"] = sorted(key.lower() for key in server.headers)
    if not isinstance(server, StdioServer):
        return details
    details["words"] = [redact(word) for word in (server.command, *server.args)]
    details["folder"] = server.cwd or str(Path.cwd())
    details["env"] = {key: redact(text) for key, text in sorted(server.fixed_env.items())}
    details["files"] = files = list[tuple[str, int, int]]()
    # The program, and files among its arguments: another version may have other tools.
    for path in (shutil.which(server.command), *server.args):
        with contextlib.suppress(OSError, ValueError):
            place = Path(server.cwd or ".") / (path or "")
            if path and place.is_file():
                facts = place.stat()
                files.append((path, facts.st_mtime_ns, facts.st_size))
    return details


OWN_TTL_SECONDS = 300.0
"""The TTL of a list if the server declares none and does not announce changes."""
ANNOUNCED_TTL_SECONDS = 3600.0
"""The TTL if the server announces changes, since announcements can be lost."""


MAX_SLICE_TOOLS = 100
"""So many tools are converted before other tasks have their turn."""
MAX_SLICE_BYTES = 256 * 1024
"""So much of them, if they are large."""
_PARSED_BYTES = 4 * 1024
"""What counts for a tool whose size is not known."""

T = TypeVar("T")

_TEXT_FIELDS = {
    "title": "title",
    "description": "description",
    "input_schema": "arguments",
    "output_schema": "result",
    "annotations": "annotations",
    "extra": "other fields",
}
"""The fields of a tool with texts to sanitize, and what notes call them."""


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


class ToolLister:
    """Creates listings by a client's options, without caching them."""

    def __init__(
        self,
        changes: ChangeListener,
        options: CatalogOptions,
        clock: Clock,
        lists: ListCache | None = None,
        *,
        config_of: Callable[[str], ServerConfig],
    ) -> None:
        """Take the parts; `config_of` returns a server as configured, for all callers."""
        self._changes = changes
        self._config_of = config_of
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
            await in_thread(self._lists.drop, connection.name, connection.server)

    async def load(self, connection: ServerConnection) -> Listing | None:
        """Return a list from disk that is not too old."""
        ttl = self._options.ttl_seconds
        stored = await in_thread(self._lists.load, connection.name, connection.server, ttl)
        if stored is None:
            return None
        # Other processes may write a newer one, so it is read again from time to time.
        generation = connection.keeper.generation
        ttl = OWN_TTL_SECONDS
        return await self._listing_from(connection, stored, ttl, generation, is_stored=True)

    async def fetch(
        self, connection: ServerConnection, *, store: bool, patience: Patience | None = None
    ) -> Listing:
        """Request the list from the server, and optionally store it on disk."""
        await self._changes.listen(connection, patience)
        seconds = connection.server.timeouts.list_seconds
        deadline = Deadline(seconds, setting="list_timeout", patience=patience)
        generation = 0

        async def list_some(client: McpSession) -> ToolList:
            nonlocal generation
            generation = connection.keeper.generation
            return await list_tools(client, most=connection.server.incoming.tools)

        answer = await connection.read(list_some, deadline, method="tools/list")
        announces = "tools" in announced_lists(connection.keeper.info.declared)
        default = ANNOUNCED_TTL_SECONDS if announces else OWN_TTL_SECONDS
        ttls = (self._options.ttl_seconds, answer.value.ttl_seconds, default)
        ttl = next(ttl for ttl in ttls if ttl is not None)
        stored_list = StoredList(answer.value, connection.keeper.info.identity, answer.notes)
        listing = await self._listing_from(connection, stored_list, ttl, generation)
        if store:
            await in_thread(self._lists.save, connection.name, connection.server, stored_list)
        return listing

    async def _listing_from(
        self,
        connection: ServerConnection,
        source: StoredList,
        ttl_seconds: float,
        generation: int,
        *,
        is_stored: bool = False,
    ) -> Listing:
        """Check a server's list against the lockfile, sanitize it, and apply overrides."""
        listed, lock, overrides = source.listed, self._options.lock, self._options.overrides
        original: dict[str, Tool] = {}
        limits, rejected = connection.server.incoming, list[str]()
        if listed.cut:
            rejected.append(f"only the first {limits.tools:,} tools are used (limits.tools)")
        async for rows in _slices(listed.tools):
            with collection_paused():
                for row in rows:
                    if (reason := _oversize(row, limits)) is not None:
                        rejected.append(reason)
                        continue
                    tool = Tool.from_row(connection.name, row, may_mirror=listed.may_mirror)
                    original.setdefault(tool.wire_name, tool)
        lock_check = UNCHECKED
        if lock is not None:
            # Variables that a caller adds do not make it another server.
            server = self._config_of(connection.name)
            identity = identity_of(server, source.identity, lock.path.parent)
            lock_check = lock.check(connection.name, identity, original.values())
        sanitized: list[str] = []
        if self._options.sanitize and not listed.clean:
            async for items in _slices(tuple(original.values())):
                for tool in items:
                    if isinstance(tool.source, bytes) and is_clean_body(tool.source):
                        continue  # most of its fields are not read yet
                    original[tool.wire_name], notes = sanitize_tool(tool)
                    sanitized += [f"{tool.full_name}: {note}" for note in notes]
        tools = original
        if overrides:
            tools = dict(original)
            for name, tool in original.items():
                if (override := override_for(overrides, tool)) is not None:
                    tools[name] = apply_override(tool, override)
        return Listing(
            original,
            tools,
            generation,
            self._clock.monotonic() + ttl_seconds,
            listed.public,
            (*(note for note in source.notes if note.startswith("tool ")), *rejected),
            tuple(sanitized),
            lock_check,
            is_stored,
        )


async def _slices(items: tuple[T, ...]) -> AsyncGenerator[tuple[T, ...]]:
    """Yield some of the items at a time; other tasks have their turn in between."""
    start, size = 0, 0
    for number, item in enumerate(items, start=1):
        listed = item.json if isinstance(item, RawRow) else getattr(item, "source", None)
        size += len(listed) if isinstance(listed, bytes) else _PARSED_BYTES
        if number - start >= MAX_SLICE_TOOLS or size >= MAX_SLICE_BYTES or number == len(items):
            if start:
                await asyncio.sleep(0)
            yield items[start:number]
            start, size = number, 0


def _oversize(row: Row | RawRow, limits: IncomingLimits) -> str | None:
    """Return why a tool is too large to be used, if it is."""
    is_raw = isinstance(row, RawRow)
    if is_raw and len(row.json) <= 2 * limits.schema_entries:
        return None  # an entry has at least two characters
    name = one_line(sanitize_text(row.name if is_raw else str(row.get("name"))))
    if is_raw and len(row.json) > MAX_ROW_BYTES:
        return f"tool {name!r} is left out: it has more than {MAX_ROW_BYTES:,} bytes"
    parsed = whole_row(row)
    parts: list[Any] = [parsed.get("inputSchema"), parsed.get("outputSchema")]
    entries, characters = 0, len(str(parsed.get("description") or ""))
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            characters += len(part)
        elif is_mapping(part):
            entries += len(part)
            parts += part.values()
        elif is_list(part):
            entries += len(part)
            parts += part
        if entries > limits.schema_entries:
            most = f"{limits.schema_entries:,}"
            return (
                f"tool {name!r} is left out: its schemas have more than {most} entries"
                " (limits.schema_entries)"
            )
    if characters > MAX_ROW_BYTES:
        return f"tool {name!r} is left out: it has more than {MAX_ROW_BYTES:,} bytes"
    return None


def sanitize_tool(tool: Tool) -> tuple[Tool, tuple[str, ...]]:
    """Return the tool with sanitized texts, and a note for each change.

    The wire name and the schema that arguments are checked against stay unchanged.
    """
    texts = (tool.wire_name, tool.title, tool.description, tool.annotations, tool.extra)
    if is_clean_json((*texts, tool.input_schema, tool.output_schema)):
        return tool, ()
    notes: list[str] = []
    changes: dict[str, Any] = {}
    for field, label in _TEXT_FIELDS.items():
        value = getattr(tool, field)
        if (clean := _sanitized(value, label, notes)) is not value:
            changes[field] = clean
    if sanitize_text(tool.wire_name) != tool.wire_name:
        notes.append(_note("name"))
    if not changes:
        return tool, tuple(notes)
    return replace(tool, **changes, wire_schema=tool.wire_schema), tuple(notes)


def _sanitized(value: Any, place: str, notes: list[str]) -> Any:
    """Return the value with sanitized texts, or the same object if nothing changes."""
    if isinstance(value, str):
        clean = sanitize_text(value)
        if clean != value:
            notes.append(_note(place))
        return value if clean == value else clean
    if is_mapping(value):
        made: dict[str, Any] = {}
        for key, one in value.items():
            clean = sanitize_text(key)
            # The keywords between an argument and its text are not named.
            where = place if key in {"properties", "items"} else f"{place}.{clean}"
            if clean != key:
                notes.append(_note(where))
                # It must not replace another key of that name.
                clean = escaped(key) if clean in value else clean
            made[clean] = _sanitized(one, where, notes)
        return value if all(made.get(key) is one for key, one in value.items()) else made
    if is_list(value):
        kept = [_sanitized(one, place, notes) for one in value]
        return value if all(a is b for a, b in zip(kept, value, strict=True)) else kept
    return value


def _note(place: str) -> str:
    return f"{place}: invisible or control characters were sanitized"
