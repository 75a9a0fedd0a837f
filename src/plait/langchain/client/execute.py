"""Calling a tool by its name, without an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from plait._support.suggestions import suggest_names
from plait.errors import ToolNotFoundError
from plait.langchain.tools.blocks import Block, text_block
from plait.langchain.tools.runner import Invocation
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from plait.langchain.client.client import MultiServerMCPClient


async def execute_tool(
    client: MultiServerMCPClient,
    name: str,
    args: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> list[Block]:
    """Call a tool by its public name or as `server/tool`, and return its content blocks.

    `context` is the `configurable` part of the call's config, such as `{"timeout": 5}`.

    Raises:
        ToolNotFoundError: No server offers it.
        ToolFailedError: The tool reported a failure.
        PlaitError: The call failed, or its outcome is not known.
    """
    servers = client.toolbox.server_names
    tools = [
        tool.tool
        for tool in await client.get_tools()
        if isinstance(tool, MCPTool) and tool.tool.server in servers
    ]
    found = [tool for tool in tools if name in {tool.name, tool.full_name}]
    if not found:
        hint = suggest_names(name, [tool.name for tool in tools])
        raise ToolNotFoundError(f"there is no tool {name!r} ({hint})", tool=name)
    runner = client.runner(handle_tool_errors=False)
    config = {"configurable": dict(context or {})}
    outcome = await runner.run(found[0], Invocation(arguments=args or {}), config)
    content: Any = [] if isinstance(outcome, Command) else outcome.content
    return [text_block(content)] if isinstance(content, str) else list(content)


def execute_tool_blocking(
    client: MultiServerMCPClient,
    name: str,
    args: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> list[Block]:
    """Do what `execute_tool` does, and block until it is done."""
    return client.run_blocking(execute_tool, client, name, args, context)
