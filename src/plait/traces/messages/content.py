"""The content blocks of a message, and their JSON form.

The JSON form has one text, one list of calls, one result and one thinking, as trace viewers expect.
Content that does not fit, such as two texts with a call between them, is added under `blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar

from plait._support.sanitize import well_formed_data


class ContentType(StrEnum):
    """The kinds of blocks."""

    TEXT = "text"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    THINKING = "thinking"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text."""

    text: str
    type: ClassVar[ContentType] = ContentType.TEXT


@dataclass(frozen=True, slots=True)
class ToolUseContent:
    """A tool call that a model requests."""

    id: str
    """The id that links the result to the call."""
    name: str
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    type: ClassVar[ContentType] = ContentType.TOOL_USE


@dataclass(frozen=True, slots=True)
class ToolResultContent:
    """The result of a tool, as text."""

    tool_use_id: str
    content: str
    is_error: bool = False
    type: ClassVar[ContentType] = ContentType.TOOL_RESULT


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """The thinking of a model before its answer."""

    thinking: str
    signature: str | None = None
    """The signature of the provider, which it requires to accept the thinking again."""
    type: ClassVar[ContentType] = ContentType.THINKING


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image in a message of the user."""

    data: str = field(repr=False)
    """The bytes, in base64."""
    mime_type: str
    type: ClassVar[ContentType] = ContentType.IMAGE


Content = TextContent | ToolUseContent | ToolResultContent | ThinkingContent | ImageContent
"""Any block."""


def content_to_dict(content: Sequence[Content], block_index: int = 0) -> dict[str, Any]:
    """Convert the blocks of a message to JSON."""
    results = [block for block in content if isinstance(block, ToolResultContent)]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    calls = [block for block in content if isinstance(block, ToolUseContent)]
    thinking = [block for block in content if isinstance(block, ThinkingContent)]
    data: dict[str, Any] = {
        "content": results[0].content if results else "\n".join(texts),
        "block_index": block_index,
    }
    if calls:
        data["tool_calls"] = [_fields_of(call) for call in calls]
    if results:
        result = results[0]
        data["tool_result"] = {"tool_use_id": result.tool_use_id, "is_error": result.is_error}
    if thinking:
        data["thinking"] = _fields_of(thinking[0])
    if content_from_dict(data) != list(content):
        data["blocks"] = [{"type": block.type.value, **_fields_of(block)} for block in content]
    return data


def content_from_dict(data: Mapping[str, Any]) -> list[Content]:
    """Convert JSON to the blocks of a message."""
    try:
        if (blocks := data.get("blocks")) is not None:
            kinds = [(_BLOCKS[ContentType(block.get("type"))], block) for block in blocks]
            return [
                kind(**{one.name: block[one.name] for one in fields(kind) if one.name in block})
                for kind, block in kinds
            ]
        return _from_flat(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the content of a message: {error!r}") from error


def _from_flat(data: Mapping[str, Any]) -> list[Content]:
    blocks: list[Content] = []
    if (thinking := data.get("thinking")) is not None:
        blocks.append(ThinkingContent(thinking["thinking"], thinking.get("signature")))
    text = data.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("the content of a message must be a text")
    result = data.get("tool_result")
    # With a result, the text is that of the result.
    if text and result is None:
        blocks.append(TextContent(text))
    blocks.extend(
        ToolUseContent(call["id"], call["name"], dict(call.get("input") or {}))
        for call in data.get("tool_calls") or ()
    )
    if result is not None:
        failed = bool(result.get("is_error", False))
        blocks.append(ToolResultContent(result["tool_use_id"], text, failed))
    return blocks


def well_formed_block(block: Content) -> Content:
    """Return a block with texts that can be encoded; lone surrogates are replaced."""
    values = {field.name: getattr(block, field.name) for field in fields(block)}
    changed = well_formed_data(values)
    return block if changed == values else replace(block, **changed)


_BLOCKS: Mapping[ContentType, type[Content]] = {
    kind.type: kind
    for kind in (TextContent, ToolUseContent, ToolResultContent, ThinkingContent, ImageContent)
}


def _fields_of(block: Content) -> dict[str, Any]:
    values = {field.name: getattr(block, field.name) for field in fields(block)}
    return {name: copy(value) for name, value in values.items() if value is not None}
