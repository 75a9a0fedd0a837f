"""The content blocks of a message, and their JSON form.

The JSON form has one text, one list of calls, one result and one thinking, as trace viewers expect.
Content that does not fit, such as two texts with a call between them, is added under `blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, assert_never, cast


class ContentType(StrEnum):
    """The kinds of blocks."""

    TEXT = "text"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    THINKING = "thinking"


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


Content = TextContent | ToolUseContent | ToolResultContent | ThinkingContent
"""Any block."""


def content_to_dict(content: Sequence[Content], block_index: int = 0) -> dict[str, Any]:
    """Convert the blocks of a message to JSON."""
    data = _to_flat(content, block_index)
    if content_from_dict(data) != list(content):
        data["blocks"] = [block_to_dict(block) for block in content]
    return data


def content_from_dict(data: Mapping[str, Any]) -> list[Content]:
    """Convert JSON to the blocks of a message.

    Raises:
        ValueError: The data is not the content of a message.
    """
    try:
        if (blocks := data.get("blocks")) is not None:
            return [block_from_dict(block) for block in blocks]
        return _from_flat(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the content of a message: {error!r}") from error


def _to_flat(content: Sequence[Content], block_index: int) -> dict[str, Any]:
    results = [block for block in content if isinstance(block, ToolResultContent)]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    calls = [block for block in content if isinstance(block, ToolUseContent)]
    thinking = [block for block in content if isinstance(block, ThinkingContent)]
    data: dict[str, Any] = {
        "content": results[0].content if results else "\n".join(texts),
        "block_index": block_index,
    }
    if calls:
        data["tool_calls"] = [_call_to_dict(call) for call in calls]
    if results:
        data["tool_result"] = {
            "tool_use_id": results[0].tool_use_id,
            "is_error": results[0].is_error,
        }
    if thinking:
        data["thinking"] = _thinking_to_dict(thinking[0])
    return data


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
    blocks.extend(_call_from_dict(call) for call in data.get("tool_calls") or ())
    if result is not None:
        failed = bool(result.get("is_error", False))
        blocks.append(ToolResultContent(result["tool_use_id"], text, failed))
    return blocks


def block_to_dict(block: Content) -> dict[str, Any]:
    """Convert a block to JSON."""
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ToolUseContent():
            return {"type": "tool_use", **_call_to_dict(block)}
        case ToolResultContent():
            return {
                "type": "tool_result",
                "tool_use_id": block.tool_use_id,
                "content": block.content,
                "is_error": block.is_error,
            }
        case ThinkingContent():
            return {"type": "thinking", **_thinking_to_dict(block)}
        case _:
            assert_never(block)


def block_from_dict(data: Mapping[str, Any]) -> Content:
    """Convert JSON to a block.

    Raises:
        ValueError: The type of the block is unknown.
    """
    match ContentType(data.get("type")):
        case ContentType.TEXT:
            return TextContent(data["text"])
        case ContentType.TOOL_USE:
            return _call_from_dict(data)
        case ContentType.TOOL_RESULT:
            return ToolResultContent(
                data["tool_use_id"], data["content"], bool(data.get("is_error", False))
            )
        case ContentType.THINKING:
            return ThinkingContent(data["thinking"], data.get("signature"))


def _call_to_dict(call: ToolUseContent) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "input": dict(call.input)}


def _call_from_dict(data: Mapping[str, Any]) -> ToolUseContent:
    arguments = cast("Mapping[str, Any] | None", data.get("input"))
    return ToolUseContent(data["id"], data["name"], dict(arguments or {}))


def _thinking_to_dict(block: ThinkingContent) -> dict[str, Any]:
    signature = {} if block.signature is None else {"signature": block.signature}
    return {"thinking": block.thinking, **signature}
