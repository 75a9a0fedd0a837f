"""What a client sets for all of its servers, worked into each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plait.config.read import ClientConfig
from plait.config.servers import ServerConfig

APPLIED = frozenset({"include", "exclude", "tool_timeouts", "on_connection_error", "log_level"})
"""The options of a client that hold for every framework."""


def servers_with_defaults(config: ClientConfig) -> Mapping[str, ServerConfig]:
    """Return the servers with the client's options; what a server sets itself wins."""
    return {
        name: _with_defaults(name, server, config.options)
        for name, server in config.servers.items()
    }


def unused_options(config: ClientConfig) -> Iterable[str]:
    """Name the options that only a framework's own client can use."""
    return sorted(set(config.options) - APPLIED)


def _with_defaults(name: str, server: ServerConfig, options: Mapping[str, Any]) -> ServerConfig:
    changes: dict[str, Any] = {}
    if (include := options.get("include")) is not None and server.include is None:
        changes["include"] = _for_server(name, include)
    if exclude := options.get("exclude"):
        changes["exclude"] = (*server.exclude, *_for_server(name, exclude))
    if timeouts := options.get("tool_timeouts"):
        merged = {**server.timeouts.tool_seconds, **_missing(timeouts, server)}
        changes["timeouts"] = replace(server.timeouts, tool_seconds=merged)
    if (on_error := options.get("on_connection_error")) in {"throw", "ignore"}:
        changes["required"] = on_error == "throw"
    return replace(server, **changes) if changes else server


def _missing(timeouts: Mapping[str, float], server: ServerConfig) -> Mapping[str, float]:
    own = server.timeouts.tool_seconds
    return {tool: seconds for tool, seconds in timeouts.items() if tool not in own}


def _for_server(name: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Keep the patterns that concern a server: `tool`, and `server/tool` without its server."""
    split = (pattern.rpartition("/") for pattern in patterns)
    return tuple(tool for server, _, tool in split if server in {"", name})
