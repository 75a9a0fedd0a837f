"""Reading on in a result that was cut: by block, by range, by path, or by what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.cut_json import cut_json, parsed_json, written_json
from plait.client.calls.result_budget.cut_text import head_of, size_of_text
from plait.client.calls.result_budget.marks import Mark
from plait.client.calls.result_budget.parts import cost_of, count_of_parts, raw_text_of, text_of
from plait.client.calls.result_budget.paths import PathError, is_single, select
from plait.client.config.budgets import Limit
from plait.errors import InvalidArgumentsError

_NOTE_BYTES = 300
"""Room for the line that says what was read, and what comes next."""

_AROUND = 80
"""Characters shown on either side of a text that was looked for."""

_MOST_FOUND = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What somebody wants to read of a result."""

    block: int = 0
    """Structured content counts as the last block."""

    path: str | None = None
    start: int | None = None
    length: int | None = None
    find: str | None = None


Blocks = list[types.ContentBlock]


def read_part(
    result: ToolResult, reading: Reading, limit: Limit, allowed_bytes: int, mark: Mark
) -> Blocks:
    """Return what is asked for, as much of it as fits, and a line that says how to go on.

    Raises:
        InvalidArgumentsError: There is no such block, path or position.
    """
    total = count_of_parts(result)
    if not 0 <= reading.block < total:
        raise _wrong(f"there is no block {reading.block}: the result has {total}, from 0 on")
    allowed = allowed_bytes - _NOTE_BYTES
    mark = replace(mark, block=reading.block if total > 1 else None)
    if reading.find is not None:
        return _found(raw_text_of(result, reading.block), reading, allowed)
    if reading.path is not None:
        return _read_path(_json_of(result, reading.block), reading, allowed, mark)
    if reading.start is None and reading.length is None:
        whole = _whole_blocks(result, reading.block, limit, allowed)
        if whole:
            return whole
    return _read_text(raw_text_of(result, reading.block), reading, allowed, "characters")


def _whole_blocks(result: ToolResult, first: int, limit: Limit, allowed: int) -> Blocks:
    """Return the block and those after it, for as long as they fit."""
    blocks: Blocks = []
    room = allowed
    for block in result.content[first:]:
        room -= cost_of(block, limit)
        if room < 0:
            break
        blocks.append(_readable(block))
    if not blocks:
        return []
    last, total = first + len(blocks) - 1, count_of_parts(result)
    following = f"; the next is block={last + 1}" if last + 1 < total else ""
    which = f"block {first}" if last == first else f"blocks {first} to {last}"
    return [*blocks, _note(f"{which} of {total}, numbered from 0{following}")]


