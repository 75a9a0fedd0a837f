"""Whether a result keeps the promise of its output schema; if not, that is worth a note."""

from __future__ import annotations

from mcp_types import CallToolResult

from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import prepare


async def output_notes(tool: Tool, result: CallToolResult) -> tuple[str, ...]:
    """Say what is wrong with the structured content of a successful result."""
    if tool.output_schema is None or result.is_error:
        return ()
    if result.structured_content is None:
        return ("the result has no structured content, though the tool has an output schema",)
    problem = (await prepare(tool.output_schema)).problem(result.structured_content)
    return () if problem is None else (f"structured content breaks the output schema: {problem}",)
