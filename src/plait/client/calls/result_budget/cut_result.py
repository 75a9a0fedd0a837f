"""The parts of a result, their sizes, and cutting them: each gets a share, or a line about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, cast

from plait._support import mcp_types as types
from plait.client.calls.outcome import ToolResult, data_of, is_same, json_text
from plait.client.calls.result_budget.cut_json import (
    CUT,
    CutNote,
    cut_json,
    cut_text,
    parsed_json,
    share_room,
    size_of_text,
    written_json,
)
from plait.client.catalog.deferral import TokenCounter
from plait.client.config.budgets import Limit

_MOST_IMAGE_BYTES = 6400
"""An image counts as 1,600 tokens at most, since models scale it down."""
_MOST_BYTES_PER_TOKEN = 32
"""A bound for the average token, to spare slow tokenizers texts that are surely too long."""
_STRUCTURED_SHARE = 4
"""Structured content that the blocks do not repeat gets at least one part in so many."""
_LEAST_TEXT = 500
"""If texts would get less, the last of them are left out instead."""
_LONGEST_LABEL = 60


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
    return min(size, _MOST_IMAGE_BYTES) if limit.bytes is None and _is_image(block) else size


def _is_image(block: types.ContentBlock) -> bool:
    if isinstance(block, types.ImageContent):
        return True
    kind = block.resource.mime_type if isinstance(block, types.EmbeddedResource) else None
    return (kind or "").lower().startswith("image/")


def is_within(result: ToolResult, limit: Limit, counter: TokenCounter | None = None) -> bool:
    """Say whether the content and structured content of a result are within a limit."""
    size = sum(cost_of(block, limit) for block in result.content)
    if size > limit.most_bytes and counter is None:
        return False
    repeated = result.structured_content is None or repeating_text(result) is not None
    shown = "" if repeated else json_text(result.structured_content)
    size += size_of_text(shown)
    if limit.bytes is not None and size > limit.bytes:
        return False
    if limit.tokens is None:
        return True
    if counter is None or size > limit.tokens * _MOST_BYTES_PER_TOKEN:
        return -(-size // 4) <= limit.tokens
    tokens = counter(shown) if shown else 0
    for block in result.content:
        text = text_of(block)
        tokens += -(-cost_of(block, limit) // 4) if text is None else counter(text)
    return tokens <= limit.tokens


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


def cut_result(result: ToolResult, limit: Limit, allowed_bytes: int, note: CutNote) -> ToolResult:
    """Shorten content and structured content of a result to at most so many bytes."""
    same = repeating_text(result)
    blocks, structured = result.content, result.structured_content
    is_separate = structured is not None and same is None
    cutter = _BlockCutter(limit, note, several=len(blocks) + is_separate > 1)
    if is_separate:
        taken = sum(cost_of(block, limit) for block in blocks)
        needed = size_of_text(json_text(structured))
        least = allowed_bytes // _STRUCTURED_SHARE
        for_structured = min(needed, max(allowed_bytes - taken, least))
        content = cutter.blocks(blocks, allowed_bytes - for_structured)
        if needed > for_structured:
            structured = cutter.structured(structured, for_structured, block=len(blocks))
    else:
        content = cutter.blocks(blocks, allowed_bytes)
        if same is not None and content[same[0] :][:1] != blocks[same[0] :][:1]:
            index, wrap = same
            structured = _cut_alike(content, index, wrap, cutter, structured, allowed_bytes)
    return _slim(replace(result, content=content, structured_content=structured), allowed_bytes)


def _cut_alike(
    content: Sequence[types.ContentBlock],
    index: int,
    wrap: Any,
    cutter: _BlockCutter,
    structured: Any,
    allowed: int,
) -> Any:
    """Shorten structured content like the text that repeats it."""
    block = content[index] if index < len(content) else None
    value = parsed_json(block.text) if isinstance(block, types.TextContent) else None
    if value is not None:
        return wrap(value)
    if isinstance(block, types.TextContent) and wrap("") == {"result": ""}:
        return {"result": block.text}
    return cutter.structured(structured, allowed // _STRUCTURED_SHARE, block=index)


@dataclass(frozen=True, slots=True)
class _BlockCutter:
    limit: Limit
    note: CutNote
    several: bool

    def blocks(
        self, blocks: Sequence[types.ContentBlock], allowed: int
    ) -> tuple[types.ContentBlock, ...]:
        costs = [cost_of(block, self.limit) for block in blocks]
        if sum(costs) <= allowed:
            return tuple(blocks)
        least = [
            self._least(block, cost, index)
            for index, (block, cost) in enumerate(zip(blocks, costs, strict=True))
        ]
        end, room = self._that_fit(least, allowed)
        shares = self._shares(blocks[:end], costs, least, room)
        kept = [
            block if cost <= share else self._cut(block, share, index)
            for index, (block, cost, share) in enumerate(
                zip(blocks[:end], costs, shares, strict=False)
            )
        ]
        if end < len(blocks):
            kept.append(types.TextContent(text=self.note.blocks_line(end, len(blocks))))
        return tuple(kept)

    def structured(self, structured: Any, allowed: int, *, block: int) -> Any:
        note = replace(self.note, block=block if self.several else None)
        if isinstance(structured, dict | list):
            with suppress(ValueError):
                return cut_json(structured, allowed, note)
        return {CUT: note.outer("everything is", None)}

    def _least(self, block: types.ContentBlock, cost: int, index: int) -> int:
        """Return the least room for a block: a line, or a useful piece of its text."""
        line = size_of_text(self._line(block, index))
        return min(cost, line if text_of(block) is None else max(line, _LEAST_TEXT))

    def _that_fit(self, least: Sequence[int], allowed: int) -> tuple[int, int]:
        """Return how many blocks get at least a line, and the room for them."""
        if sum(least) <= allowed:
            return len(least), allowed
        room = allowed - size_of_text(self.note.blocks_line(len(least), len(least) * 2))
        return sum(used <= room for used in accumulate(least)), room

    def _shares(
        self,
        blocks: Sequence[types.ContentBlock],
        costs: Sequence[int],
        least: Sequence[int],
        room: int,
    ) -> list[int]:
        """Divide the room: texts by need, data in order, and at most half for each of the two."""
        shares = list(least[: len(blocks)])
        needs = [cost - share for cost, share in zip(costs, shares, strict=False)]
        texts = [index for index, block in enumerate(blocks) if text_of(block) is not None]
        others = [index for index, block in enumerate(blocks) if text_of(block) is None]
        free = room - sum(shares)
        need_of_texts = sum(needs[index] for index in texts)
        for_texts = min(need_of_texts, max(free // 2, free - sum(needs) + need_of_texts))
        for_others = free - for_texts
        for index in others:
            if needs[index] <= for_others:
                shares[index] += needs[index]
                for_others -= needs[index]
        extras = share_room([needs[index] for index in texts], for_texts + for_others)
        for index, extra in zip(texts, extras, strict=True):
            shares[index] += extra
        return shares

    def _cut(self, block: types.ContentBlock, share: int, index: int) -> types.ContentBlock:
        note = replace(self.note, block=index if self.several else None)
        match block:
            case types.TextContent():
                text = _shortened(block.text, share, note)
                if text is not None:
                    return block.model_copy(update={"text": text})
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                text = _shortened(resource.text, share - size_of_text(resource.uri), note)
                if text is not None:
                    shorter = resource.model_copy(update={"text": text})
                    return block.model_copy(update={"resource": shorter})
            case _:
                pass
        return types.TextContent(text=self._line(block, index))

    def _line(self, block: types.ContentBlock, index: int) -> str:
        return self.note.block_line(_label_of(block), index)


def _shortened(text: str, share: int, note: CutNote) -> str | None:
    value = parsed_json(text)
    if value is not None:
        with suppress(ValueError):
            written = written_json(cut_json(value, share, note))
            if size_of_text(written) <= share:
                return written
    return cut_text(text, share, note)


def _label_of(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return f"text of {len(block.text)} characters"
        case types.ImageContent() | types.AudioContent():
            kind = block.mime_type or block.type
        case types.ResourceLink():
            kind = "resource link"
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return f"resource of {len(text)} characters"
        case types.EmbeddedResource():
            kind = block.resource.mime_type or "resource"
    size = len(data_of(block).rstrip("=")) * 3 // 4
    return f"{kind[:_LONGEST_LABEL]} of {size} bytes" if size else kind[:_LONGEST_LABEL]


def _slim(result: ToolResult, allowed: int) -> ToolResult:
    """Drop metadata that is larger than the limit."""
    metas = [result.meta, *(block.meta for block in result.content)]
    if sum(size_of_text(json_text(meta)) for meta in metas if meta) <= allowed:
        return result
    content = tuple(
        block if block.meta is None else block.model_copy(update={"meta": None})
        for block in result.content
    )
    return replace(result, content=content, meta=None)
