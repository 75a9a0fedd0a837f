"""How a server described itself when a session was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientSession
    from mcp_types import Implementation, ServerCapabilities


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's name, capabilities and instructions; empty before the first session."""

    server_info: Implementation | None = None
    """Name and version; optional for modern servers."""
    protocol_version: str | None = None
    capabilities: ServerCapabilities | None = None
    instructions: str | None = None

    @classmethod
    def of(cls, client: Client | ClientSession) -> Self:
        """Read them from an open client or session."""
        return cls(
            client.server_info,
            client.protocol_version,
            client.server_capabilities,
            client.instructions,
        )

    @property
    def name(self) -> str | None:
        """The server's own name."""
        return None if self.server_info is None else self.server_info.name

    @property
    def title(self) -> str | None:
        """The server's display name."""
        return None if self.server_info is None else self.server_info.title

    @property
    def version(self) -> str | None:
        """The version of the server."""
        return None if self.server_info is None else self.server_info.version

    @property
    def identity(self) -> Mapping[str, str] | None:
        """Name and version as plain data."""
        info = self.server_info
        return None if info is None else {"name": info.name, "version": info.version}
