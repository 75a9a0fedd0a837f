"""A server in this process with the tools of real ones, as often as is wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server import Server

LISTED = Path(__file__).parents[2] / "data" / "real_tools.json"


def real_tools() -> list[dict[str, Any]]:
    """Return the tools of five servers that were not written here."""
    return json.loads(LISTED.read_text("utf-8"))


def servers_with(count: int) -> dict[str, Server[Any]]:
    """Make servers with so many tools in all: those of real servers, again and again."""
    kinds = real_tools()
    tools: dict[str, list[types.Tool]] = {}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        team = number // len(kinds)
        server = f"{kind['server']}{team or ''}"
        tool = types.Tool(
            name=f"{kind['name']}{f'_{team}' if team else ''}",
            title=kind["title"],
            description=kind["description"],
            input_schema=kind["input_schema"],
        )
        tools.setdefault(server, []).append(tool)
    return {name: _server(name, some) for name, some in tools.items()}


def _server(name: str, tools: list[types.Tool]) -> Server[Any]:
    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = f"{params.name} with {json.dumps(params.arguments)}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)
