"""What a tool call came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import mcp_types as types

from plait.client.transports.repair import ORIGINAL

PARKED = "plait/parked"
"""The key of the handle under which a whole result is kept."""


def structured_of(result: types.CallToolResult) -> Any | None:
    """Return the structured content, also where an older protocol had it moved to `_meta`."""
    structured: Any = result.structured_content
    original: Any = (result.meta or {}).get(ORIGINAL)
    if structured is None and isinstance(original, Mapping):
        return cast("Mapping[str, Any]", original).get("structuredContent")
    return structured


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer of a tool; `is_error` is the tool's own word, for the model to read."""

    server: str
    tool: str
    is_error: bool
    content: tuple[types.ContentBlock, ...]
    structured_content: Any | None = None
    meta: Mapping[str, Any] | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """What was mended in the answer, and what is odd about it."""
    seconds: float = 0.0
    parked: str | None = None
    """The handle under which the whole result is kept, where this one is shortened."""

    @classmethod
    def from_mcp(
        cls,
        server: str,
        tool: str,
        result: types.CallToolResult,
        *,
        attempts: int,
        notes: tuple[str, ...],
        seconds: float,
    ) -> Self:
        """Translate the SDK's result."""
        return cls(
            server=server,
            tool=tool,
            is_error=bool(result.is_error),
            content=tuple(result.content),
            structured_content=structured_of(result),
            meta=result.meta,
            attempts=attempts,
            notes=notes,
            seconds=seconds,
        )

    def to_mcp(self) -> types.CallToolResult:
        """Return the result as the SDK has it; `_meta` names the handle of a shortened one."""
        meta = None if self.meta is None else dict(self.meta)
        if self.parked is not None:
            meta = {**(meta or {}), PARKED: self.parked}
        return types.CallToolResult(
            content=list(self.content),
            structured_content=self.structured_content,
            is_error=self.is_error,
            _meta=meta,
        )

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(
            block.text for block in self.content if isinstance(block, types.TextContent)
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the result as plain data, with the content as it was on the wire."""
        told: dict[str, Any] = {
            "server": self.server,
            "tool": self.tool,
            "is_error": self.is_error,
            "content": [
                block.model_dump(by_alias=True, exclude_none=True, mode="json")
                for block in self.content
            ],
            "structured_content": self.structured_content,
            "meta": None if self.meta is None else dict(self.meta),
            "attempts": self.attempts,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 6),
        }
        return told if self.parked is None else {**told, "parked": self.parked}
