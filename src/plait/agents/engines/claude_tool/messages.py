"""Converts messages to and from Anthropic's API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from plait.agents.anthropic_api import blocks_of, field_of, line_from_block
from plait.traces.messages.content import (
    Content,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)
from plait.traces.messages.message import Message, Role
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

_ILLEGAL_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters in the ids of other providers that the API rejects."""


def messages_to_anthropic(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert messages for the API.

    Tool results come first in the next user message, or in one of their own. System messages are
    left out, since a request has a field for them; so are blank texts and thinking without a
    signature, which the API rejects.
    """
    converted: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []

    def flush(*blocks: dict[str, Any]) -> None:
        if results or blocks:
            converted.append({"role": "user", "content": [*results, *blocks]})
            results.clear()

    for message in messages:
        blocks = [block for content in message.content for block in _block_params(content)]
        if message.role is Role.TOOL:
            results += blocks
        elif message.role is Role.USER:
            # The API requires results before anything else.
            flush(*sorted(blocks, key=lambda block: block["type"] != "tool_result"))
        elif message.role is Role.ASSISTANT and blocks:
            flush()
            converted.append({"role": "assistant", "content": blocks})
    flush()
    return converted


def _block_params(block: Content) -> Iterator[dict[str, Any]]:
    match block:
        case TextContent():
            if block.text.strip():
                yield {"type": "text", "text": block.text}
        case ThinkingContent():
            if block.signature:
                yield {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case ImageContent():
            yield image_param(block)
        case ToolUseContent():
            call_id = _legal_id(block.id)
            yield {"type": "tool_use", "id": call_id, "name": block.name, "input": {**block.input}}
        case ToolResultContent():
            failed = {"is_error": True} if block.is_error else {}
            content = {"content": block.content} if block.content.strip() else {}
            call_id = _legal_id(block.tool_use_id)
            yield {"type": "tool_result", "tool_use_id": call_id, **content, **failed}


def image_param(image: ImageContent) -> dict[str, Any]:
    """Convert an image for the API."""
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return {"type": "image", "source": source}


def _legal_id(call_id: str) -> str:
    return _ILLEGAL_IN_IDS.sub("_", call_id)


def message_from_anthropic(message: object) -> Message:
    """Convert an answer: texts, thinking and tool calls, without tools that ran at Anthropic."""
    blocks = [_content(block) for block in blocks_of(field_of(message, "content"))]
    return Message(Role.ASSISTANT, [block for block in blocks if block is not None])


def messages_from_anthropic(messages: Iterable[object]) -> list[Message]:
    """Convert messages of the API, as objects or as JSON; messages of plait are kept.

    Tool results become separate messages.
    """
    return [converted for message in messages for converted in _messages(message)]


def claude_tool_messages_to_raw_trace(
    messages: Iterable[object], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages as a raw trace: those of plait, or of the API as objects or as JSON.

    Raises:
        ValueError: One of them is not a message.
    """
    return messages_to_raw_trace(messages_from_anthropic(messages), config)


def _messages(message: object) -> Iterator[Message]:
    if isinstance(message, Message):
        yield message
        return
    role, content = field_of(message, "role"), field_of(message, "content")
    if role == "assistant":
        yield message_from_anthropic(message)
        return
    if role not in ("user", "system"):
        raise ValueError(f"{role!r} is not a message role")
    blocks = blocks_of(content)
    for block in blocks:
        if field_of(block, "type") == "tool_result":
            yield Message.tool_result(
                str(field_of(block, "tool_use_id")),
                "\n".join(line_from_block(part) for part in blocks_of(field_of(block, "content"))),
                bool(field_of(block, "is_error")),
            )
    texts = [line_from_block(block) for block in blocks if field_of(block, "type") != "tool_result"]
    if texts or not blocks:
        yield Message(Role(role), [TextContent(text) for text in texts])


def _content(block: object) -> Content | None:
    match field_of(block, "type"):
        case "text":
            text = str(field_of(block, "text") or "")
            return TextContent(text) if text else None
        case "thinking":
            thinking = str(field_of(block, "thinking") or "")
            return ThinkingContent(thinking, field_of(block, "signature") or None)
        case "tool_use":
            arguments = cast("Mapping[str, Any]", field_of(block, "input") or {})
            call_id, name = str(field_of(block, "id")), str(field_of(block, "name"))
            return ToolUseContent(call_id, name, dict(arguments))
        case _:
            return None


convert_to_anthropic = messages_to_anthropic
"""The same, under another name."""

convert_from_anthropic_message = message_from_anthropic
"""The same, under another name."""
