"""The deliberate differences from `@langchain/mcp-adapters`, and what its tests have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from plait import MultiServerMCPClient

T = TypeVar("T", bound=Callable[..., Any])

TOKEN = "test-token"
"""What the guarded servers want to see."""

DIFFERENCES = frozenset(
    {
        "`new MultiServerMCPClient({})`",
        "Errors of a configuration",
        "`onConnectionError` that is not set",
        "`restart` and `reconnect` that are not set",
        "`getClient` of a server that is unknown or down",
        "A call that takes too long, or whose arguments do not fit",
        "Blocks of a result",
        "Artifact of a call",
        '`outputHandling: "artifact"`',
        "Sounds in the content",
        "Embedded resources in the content",
        "A `ToolMessage` of `afterToolCall`",
        "Headers for a program",
        "`listResources`, `listResourceTemplates`, `readResource`",
        "`config`",
        "`close()` that fails",
    }
)
"""The first cells of the rows about `@langchain/mcp-adapters`."""

SHOWN: set[str] = set()


def differs(*rows: str) -> Callable[[T], T]:
    """Mark a test that shows differences."""
    assert DIFFERENCES.issuperset(rows), rows
    SHOWN.update(rows)
    return lambda test: test


async def tools_of(client: MultiServerMCPClient) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in await client.get_tools()}


async def message_of(tool: BaseTool, **arguments: Any) -> ToolMessage:
    call = {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}
    message = await tool.ainvoke(call)
    assert isinstance(message, ToolMessage)
    return message
