"""What a client sets for all of its servers, worked into each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait.client.config.servers import ServerConfig


def server_with_defaults(server: ServerConfig, options: Mapping[str, Any]) -> ServerConfig:
    """Return the server with the client's options; what a server sets itself wins."""
    changes: dict[str, Any] = {}
    if timeouts := options.get("tool_timeouts"):
        merged = {**timeouts, **server.timeouts.tool_seconds}
        changes["timeouts"] = replace(server.timeouts, tool_seconds=_own_first(merged, server))
    if (on_error := options.get("on_connection_error")) in {"throw", "ignore"}:
        changes["required"] = on_error == "throw"
    return replace(server, **changes) if changes else server


def _own_first(timeouts: Mapping[str, float], server: ServerConfig) -> dict[str, float]:
    """Order the patterns: the server's own are asked before the client's."""
    own = server.timeouts.tool_seconds
    return {**own, **{name: n for name, n in timeouts.items() if name not in own}}
