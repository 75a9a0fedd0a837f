"""Tool results for Claude's command line, and as it returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import mcp_types as types

from plait.agents.run_tools import ToolAnswer
from plait.traces.messages.from_mcp import decoded_bytes, media_line

_WRAPPING: Final = ("<tool_use_error>", "</tool_use_error>")
"""The marks around errors of the command line itself."""


def result_from_answer(answer: ToolAnswer) -> types.CallToolResult:
    """Make the result for the command line.

    It has no structured content, which the model would read instead of the text.
    """
    content = [
        block.model_copy(update={"annotations": None, "meta": None})
        for block in answer.texts_and_images()
    ]
    return types.CallToolResult(content=list(content), is_error=answer.is_error)


def text_from_result(content: object) -> str:
    """Write the result that the model read as one text."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return str(content).removeprefix(_WRAPPING[0]).removesuffix(_WRAPPING[1])
    return "\n".join(_line(block) for block in cast("Sequence[Mapping[str, Any]]", content))


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