def _readable(block: types.ContentBlock) -> types.ContentBlock:
    """Return a block as one that a model gets to see; resources may be kept from it otherwise."""
    match block:
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return types.TextContent(text=text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            kind = (resource.mime_type or "").lower()
            if kind.startswith("image/"):
                return types.ImageContent(data=resource.blob, mime_type=kind)
            if kind.startswith("audio/"):
                return types.AudioContent(data=resource.blob, mime_type=kind)
            return block
        case types.ResourceLink():
            return types.TextContent(text=text_of(block) or "")
        case _:
            return block


def _read_text(text: str, reading: Reading, allowed: int, unit: str) -> Blocks:
    start, total = reading.start or 0, len(text)
    if start > total or (start == total and total):
        raise _wrong(f"start={start} is behind the end: there are {total} {unit}")
    wanted = text[start:] if reading.length is None else text[start : start + reading.length]
    piece = head_of(wanted, allowed) if size_of_text(wanted) > allowed else wanted
    end = start + len(piece)
    blank = " (blank)" if piece and not piece.strip() else ""
    following = f"; the next is start={end}" if end < total else "; this is the end"
    note = _note(f"{unit} {start} to {end} of {total}{blank}{following}")
    return [types.TextContent(text=piece), note]


def _json_of(result: ToolResult, block: int) -> Any:
    if block == len(result.content):
        return result.structured_content
    value = parsed_json(raw_text_of(result, block))
    if value is None:
        raise _wrong(f"block {block} is not JSON, so it has no paths: read it by start and length")
    return value


def _read_path(data: Any, reading: Reading, allowed: int, mark: Mark) -> Blocks:
    path = reading.path or "$"
    try:
        value = select(data, path)
        mark = replace(mark, base=path if is_single(path) else None)
    except PathError as error:
        raise _wrong(str(error)) from error
    if isinstance(value, str):
        return _read_text(value, reading, allowed, "characters")
    if isinstance(value, list):
        return _read_items(cast("list[Any]", value), reading, allowed, mark)
    if isinstance(value, Mapping):
        return _read_object(cast("Mapping[str, Any]", value), reading, allowed, mark)
    return [types.TextContent(text=written_json(value)), _note(f"the value at {path[:100]}")]


def _read_items(items: list[Any], reading: Reading, allowed: int, mark: Mark) -> Blocks:
    """Return whole items; only one that is too large by itself is cut."""
    start, total = reading.start or 0, len(items)
    if start > total or (start == total and total):
        raise _wrong(f"start={start} is behind the end: there are {total} items")
    wanted = items[start:] if reading.length is None else items[start : start + reading.length]
    written: list[str] = []
    room = allowed - 2
    for item in wanted:
        text = written_json(item)
        room -= size_of_text(text) + 2
        if room < 0:
            break
        written.append(text)
    shortened = ""
    if wanted and not written:
        base = None if mark.base is None else f"{mark.base}[{start}]"
        written = [_cut_item(wanted[0], allowed - 2, replace(mark, base=base))]
        shortened = " (shortened: it is too large by itself)"
    end = start + len(written)
    following = f"; the next is start={end}" if end < total else "; this is the end"
    note = _note(f"items {start} to {end} of {total}{shortened}{following}")
    return [types.TextContent(text=f"[{', '.join(written)}]"), note]


def _cut_item(item: Any, allowed: int, mark: Mark) -> str:
    if isinstance(item, str):
        inside = replace(mark, base=None) if mark.base is None else mark
        (shorter, _) = cut_json([item], allowed, inside)
        return written_json(shorter)
    return written_json(cut_json(item, allowed, mark))


def _read_object(value: Mapping[str, Any], reading: Reading, allowed: int, mark: Mark) -> Blocks:
    start, total = reading.start or 0, len(value)
    if start > total or (start == total and total):
        raise _wrong(f"start={start} is behind the end: there are {total} keys")
    end = total if reading.length is None else min(total, start + reading.length)
    wanted = dict(list(value.items())[start:end])
    shorter = cut_json(wanted, allowed, mark)
    cut = "" if shorter is wanted else " (shortened)"
    note = _note(f"keys {start} to {end} of {total}{cut}")
    return [types.TextContent(text=written_json(shorter)), note]


def _found(text: str, reading: Reading, allowed: int) -> Blocks:
    """List where a text stands, whatever its case, with what is around it."""
    wanted = re.compile(re.escape(reading.find or ""), re.IGNORECASE)
    lines: list[str] = []
    room = allowed
    following: int | None = None
    for match in wanted.finditer(text, reading.start or 0):
        around = text[max(0, match.start() - _AROUND) : match.end() + _AROUND]
        line = f"start={match.start()}: {' '.join(around.split())}"
        room -= size_of_text(line) + 1
        if room < 0 or len(lines) == _MOST_FOUND:
            following = match.start()
            break
        lines.append(line)
    more = "" if following is None else f"; there are more: start={following}"
    said = "\n".join(lines) or "It stands nowhere."
    return [types.TextContent(text=said), _note(f"{len(lines)} places{more}")]


def _note(text: str) -> types.TextContent:
    return types.TextContent(text=f"[{text}]")


def _wrong(text: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(text)
