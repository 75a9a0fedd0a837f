"""The MCP servers of a run, typed or as dicts, and helpers for servers outside of a run."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Coroutine, Mapping, MutableSequence, Sequence
from contextlib import AsyncExitStack
from dataclasses import is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, cast

import mcp_types as types

from plait._support.durations import checked_seconds
from plait._support.gather import gather_or_cancel, resolve
from plait._support.mappings import entries_of
from plait.client.catalog.filters import ToolFilter
from plait.client.config.read import ClientConfig, read_config
from plait.client.config.servers import ServerConfig, ServerOptions
from plait.client.connections.loop_bridge import run_blocking
from plait.client.toolbox import ServerHandle, Toolbox
from plait.errors import (
    AgentServerConfigError,
    AgentServerConnectError,
    AgentServerTimeoutError,
    ConfigError,
    PlaitError,
)


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

AgentServers: TypeAlias = (
    ClientConfig | Mapping[str, ServerConfig | MCPServerConfig] | str | os.PathLike[str]
)
"""The servers of a run: a configuration or its file, or servers by name, typed or as dicts."""


def read_servers(
    mcp_servers: AgentServers, defaults: Mapping[str, float] | None = None
) -> ClientConfig:
    """Read the servers of a run; typed servers, and those of a file, are taken as they are.

    A server in a dict is required unless it says `required: false`. `defaults` holds the timeouts
    of servers with an HTTP URL that set none.
    """
    if not isinstance(mcp_servers, Mapping):
        return read_config(mcp_servers)
    typed = {
        name: server for name, server in mcp_servers.items() if isinstance(server, ServerOptions)
    }
    described: dict[str, object] = {}
    for name, server in mcp_servers.items():
        if name in typed:
            continue
        given: object = _from_short_form(server) if isinstance(server, str) else server
        config = entries_of(given)
        if config.get("type") == "sdk":
            described[name] = config.get("instance")
        elif config:
            is_http = "url" in config and not str(config["url"]).startswith("ws")
            timeouts = (defaults or {}) if is_http else {}
            described[name] = {"required": True, **timeouts, **config}
        else:
            described[name] = given
    read = read_config({"servers": described}) if described else ClientConfig(servers={})
    servers = {**read.servers, **typed}
    return replace(read, servers={name: servers[name] for name in mcp_servers if name in servers})


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
    problems: list[str] = []
    for name, server in config.items():
        if entries_of(server).get("type") == "sdk":  # a server in this process
            continue
        try:
            read_config({"servers": {name: server}})
        except ConfigError as error:
            for problem in error.problems:
                place = problem.path.removeprefix(f"servers.{name}").lstrip(".")
                text = f"{place}: {problem.message}" if place else problem.message
                problems.append(f"Server '{name}': {text}")
    return problems


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


logger = logging.getLogger("plait.agents")

T = TypeVar("T")
AnyTool = TypeVar("AnyTool")

_SERVER_SECONDS = 30.0
"""How long one server may take to connect and to list its tools."""

_FETCH_SECONDS = 45.0
"""How long the blocking form may take."""


async def connect_all_mcp_servers(
    exit_stack: AsyncExitStack,
    mcp_servers: AgentServers,
    *,
    timeout_seconds: float = _SERVER_SECONDS,
) -> dict[str, ServerHandle]:
    """Connect to all servers in parallel; they are closed with the stack.

    A handle has the methods of an MCP session, and survives restarts of its server.

    Raises:
        AgentServerTimeoutError: A server did not connect in time.
        AgentServerConnectError: A server could not be reached.
    """
    checked_seconds(timeout_seconds, "timeout_seconds")
    config = read_servers(mcp_servers)
    if not config.servers:
        return {}
    toolbox = await exit_stack.enter_async_context(Toolbox(config))
    names = toolbox.server_names
    await gather_or_cancel(
        _in_time(name, toolbox.server_info(name), timeout_seconds) for name in names
    )
    return {name: ServerHandle(toolbox, name) for name in names}


async def connect_mcp_session(
    exit_stack: AsyncExitStack,
    config: Mapping[str, Any],
    *,
    timeout_seconds: float = _SERVER_SECONDS,
) -> ServerHandle:
    """Connect to one server; it is closed with the stack.

    Raises:
        AgentServerTimeoutError: The server did not connect in time.
        AgentServerConnectError: The server could not be reached.
    """
    servers = {"server": cast("Any", dict(config))}
    handles = await connect_all_mcp_servers(exit_stack, servers, timeout_seconds=timeout_seconds)
    return handles["server"]


async def cleanup_mcp_client(client: object) -> None:
    """Close a client, a toolbox or an exit stack; a failure is logged, and raises nothing."""
    for name in ("aclose", "close"):
        close = getattr(client, name, None)
        if close is None:
            continue
        try:
            await resolve(close())
        except Exception as error:  # noqa: BLE001  # boundary: any client
            logger.warning("%s was not closed: %s", type(client).__name__, error)
        return


async def get_all_mcp_tools(
    sessions: Mapping[str, ServerHandle],
) -> list[tuple[str, ServerHandle, types.Tool]]:
    """List the tools of all servers, each with its server.

    Raises:
        AgentServerError: A server could not list its tools.
    """
    results = await gather_or_cancel(
        _in_time(name, handle.list_tools(), _SERVER_SECONDS) for name, handle in sessions.items()
    )
    return [
        (name, handle, tool)
        for (name, handle), result in zip(sessions.items(), results, strict=True)
        for tool in result.tools
    ]


async def afetch_tool_descriptions(
    mcp_urls_dict: Mapping[str, str],
    tool_filter: Sequence[str] | None = None,
    *,
    timeout_seconds: float = _SERVER_SECONDS,
) -> dict[str, str]:
    """Fetch the descriptions of tools by name; a name of two servers gets their prefixes.

    Raises:
        AgentServerTimeoutError: A server did not answer in time.
        AgentServerConnectError: A server could not be reached.
    """
    checked_seconds(timeout_seconds, "timeout_seconds")
    if not mcp_urls_dict:
        return {}
    async with Toolbox({"servers": convert_mcp_config(mcp_urls_dict)}) as toolbox:
        names = toolbox.server_names
        await gather_or_cancel(
            _in_time(name, toolbox.tools(name), timeout_seconds) for name in names
        )
        # Once more, from the cache: names are made unique over all servers.
        tools = await toolbox.tools(*names)
    selected = ToolFilter.of(include=tool_filter)
    return {tool.name: tool.description or "" for tool in tools if selected.offers(tool)}


def fetch_tool_descriptions(
    mcp_urls_dict: Mapping[str, str], tool_filter: Sequence[str] | None = None
) -> dict[str, str]:
    """Run `afetch_tool_descriptions`, and block until it returns.

    Raises:
        AgentServerError: A server failed, or it took longer than 45 s in all.
    """
    text = f"the servers did not answer in {_FETCH_SECONDS:g} s"
    return run_blocking(
        lambda: afetch_tool_descriptions(mcp_urls_dict, tool_filter),
        seconds=_FETCH_SECONDS,
        timeout_error=AgentServerTimeoutError(text, timeout_seconds=_FETCH_SECONDS),
    )


def apply_tool_description_overrides(
    tools: MutableSequence[AnyTool], overrides: Mapping[str, str]
) -> MutableSequence[AnyTool]:
    """Replace the descriptions of tools of any kind in a list, in place."""
    for place, tool in enumerate(tools):
        text = overrides.get(cast("Any", tool).name)
        if text is None:
            continue
        if is_dataclass(tool) and not isinstance(tool, type):
            tools[place] = cast("AnyTool", replace(tool, description=text))  # pyright: ignore[reportCallIssue]  # every tool has one
        else:
            cast("Any", tool).description = text
    return tools


async def _in_time(server: str, work: Coroutine[Any, Any, T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        own = isinstance(error, PlaitError)  # an earlier timeout of the connection
        text = str(error) if own else f"{server}: not ready in {seconds:g} s"
        raise AgentServerTimeoutError(text, server, seconds) from error
    except PlaitError as error:
        raise AgentServerConnectError(str(error), server) from error
