"""What MCP servers send, as messages.

A message holds text; a line says what cannot be text, so that no answer looks emptier than it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, assert_never

import mcp_types as types

from plait._support.sizes import size_label
from plait.traces.messages.content import TextContent, ToolResultContent
from plait.traces.messages.message import Message, Role

NOTHING = "The tool returned nothing."

NO_DETAILS = "The tool reported an error without details."


def content_for_model(
    content: Iterable[types.ContentBlock], structured: Any | None = None, *, is_error: bool = False
) -> tuple[types.ContentBlock, ...]:
    """Return the blocks that a model is given: none of them blank, and at least one.

    Where there is no text, structured content stands first, as JSON.
    """
    blocks = [block for block in content if not _is_blank(block)]
    if structured is not None and not any(isinstance(one, types.TextContent) for one in blocks):
        blocks.insert(0, types.TextContent(text=json.dumps(structured, ensure_ascii=False)))
    if not blocks:
        blocks.append(types.TextContent(text=NO_DETAILS if is_error else NOTHING))
    return tuple(blocks)


def _is_blank(block: types.ContentBlock) -> bool:
    return isinstance(block, types.TextContent) and not block.text.strip()


def text_from_mcp(content: Iterable[types.ContentBlock], structured: Any | None = None) -> str:
    """Write blocks as one text, a line break between them; `structured` stands in for no text."""
    blocks = list(content)
    if structured is not None and not any(isinstance(one, types.TextContent) for one in blocks):
        lines = [json.dumps(structured, ensure_ascii=False), *map(_line, blocks)]
    else:
        lines = [_line(block) for block in blocks]
    return "\n".join(lines)


def tool_message_from_mcp(tool_use_id: str, result: types.CallToolResult) -> Message:
    """Make the message of a tool's answer."""
    text = text_from_mcp(result.content, result.structured_content)
    return Message(Role.TOOL, [ToolResultContent(tool_use_id, text, bool(result.is_error))])


def message_from_mcp(message: types.PromptMessage) -> Message:
    """Translate a message of a server's prompt."""
    return Message(Role(message.role), [TextContent(text_from_mcp([message.content]))])


def media_line(kind: str, mime_type: str | None, size_bytes: int) -> str:
    """Write the line that stands for an image, a sound or a file: `[image: image/png, 68 B]`."""
    facts = ", ".join(fact for fact in (mime_type, size_label(size_bytes)) if fact)
    return f"[{kind}: {facts}]"


def resource_line(uri: str, mime_type: str | None, size_bytes: int | None) -> str:
    """Write the line that stands for a resource: `Resource: file:///a.txt (text/plain, 2 B)`."""
    size = None if size_bytes is None else size_label(size_bytes)
    facts = ", ".join(fact for fact in (mime_type, size) if fact)
    return f"Resource: {uri} ({facts})" if facts else f"Resource: {uri}"


def _line(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return media_line("image", block.mime_type, decoded_bytes(block.data))
        case types.AudioContent():
            return media_line("audio", block.mime_type, decoded_bytes(block.data))
        case types.ResourceLink():
            return resource_line(block.uri, block.mime_type, block.size)
        case types.EmbeddedResource():
            held = block.resource
            size = (
                len(held.text.encode("utf-8", "replace"))
                if isinstance(held, types.TextResourceContents)
                else decoded_bytes(held.blob)
            )
            return resource_line(held.uri, held.mime_type, size)
        case _:
            assert_never(block)


def decoded_bytes(data: str) -> int:
    """Say how many bytes a base64 text stands for."""
    return len(data.rstrip("=")) * 3 // 4
