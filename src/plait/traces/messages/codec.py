"""The blocks of a message as plain data, and back.

The data has one text, one list of calls, one result and one thought, as viewers of traces want it.
What does not fit into that, such as two texts with a call between them, is added under `blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never, cast

from plait.traces.messages.content import (
    Content,
    ContentType,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)


def content_to_dict(content: Sequence[Content], block_index: int = 0) -> dict[str, Any]:
    """Describe the blocks of one message."""
    told = _simple(content, block_index)
    if content_from_dict(told) != list(content):
        told["blocks"] = [block_to_dict(block) for block in content]
    return told


def content_from_dict(data: Mapping[str, Any]) -> list[Content]:
    """Read the blocks of one message.

    Raises:
        ValueError: The data is of another form.
    """
    try:
        if (blocks := data.get("blocks")) is not None:
            return [block_from_dict(block) for block in blocks]
        return _from_simple(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the content of a message: {error!r}") from error


def _simple(content: Sequence[Content], block_index: int) -> dict[str, Any]:
    results = [block for block in content if isinstance(block, ToolResultContent)]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    calls = [block for block in content if isinstance(block, ToolUseContent)]
    thoughts = [block for block in content if isinstance(block, ThinkingContent)]
    told: dict[str, Any] = {
        "content": results[0].content if results else "\n".join(texts),
        "block_index": block_index,
    }
    if calls:
        told["tool_calls"] = [_call_to_dict(call) for call in calls]
    if results:
        told["tool_result"] = {
            "tool_use_id": results[0].tool_use_id,
            "is_error": results[0].is_error,
        }
    if thoughts:
        told["thinking"] = _thought_to_dict(thoughts[0])
    return told


def _from_simple(data: Mapping[str, Any]) -> list[Content]:
    blocks: list[Content] = []
    if (thought := data.get("thinking")) is not None:
        blocks.append(ThinkingContent(thought["thinking"], thought.get("signature")))
    text = data.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("the content of a message is a text")
    result = data.get("tool_result")
    # The text of a result is the result's, not something said beside it.
    if text and result is None:
        blocks.append(TextContent(text))
    blocks.extend(_call_from_dict(call) for call in data.get("tool_calls") or ())
    if result is not None:
        failed = bool(result.get("is_error", False))
        blocks.append(ToolResultContent(result["tool_use_id"], text, failed))
    return blocks


def block_to_dict(block: Content) -> dict[str, Any]:
    """Describe one block."""
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
            return {"type": "thinking", **_thought_to_dict(block)}
        case _:
            assert_never(block)


def block_from_dict(data: Mapping[str, Any]) -> Content:
    """Read one block.

    Raises:
        ValueError: There is no such block.
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
    given = cast("Mapping[str, Any] | None", data.get("input"))
    return ToolUseContent(data["id"], data["name"], dict(given or {}))


def _thought_to_dict(thought: ThinkingContent) -> dict[str, Any]:
    signed = {} if thought.signature is None else {"signature": thought.signature}
    return {"thinking": thought.thinking, **signed}
