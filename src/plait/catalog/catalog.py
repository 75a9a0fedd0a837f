"""The tools of all servers: discovered together, remembered, and listed again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from plait.catalog.filters import is_offered
from plait.catalog.names import with_public_names
from plait.catalog.tool import Tool
from plait.connections.connection import ServerConnection
from plait.connections.deadline import Deadline
from plait.connections.operations import list_tools
from plait.connections.pool import ConnectionPool
from plait.errors import ConnectError, ListTimeoutError, PlaitError, ProtocolError

logger = logging.getLogger("plait.catalog")


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a server listed, and in which session."""

    tools: tuple[Tool, ...]
    generation: int


class ToolCatalog:
    """Knows the tools of every server; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._listings: dict[str, _Listing] = {}
        self._older: dict[str, _Listing] = {}
        """What was listed before a server announced a change; good enough for a tool's hints."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._warned: set[str] = set()

    async def tools(self, servers: Sequence[str] = (), *, refresh: bool = False) -> list[Tool]:
        """List the tools of these servers, or of all; an optional server that fails is left out.

        Raises:
            PlaitError: A required server failed, one was named and failed, or all of them did.
        """
        names = list(servers) or list(self._pool.connections)
        answers = await asyncio.gather(
            *(self.tools_of(name, refresh=refresh) for name in names), return_exceptions=True
        )
        found: list[Tool] = []
        failed: dict[str, PlaitError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, PlaitError):
                failed[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
                self._warned.discard(name)
        self._report(failed, named=bool(servers), nothing=len(failed) == len(names))
        return with_public_names(found)

    def _report(self, failed: dict[str, PlaitError], *, named: bool, nothing: bool) -> None:
        for name, error in failed.items():
            if named or self._pool[name].server.required:
                raise error
        if failed and nothing:
            if len(failed) == 1:
                raise next(iter(failed.values()))
            reasons = "; ".join(str(error) for error in failed.values())
            text = f"none of the {len(failed)} servers can be used: {reasons}"
            raise ConnectError(text, server=", ".join(failed))
        for name, error in failed.items():
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("going on without %s: %s", name, error)

    async def tools_of(self, server: str, *, refresh: bool = False) -> tuple[Tool, ...]:
        """List the tools one server offers, from memory if it has not changed since."""
        connection = self._pool[server]
        listing = await self._listing(connection, refresh=refresh)
        return tuple(tool for tool in listing.tools if is_offered(tool, connection.server))

    async def recall(self, server: str, wire_name: str) -> Tool | None:
        """Return what is known of a tool; the server is asked only if it never listed any.

        Raises:
            PlaitError: The server cannot be reached.
        """
        listing = self._listings.get(server) or self._older.get(server)
        if listing is None:
            try:
                listing = await self._listing(self._pool[server])
            except (ProtocolError, ListTimeoutError) as error:
                logger.warning("cannot list the tools of %s: %s", server, error)
                listing = self._older[server] = _Listing((), self._pool[server].generation)
        return next((tool for tool in listing.tools if tool.wire_name == wire_name), None)

    def forget(self, server: str) -> None:
        """Have the server's tools listed again when they are next listed."""
        if (listing := self._listings.pop(server, None)) is not None:
            self._older[server] = listing

    async def _listing(self, connection: ServerConnection, *, refresh: bool = False) -> _Listing:
        lock = self._locks.setdefault(connection.name, asyncio.Lock())
        before = self._listings.get(connection.name)
        async with lock:
            listing = self._listings.get(connection.name)
            fresh = not refresh or listing is not before  # listed while waiting for the lock
            if listing is not None and fresh and listing.generation == connection.generation:
                return listing
            seconds = connection.server.timeouts.list_seconds
            listed = await connection.ask(
                list_tools, Deadline(seconds, setting="list_timeout"), method="tools/list"
            )
            tools = tuple(Tool.from_mcp(connection.name, tool) for tool in listed)
            listing = _Listing(tools, connection.generation)
            self._listings[connection.name] = listing
            connection.tool_count = len(tools)
            return listing
