"""Servers that Claude's command line asks itself, written as it takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from plait.client.config.servers import (
    HttpServer,
    ServerConfig,
    SseServer,
    StdioServer,
    transport_of,
)
from plait.errors import ConfigError


def cli_config(
    name: str, server: ServerConfig, given: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Write the configuration of a server for the command line.

    Raises:
        ConfigError: The command line cannot use such a server.
    """
    match server:
        case StdioServer():
            return _program(name, server, given)
        case HttpServer() | SseServer():
            return _remote(name, server)
        case _:
            raise _unusable(name, f"it is a server by {transport_of(server)}")


def _program(name: str, server: StdioServer, given: Mapping[str, str]) -> dict[str, Any]:
    if callable(server.env):
        raise _unusable(name, "its env is a function of the run")
    if server.cwd is not None:
        raise _unusable(name, "it has a cwd")
    # The home folder of the command line is one of the run's own.
    wanted = [key for key in ("HOME", "USERPROFILE") if key in given]
    if server.inherit_env is True:
        wanted = list(given)
    elif server.inherit_env is not False:
        wanted += server.inherit_env
    inherited = {key: given[key] for key in wanted if key in given}
    return {
        "type": "stdio",
        "command": server.command,
        "args": list(server.args),
        "env": {**inherited, **server.env},
    }


def _remote(name: str, server: HttpServer | SseServer) -> dict[str, Any]:
    if callable(server.headers):
        raise _unusable(name, "its headers are a function of the run")
    if server.auth is not None:
        raise _unusable(name, "it has auth; give the token as a header")
    kind = "http" if isinstance(server, HttpServer) else "sse"
    config: dict[str, Any] = {"type": kind, "url": server.url}
    return {**config, "headers": dict(server.headers)} if server.headers else config


def _unusable(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name}: Claude's command line cannot use this server itself: {why}. "
        "Leave out pass_through_servers, so that plait asks it",
        server=name,
    )
