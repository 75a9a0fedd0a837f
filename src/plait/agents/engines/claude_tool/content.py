"""Tool results as Anthropic's API takes them."""

from __future__ import annotations

from typing import Any, cast

import mcp_types as types
from anthropic.types.beta import BetaImageBlockParam, BetaTextBlockParam, BetaToolResultBlockParam

from plait.agents.run_tools import ToolAnswer


def tool_result(call_id: str, answer: ToolAnswer) -> BetaToolResultBlockParam:
    """Make the block that answers a tool call."""
    match answer.content:
        case [types.TextContent(text=text)]:
            # The SDK copies the whole conversation in each turn, and a string is copied faster.
            content = text
        case _:
            content = [_block(block) for block in answer.texts_and_images()]
    result: BetaToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
    }
    if answer.is_error:
        result["is_error"] = True
    return result


def _block(
    block: types.TextContent | types.ImageContent,
) -> BetaTextBlockParam | BetaImageBlockParam:
    if isinstance(block, types.TextContent):
        return {"type": "text", "text": block.text}
    media_type = cast("Any", block.mime_type)
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": block.data},
    }
