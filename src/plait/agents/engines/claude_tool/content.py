"""What tools answer, as Anthropic's API takes it."""

from __future__ import annotations

from typing import Final, Literal, TypeGuard

import mcp_types as types
from anthropic.types.beta import BetaImageBlockParam, BetaTextBlockParam, BetaToolResultBlockParam

from plait.agents.run_tools import ToolAnswer
from plait.traces.messages.from_mcp import text_from_mcp

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
"""The images that a model can look at."""

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


def tool_result(call_id: str, answer: ToolAnswer) -> BetaToolResultBlockParam:
    """Make the block that answers a call.

    An image stays one where the API takes it, which is not in errors; a line of text stands for
    whatever else is not text.
    """
    match answer.content:
        case [types.TextContent(text=text)]:
            # The SDK copies all that was said in each turn, and a text is copied faster.
            content = text
        case blocks:
            content = [_block(one, text_only=answer.is_error) for one in blocks]
    block: BetaToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
    }
    if answer.is_error:
        block["is_error"] = True
    return block


def _block(
    block: types.ContentBlock, *, text_only: bool
) -> BetaTextBlockParam | BetaImageBlockParam:
    if isinstance(block, types.ImageContent) and not text_only and _is_taken(block.mime_type):
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": block.mime_type, "data": block.data},
        }
    return {"type": "text", "text": text_from_mcp([block])}


def _is_taken(mime_type: str) -> TypeGuard[ImageType]:
    return mime_type in _IMAGES
