"""The parts of a result as text and data, and their sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from plait.client.calls.content import data_of, is_same, json_text
from plait.client.calls.result_budget.cut_text import size_of_text

if TYPE_CHECKING:
    from plait.client.calls.outcome import ToolResult
    from plait.client.catalog.deferral import TokenCounter
    from plait.client.config.budgets import Limit

_MOST_IMAGE_BYTES = 6400
"""An image counts as 1,600 tokens at most, since models scale it down."""
_MOST_BYTES_PER_TOKEN = 32
"""A bound for the average token, to spare slow tokenizers texts that are surely too long."""


def text_of(block: types.ContentBlock) -> str | None:
    """Return the text of a block, or `None` if it is binary data."""
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.ResourceLink():
            link = block.model_dump(by_alias=True, exclude_none=True, mode="json", exclude={"meta"})
            return json.dumps(link, ensure_ascii=False)
        case _:
            return None


def raw_text_of(result: ToolResult, part: int) -> str:
    """Return a part of a result as text: data as base64, structured content as JSON."""
    if part == len(result.content):
        return json_text(result.structured_content)
    block = result.content[part]
    text = text_of(block)
    return data_of(block) if text is None else text


def count_of_parts(result: ToolResult) -> int:
    """Count the blocks, and structured content as the last one."""
    return len(result.content) + (result.structured_content is not None)


def cost_of(block: types.ContentBlock, limit: Limit) -> int:
    """Return how many bytes of a limit a block takes."""
    text = text_of(block)
    if text is not None:
        uri = block.resource.uri if isinstance(block, types.EmbeddedResource) else ""
        return size_of_text(text) + size_of_text(uri)
    size = len(data_of(block))
    return min(size, _MOST_IMAGE_BYTES) if limit.bytes is None and is_image(block) else size


def is_image(block: types.ContentBlock) -> bool:
    """Say whether a block is an image."""
    if isinstance(block, types.ImageContent):
        return True
    kind = block.resource.mime_type if isinstance(block, types.EmbeddedResource) else None
    return (kind or "").lower().startswith("image/")


def is_within(result: ToolResult, limit: Limit, counter: TokenCounter | None = None) -> bool:
    """Say whether the content and structured content of a result are within a limit."""
    size = sum(cost_of(block, limit) for block in result.content)
    if size > limit.most_bytes and counter is None:
        return False
    shown = unrepeated_structured_text(result)
    size += size_of_text(shown)
    if limit.bytes is not None and size > limit.bytes:
        return False
    if limit.tokens is None:
        return True
    if counter is None or size > limit.tokens * _MOST_BYTES_PER_TOKEN:
        return -(-size // 4) <= limit.tokens
    return _tokens(result, shown, limit, counter) <= limit.tokens


def unrepeated_structured_text(result: ToolResult) -> str:
    """Write the structured content, or nothing if a text of the result repeats it."""
    if result.structured_content is None or repeating_text(result) is not None:
        return ""
    return json_text(result.structured_content)


def _tokens(result: ToolResult, shown: str, limit: Limit, counter: TokenCounter) -> int:
    total = counter(shown) if shown else 0
    for block in result.content:
        text = text_of(block)
        total += -(-cost_of(block, limit) // 4) if text is None else counter(text)
    return total


def repeating_text(result: ToolResult) -> tuple[int, Callable[[Any], Any]] | None:
    """Return the index of the only text if it repeats the structured content, and its wrapper.

    Servers repeat structured content as JSON; a value that is no object they wrap as
    `{"result": value}`, and write it without the wrapper.
    """
    texts = {
        index: block.text
        for index, block in enumerate(result.content)
        if isinstance(block, types.TextContent)
    }
    if len(texts) != 1 or result.structured_content is None:
        return None
    ((index, text),) = texts.items()
    structured: Any = result.structured_content
    if _is_json_of(text, structured):
        return index, lambda value: value
    wrapped = cast("Mapping[str, Any]", structured if isinstance(structured, Mapping) else {})
    inner = wrapped.get("result")
    if len(wrapped) == 1 and (inner == text or _is_json_of(text, inner)):
        return index, lambda value: {"result": value}
    return None


def _is_json_of(text: str, value: Any) -> bool:
    return isinstance(value, Mapping | list) and is_same(text, value)
