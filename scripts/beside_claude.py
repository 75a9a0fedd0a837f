"""Serve tools to Claude's command line with the MCP SDK of this environment, 1.x or 2.x.

Run by try_beside.py.
"""

from __future__ import annotations

import asyncio

import mcp_types as types

from plait import Toolbox
from plait.agents.agent_run import RunTool
from plait.agents.engines.claude_agent_sdk.tools import CliTool, cli_tools, sdk_servers

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def price(tool: CliTool, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Answer a call of the command line."""
    text = f"{tool.tool}: {len((params.arguments or {})['name'])}"
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def main() -> None:
    """List and call the tool as the command line does: over streams of the SDK."""
    tool = RunTool(name="price", description="Return what it costs.", input_schema=SCHEMA)
    [config] = sdk_servers(cli_tools([tool]).values(), price).values()
    async with Toolbox({"claude": config["instance"]}) as box:
        [listed] = await box.tools()
        assert listed.input_schema["required"] == ["name"], listed
        assert (await box.call("claude", "price", {"name": "tea"})).text == "price: 3"


asyncio.run(main())
