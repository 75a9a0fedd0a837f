"""What a client wants of its catalogue: which tools, under which names, and changed in what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.lock.guard import ToolLock
from plait.client.catalog.names import NamePolicy
from plait.client.catalog.overrides import ToolOverride
from plait.client.config.deferral import Deferral
from plait.client.config.servers import InProcessServer, ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """The wishes of one client."""

    include: Any = None
    exclude: Any = ()
    tool_filter: Any = None
    names: NamePolicy = field(default_factory=NamePolicy)
    overrides: Mapping[str, ToolOverride] = field(default_factory=dict[str, ToolOverride])
    ttl_seconds: float | None = None
    """For how long every list holds; `None` leaves it to the servers."""
    unlisted: frozenset[str] = frozenset()
    """Servers whose tools are listed only when they are asked for by name."""
    throw_on_load_error: bool = False
    sanitize: bool = True
    """Whether characters that hide something are kept from those who read of tools."""
    lock: ToolLock | None = None
    """What the tools must be like."""
    defer: Deferral | None = None
    """What is kept back until somebody searches for it, on servers that do not say."""

    def filter_for(self, server: ServerConfig) -> ToolFilter:
        """Make the filter for one server: its own `include` wins, every `exclude` holds."""
        return ToolFilter.of(
            include=self.include if server.include is None else server.include,
            exclude=(*_several(server.exclude), *_several(self.exclude)),
            tool_filter=self.tool_filter,
        )

    def may_wait(self, server: ServerConfig) -> bool:
        """Return whether a server is started only when it is called, if its tools are known."""
        deferral = self.defer if server.defer is None else server.defer
        kept_back = deferral is not None and not deferral.is_off
        return kept_back and not isinstance(server, InProcessServer)

    def listed_servers(self, known: Iterable[str]) -> list[str]:
        """Keep the servers whose tools are listed without being asked for."""
        return [name for name in known if name not in self.unlisted]


def _several(patterns: Any) -> tuple[Any, ...]:
    if patterns is None:
        return ()
    if isinstance(patterns, list | tuple | set | frozenset):
        return tuple(cast("Iterable[Any]", patterns))
    return (patterns,)
