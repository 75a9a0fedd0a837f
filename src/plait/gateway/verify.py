"""Comparing the tools that servers declare with those they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from plait.client.config.urls import public_url
from plait.errors import PlaitError
from plait.gateway.configuration import McpToolServerConfigurationService
from plait.gateway.credentials import Credentials
from plait.gateway.entries import GatewayServer

State = Literal["matches", "differs", "nothing declared", "failed"]
"""How a server stands to its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found out about one server."""

    server: str
    url: str
    declared: tuple[str, ...] | None = None
    live: tuple[str, ...] = ()
    error: PlaitError | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The tools that are declared and not there."""
        return tuple(name for name in self.declared or () if name not in self.live)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The tools that are there and not declared."""
        known = self.declared
        return () if known is None else tuple(name for name in self.live if name not in known)

    @property
    def state(self) -> State:
        """How the server stands."""
        if self.error is not None:
            return "failed"
        if self.declared is None:
            return "nothing declared"
        return "differs" if self.missing or self.undeclared else "matches"

    def to_dict(self) -> dict[str, Any]:
        """Describe the verdict as plain data."""
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
) -> list[Verdict]:
    """Ask each server for its tools, side by side; one that fails is a verdict too."""
    return await asyncio.gather(
        *(_verified(configuration, server, credentials) for server in servers)
    )


async def _verified(
    configuration: McpToolServerConfigurationService,
    server: GatewayServer,
    credentials: Credentials,
) -> Verdict:
    name = server.mcp_server_name
    found = Verdict(server=name, url=public_url(server.url), declared=server.tools)
    if (refused := credentials.failures.get(name)) is not None:
        return replace(found, error=refused)
    headers = with_token(server.headers, credentials.tokens.get(name, ""))
    try:
        tools = await configuration.get_mcp_client_tools(name, replace(server, headers=headers))
    except PlaitError as error:
        return replace(found, error=error)
    return replace(found, live=tuple(tool.wire_name for tool in tools))


def with_token(headers: Mapping[str, str], token: str) -> dict[str, str]:
    """Add a token, unless the headers say already who asks."""
    if not token or any(name.lower() == "authorization" for name in headers):
        return dict(headers)
    return {**headers, "Authorization": f"Bearer {token}"}
