"""Helpers outside of a run: connect to servers, list tools, fetch and change descriptions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, MutableSequence, Sequence
from contextlib import AsyncExitStack
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar, cast

import mcp_types as types

from plait._support.durations import checked_seconds
from plait._support.gather import gather_or_cancel, resolve
from plait.agents.servers import AgentServers, convert_mcp_config, read_servers
from plait.client.catalog.filters import ToolFilter
from plait.client.connections.loop_bridge import run_blocking
from plait.client.toolbox import ServerHandle, Toolbox
from plait.errors import AgentServerConnectError, AgentServerTimeoutError, PlaitError

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
