"""Options of a catalogue: which tools are offered, their names and overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.client.catalog.filters import ToolFilter, patterns_in
from plait.client.catalog.lock.guard import ToolLock
from plait.client.catalog.names import NamePolicy
from plait.client.catalog.overrides import ToolOverride
from plait.client.config.deferral import Deferral
from plait.client.config.servers import InProcessServer, ServerConfig


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
