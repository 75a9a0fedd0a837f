"""The result of a tool call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, cast

import mcp_types as types

from plait.client.catalog.validation import prepare
from plait.client.transports.repair import ORIGINAL

if TYPE_CHECKING:
    from plait.client.catalog.tool import Tool

FULL_RESULT = "plait/full_result"
"""The key, in artifacts and `_meta`, of the handle of the full result."""


def structured_of(result: types.CallToolResult) -> Any | None:
    """Return the structured content, also if repair for an older protocol moved it to `_meta`."""
    structured: Any = result.structured_content
    original: Any = (result.meta or {}).get(ORIGINAL)
    if structured is None and isinstance(original, Mapping):
        return cast("Mapping[str, Any]", original).get("structuredContent")
    return structured


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool; `is_error` comes from the tool itself."""

    server: str
    tool: str
    is_error: bool
    content: tuple[types.ContentBlock, ...]
    structured_content: Any | None = None
    meta: Mapping[str, Any] | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """What was repaired in the result, and how it deviates from the output schema."""
    seconds: float = 0.0
    full_result: str | None = None
    """The handle of the full result, if this one is shortened."""

    @classmethod
    def from_mcp(cls, server: str, tool: str, result: types.CallToolResult, **details: Any) -> Self:
        """Convert from the SDK's result; `details` are the fields that it does not have."""
        return cls(
            server=server,
            tool=tool,
            is_error=bool(result.is_error),
            content=tuple(result.content),
            structured_content=structured_of(result),
            meta=result.meta,
            **details,
        )

    def to_mcp(self) -> types.CallToolResult:
        """Convert to the SDK's result; `_meta` has the handle of a shortened one."""
        meta = None if self.meta is None else dict(self.meta)
        if self.full_result is not None:
            meta = {**(meta or {}), FULL_RESULT: self.full_result}
        return types.CallToolResult(
            content=list(self.content),
            structured_content=self.structured_content,
            is_error=self.is_error,
            _meta=meta,
        )

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(
            block.text for block in self.content if isinstance(block, types.TextContent)
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data, with the content in wire format."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        data["content"] = [
            block.model_dump(by_alias=True, exclude_none=True, mode="json")
            for block in self.content
        ]
        data["meta"] = None if self.meta is None else dict(self.meta)
        data |= {"notes": list(self.notes), "seconds": round(self.seconds, 6)}
        if self.full_result is None:
            del data["full_result"]
        return data


async def output_schema_notes(tool: Tool, result: types.CallToolResult) -> tuple[str, ...]:
    """Check the structured content of a successful result against the output schema."""
    if tool.output_schema is None or result.is_error:
        return ()
    if result.structured_content is None:
        return ("the result has no structured content, though the tool has an output schema",)
    problem = (await prepare(tool.output_schema)).problem(result.structured_content)
    return () if problem is None else (f"structured content breaks the output schema: {problem}",)
