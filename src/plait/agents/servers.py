"""The MCP servers of a run: typed, or as dicts that are read and validated."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypedDict, cast

from plait.client.config.read import ClientConfig, read_config
from plait.client.config.servers import ServerConfig, ServerOptions
from plait.errors import AgentServerConfigError


class MCPStdioServerConfig(TypedDict, total=False):
    """A server that runs as a child process."""

    type: Literal["stdio"]
    command: str
    args: list[str]
    env: dict[str, str]


class MCPHttpServerConfig(TypedDict, total=False):
    """A server at a URL."""

    type: Literal["http", "sse"]
    url: str
    headers: dict[str, str]
    timeout: float
    sse_read_timeout: float


MCPServerConfig = MCPStdioServerConfig | MCPHttpServerConfig | Mapping[str, Any]
"""A server of a run as a dict; every key of an `mcp.json` works too."""

AgentServers: TypeAlias = ClientConfig | Mapping[str, ServerConfig | MCPServerConfig]
"""The servers of a run: a configuration, or servers by name, typed or as dicts."""

_URL_TYPES = {"http": "http", "sse": "http", "ws": "ws", "websocket": "ws"}
"""The types with a URL, and the scheme of their URLs."""


def read_servers(
    mcp_servers: AgentServers, defaults: Mapping[str, float] | None = None
) -> ClientConfig:
    """Read the servers of a run; typed servers are taken as they are.

    A server in a dict is required unless it says `required: false`. `defaults` holds the timeouts
    of servers with an HTTP URL that set none.
    """
    if isinstance(mcp_servers, ClientConfig):
        return mcp_servers
    typed = {
        name: server for name, server in mcp_servers.items() if isinstance(server, ServerOptions)
    }
    described = {
        name: _with_defaults(server, defaults or {})
        for name, server in mcp_servers.items()
        if name not in typed
    }
    config = read_config({"servers": described}) if described else ClientConfig(servers={})
    servers = {**config.servers, **typed}
    return replace(config, servers={name: servers[name] for name in mcp_servers if name in servers})


def _with_defaults(server: object, defaults: Mapping[str, float]) -> object:
    if isinstance(server, str):
        server = _from_short_form(server)
    if not isinstance(server, Mapping):
        return server
    config = cast("Mapping[str, Any]", server)
    if config.get("type") == "sdk":
        return config.get("instance")
    is_http = "url" in config and not str(config["url"]).startswith("ws")
    return {"required": True, **(defaults if is_http else {}), **config}


def convert_mcp_config(mcp_urls_dict: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Convert short forms to dicts: a URL, a command line, or the path of a program."""
    return {name: _from_short_form(value) for name, value in mcp_urls_dict.items()}


def _from_short_form(value: str) -> dict[str, Any]:
    if value.startswith(("http://", "https://")):
        return {"type": "http", "url": value}
    if value.startswith(("ws://", "wss://")):
        return {"type": "ws", "url": value}
    try:
        command, *args = shlex.split(value)
    except ValueError:  # an open quote, or nothing: starting it reports the problem
        return {"command": value}
    return {"command": command, "args": args} if args else {"command": command}


def validate_mcp_config(config: Mapping[str, Any]) -> list[str]:
    """List the problems of server configurations."""
    if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # input
        return ["MCP configuration must be a dict"]
    return [
        f"Server '{name}': {problem}"
        for name, server in config.items()
        for problem in _problems(server)
    ]


def convert_and_validate_mcp_config(mcp_urls_dict: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Convert short forms, and validate the result.

    Raises:
        AgentServerConfigError: A configuration is invalid; the text has a line for each problem.
    """
    converted = convert_mcp_config(mcp_urls_dict)
    if problems := validate_mcp_config(converted):
        lines = "\n".join(f"  - {problem}" for problem in problems)
        server = next(iter(mcp_urls_dict)) if len(mcp_urls_dict) == 1 else None
        raise AgentServerConfigError(f"MCP configuration validation failed:\n{lines}", server)
    return converted


def _problems(server: object) -> Iterator[str]:
    if not isinstance(server, Mapping):
        yield "configuration must be a dict"
        return
    config = cast("Mapping[str, Any]", server)
    kind = config.get("type")
    if kind in _URL_TYPES:
        if (problem := _url_problem(kind, config.get("url"))) is not None:
            yield problem
        yield from _text_problems(config, headers="dict")
    elif kind == "stdio" or (kind is None and "command" in config):
        command = config.get("command")
        if not isinstance(command, str) or not command.strip():
            yield "'command' must be a string, and not empty"
        yield from _text_problems(config, args="list", env="dict")
    elif kind is None:
        yield "must have either 'type' or 'command'"
    elif kind != "sdk":
        yield f"unknown type {kind!r}"


def _url_problem(kind: str, url: object) -> str | None:
    scheme = _URL_TYPES[kind]
    if url is None:
        return f"type {kind!r} requires 'url'"
    if not isinstance(url, str):
        return "'url' must be a string"
    if not url.startswith((f"{scheme}://", f"{scheme}s://")):
        return f"'url' must start with {scheme}:// or {scheme}s://"
    return None


def _text_problems(config: Mapping[str, Any], **kinds: str) -> Iterator[str]:
    """Check entries that hold strings; each of them may be missing."""
    for name, kind in kinds.items():
        value: Any = config.get(name)
        texts: Any = [*value, *value.values()] if isinstance(value, Mapping) else value
        fits = isinstance(value, Mapping if kind == "dict" else list)
        if name in config and not (fits and all(isinstance(text, str) for text in texts)):
            yield f"{name!r} must be a {kind} of strings"
