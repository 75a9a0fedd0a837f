"""What the tests of compatibility share: deliberate differences, tools, messages, connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from plait import MCPToolCallRequest, MCPToolCallResult, MultiServerMCPClient
from plait.testing import free_port

T = TypeVar("T", bound=Callable[..., Any])
Json = dict[str, Any]
Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]

PAGE = Path(__file__).resolve().parents[4] / "docs" / "migration.md"

TOKEN = "test-token"
"""What the guarded servers want to see."""

WIRES = ["stdio", "http", "sse", "websocket"]


def rows_below(title: str) -> set[str]:
    """Return the first cells of the table below a title of the migration page."""
    section = PAGE.read_text().split(f"{title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| ") for line in lines[2:]}


DIFFERENCES = rows_below("## What is different on purpose") | rows_below(
    "### What is different on purpose from @langchain/mcp-adapters"
)
"""The deliberate differences from the adapters of LangChain, as the migration page calls them."""

SHOWN: set[str] = set()
"""The differences that a test shows."""


def differs(*rows: str) -> Callable[[T], T]:
    """Mark a test that shows differences; the rest of the test is what both do."""
    assert DIFFERENCES.issuperset(rows), rows
    SHOWN.update(rows)
    return lambda test: test


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


async def tools_of(client: MultiServerMCPClient, server: str | None = None) -> dict[str, BaseTool]:
    return by_name(await client.get_tools(server_name=server))


def called(tool: BaseTool, **arguments: Any) -> Json:
    return {"type": "tool_call", "id": "c1", "name": tool.name, "args": arguments}


async def message_of(tool: BaseTool, **arguments: Any) -> ToolMessage:
    message = await tool.ainvoke(called(tool, **arguments))
    assert isinstance(message, ToolMessage)
    return message


def nowhere() -> Json:
    return {"transport": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"}
