"""What tools answer, as Claude's command line takes it, and as it gives it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import mcp_types as types

from plait.agents.run_tools import ToolAnswer
from plait.traces.messages.from_mcp import decoded_bytes, media_line, text_from_mcp

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The images that a model can look at."""

_WRAPPING: Final = ("<tool_use_error>", "</tool_use_error>")
"""What stands around errors of the command line's own."""


def result_from_answer(answer: ToolAnswer) -> types.CallToolResult:
    """Make the result that the command line gets.

    Structured content is not in it: the model would be given that in place of the text. A line of
    text stands for what the model cannot look at, which in errors is every image.
    """
    content = [_block(block, text_only=answer.is_error) for block in answer.content]
    return types.CallToolResult(content=content, is_error=answer.is_error)


def text_from_result(content: object) -> str:
    """Write what the model read of a result as one text."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return str(content).removeprefix(_WRAPPING[0]).removesuffix(_WRAPPING[1])
    return "\n".join(_line(block) for block in cast("Sequence[Mapping[str, Any]]", content))


def _block(block: types.ContentBlock, *, text_only: bool) -> types.ContentBlock:
    if isinstance(block, types.TextContent):
        return types.TextContent(text=block.text)
    if isinstance(block, types.ImageContent) and not text_only and block.mime_type in _IMAGES:
        return types.ImageContent(data=block.data, mime_type=block.mime_type)
    return types.TextContent(text=text_from_mcp([block]))


def _line(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image":
            source = cast("Mapping[str, Any]", block.get("source") or {})
            size = decoded_bytes(str(source.get("data", "")))
            return media_line("image", source.get("media_type"), size)
        case kind:
            return f"[{kind}]"
