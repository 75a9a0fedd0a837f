"""How a client introduces itself to its servers, and answers what they ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp.client.session import ElicitationFnT, ListRootsFnT
from mcp_types import Implementation, LoggingLevel

from plait.client.connections.opening import SessionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """What a client says to every server, as session options for each."""

    client_info: Implementation
    log_level: LoggingLevel | None = None
    on_roots: ListRootsFnT | None = None
    on_elicitation: Callable[[str], ElicitationFnT] | None = None
    """Makes, for a server, what answers its questions."""

    def __call__(self, server: str) -> SessionOptions:
        """Return the session options for one server."""
        return SessionOptions(
            client_info=self.client_info,
            log_level=self.log_level,
            on_roots=self.on_roots,
            on_elicitation=None if self.on_elicitation is None else self.on_elicitation(server),
        )
