"""Servers outside of a run: connect to them, list their tools, fetch and change descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, MutableSequence, Sequence
from contextlib import AsyncExitStack
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar, cast

import mcp_types as types

from plait._support.exception_groups import first_cause
from plait.agents.blocking import run_bounded
from plait.agents.servers import MCPServerConfig, convert_mcp_config
from plait.client.catalog.filters import ToolFilter
from plait.client.server_handle import ServerHandle
from plait.client.toolbox import Toolbox
from plait.errors import (
    AgentServerConnectError,
    AgentServerTimeoutError,
    AgentTimeoutError,
    PlaitError,
)

T = TypeVar("T")
AnyTool = TypeVar("AnyTool")

_SERVER_SECONDS = 30.0
"""How long one server may take to be there and to list its tools."""

_FETCH_SECONDS = 45.0
"""How long the blocking form may take in all."""


async def connect_all_mcp_servers(
    exit_stack: AsyncExitStack,
    mcp_servers: Mapping[str, MCPServerConfig],
    *,
    timeout_seconds: float = _SERVER_SECONDS,
) -> dict[str, ServerHandle]:
    """Connect to all servers at once; they are closed with the stack.

    A handle has the methods of an MCP session, and outlives restarts of its server.

    Raises:
        AgentServerTimeoutError: A server was not there in time.
        AgentServerConnectError: A server could not be reached.
    """
    if not mcp_servers:
        return {}
    toolbox = await exit_stack.enter_async_context(Toolbox({"servers": dict(mcp_servers)}))
    names = toolbox.server_names
    await _all(_in_time(name, toolbox.server_info(name), timeout_seconds) for name in names)
    return {name: ServerHandle(toolbox, name) for name in names}


async def get_all_mcp_tools(
    sessions: Mapping[str, ServerHandle],
) -> list[tuple[str, ServerHandle, types.Tool]]:
    """List the tools of all servers, each with its server.

    Raises:
        AgentServerError: A server could not list them.
    """
    listed = await _all(
        _in_time(name, handle.list_tools(), _SERVER_SECONDS) for name, handle in sessions.items()
    )
    return [
        (name, handle, tool)
        for (name, handle), found in zip(sessions.items(), listed, strict=True)
        for tool in found.tools
    ]


async def afetch_tool_descriptions(
    mcp_urls_dict: Mapping[str, str],
    tool_filter: Sequence[str] | None = None,
    *,
    timeout_seconds: float = _SERVER_SECONDS,
) -> dict[str, str]:
    """Fetch what servers say of their tools, by name; a name that two servers use has both.

    Raises:
        AgentServerTimeoutError: A server did not answer in time.
        AgentServerConnectError: A server could not be reached.
    """
    if not mcp_urls_dict:
        return {}
    async with Toolbox({"servers": convert_mcp_config(mcp_urls_dict)}) as toolbox:
        names = toolbox.server_names
        await _all(_in_time(name, toolbox.tools(name), timeout_seconds) for name in names)
        # Once more, and out of the cache: names are made unique over all servers.
        tools = await toolbox.tools(*names)
    wanted = ToolFilter.of(include=tool_filter)
    return {tool.name: tool.description or "" for tool in tools if wanted.offers(tool)}


def fetch_tool_descriptions(
    mcp_urls_dict: Mapping[str, str], tool_filter: Sequence[str] | None = None
) -> dict[str, str]:
    """Do what `afetch_tool_descriptions` does, and block until it is done.

    Raises:
        AgentServerError: A server could not be asked, or all of it took longer than 45 s.
    """
    try:
        return run_bounded(
            lambda: afetch_tool_descriptions(mcp_urls_dict, tool_filter), seconds=_FETCH_SECONDS
        )
    except AgentTimeoutError as error:
        text = f"the servers did not answer in {_FETCH_SECONDS:g} s"
        raise AgentServerTimeoutError(text, timeout_seconds=_FETCH_SECONDS) from error


def apply_tool_description_overrides(
    tools: MutableSequence[AnyTool], overrides: Mapping[str, str]
) -> MutableSequence[AnyTool]:
    """Change the descriptions of tools of any kind, in place; frozen ones are replaced."""
    for place, tool in enumerate(tools):
        text = overrides.get(cast("Any", tool).name)
        if text is None:
            continue
        if is_dataclass(tool) and not isinstance(tool, type):
            tools[place] = cast("AnyTool", replace(tool, description=text))  # pyright: ignore[reportCallIssue]  # every tool has one
        else:
            cast("Any", tool).description = text
    return tools


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for everything at once; the first that fails ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failed:
        error = first_cause(failed)
        raise error from error.__cause__
    return [task.result() for task in tasks]


async def _in_time(server: str, work: Coroutine[Any, Any, T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        own = isinstance(error, PlaitError)  # a limit of the connection's own, which ends sooner
        text = str(error) if own else f"{server}: not ready in {seconds:g} s"
        raise AgentServerTimeoutError(text, server, seconds) from error
    except PlaitError as error:
        raise AgentServerConnectError(str(error), server) from error
