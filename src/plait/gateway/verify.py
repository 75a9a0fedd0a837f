"""Compares the tools that servers declare with those they list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from plait.client.config.urls import public_url
from plait.errors import PlaitError
from plait.gateway.configuration import McpToolServerConfigurationService
from plait.gateway.credentials import Credentials
from plait.gateway.entries import GatewayServer

State = Literal["matches", "differs", "nothing declared", "failed"]
"""How the tools of a server compare with its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The comparison for one server."""

    server: str
    url: str
    declared: tuple[str, ...] | None = None
    live: tuple[str, ...] = ()
    error: PlaitError | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Declared tools that the server does not list."""
        return tuple(name for name in self.declared or () if name not in self.live)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Listed tools that are not declared."""
        declared = self.declared
        return () if declared is None else tuple(name for name in self.live if name not in declared)

    @property
    def state(self) -> State:
        """The overall outcome."""
        if self.error is not None:
            return "failed"
        if self.declared is None:
            return "nothing declared"
        return "differs" if self.missing or self.undeclared else "matches"

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data."""
        return {
            "server": self.server,
            "url": self.url,
            "state": self.state,
            "declared": None if self.declared is None else list(self.declared),
            "live": list(self.live),
            "missing": list(self.missing),
            "undeclared": list(self.undeclared),
            "error": None if self.error is None else str(self.error),
        }


async def verify_servers(
    configuration: McpToolServerConfigurationService,
    servers: Iterable[GatewayServer],
    credentials: Credentials,
) -> list[Verification]:
    """List the tools of all servers in parallel, and compare them; a failure is an outcome too."""
    return await asyncio.gather(
        *(_verify(configuration, server, credentials) for server in servers)
    )


async def _verify(
    configuration: McpToolServerConfigurationService,
    server: GatewayServer,
    credentials: Credentials,
) -> Verification:
    name = server.mcp_server_name
    result = Verification(server=name, url=public_url(server.url), declared=server.tools)
    if (no_token := credentials.failures.get(name)) is not None:
        return replace(result, error=no_token)
    token = credentials.tokens.get(name)
    ready = server.with_headers({"Authorization": f"Bearer {token}"} if token else {})
    try:
        tools = await configuration.get_mcp_client_tools(name, ready)
    except PlaitError as error:
        return replace(result, error=error)
    return replace(result, live=tuple(tool.wire_name for tool in tools))
