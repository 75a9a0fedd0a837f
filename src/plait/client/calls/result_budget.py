"""Limits the size of results: cuts those over budget, keeps them in full, answers `read_more`.

Each block of a result gets a share of the room, or a line about it; JSON keeps its shape.

A part of a full result is read by block, by range, by path, or by search. Paths are written as
models write them: `$.rows[100:200].name`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, TypeAlias, cast

from cachetools import TTLCache

from plait._support import mcp_types as types
from plait._support.clock import Clock, SystemClock
from plait._support.threads import in_thread
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import (
    ToolResult,
    block_from_resource,
    data_of,
    is_encodable,
    is_same,
    json_text,
    label_of,
)
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.deferral import TokenCounter
from plait.client.catalog.tool import Tool
from plait.client.config.argument_readings import is_large
from plait.client.config.budgets import Limit, ResultBudget, limit_for
from plait.client.config.raw_value import describe
from plait.client.config.servers import ServerConfig
from plait.errors import InvalidArgumentsError, ResultExpiredError

CUT = "plait/cut"
"""The key of the note in a shortened object."""
_MAX_PATH_CHARACTERS = 200
"""A longer path is left out of notes."""
_HEAD_SHARE = 2 / 3
"""The beginning identifies most texts; logs have the failure at their end."""
_WHOLE_LINES_SHARE = 0.8
"""A cut is moved to the end of a line if that keeps at least this share of the piece."""
_ELLIPSIS = "…"
_BETWEEN = 2
"""Bytes of `, ` and of `: `."""
_FAR = 1_000_000
"""Added to a limit to report a size that is over it without measuring it."""
_MAX_EXAMPLE_CHARACTERS = 60
"""A longer path is no example in the note at the root, which must have room beside the value."""
_MIN_VALUE_BYTES = 24
"""A key is kept if at least so much of its value, or all of it, fits; every cut value can be
shorter."""
_MAX_DEPTH = 60
"""Values nested more deeply are left out, to bound recursion."""
_CUT_ITEM_SHARE = 0.5
"""An item that does not fit is cut, not left out, if it gets at least this share of the list."""
_NAME = re.compile(r"[^\W\d]\w*")
_MAX_IMAGE_BYTES = 6400
"""An image counts as 1,600 tokens at most, since models scale it down."""
_MAX_BYTES_PER_TOKEN = 32
"""A bound for the average token, to spare slow tokenizers texts that are surely too long."""
_STRUCTURED_SHARE = 4
"""Structured content that the blocks do not repeat gets at least one part in so many."""
_MIN_TEXT_BYTES = 500
"""If texts would get less, the last of them are left out instead."""
_MAX_LABEL_CHARACTERS = 60
"""Of a MIME type, which the server chooses."""


@dataclass(frozen=True, slots=True)
class CutNote:
    """Writes notes about what is left out of one block of a result, and how to read it."""

    handle: str
    reader: str
    """The name of the `read_more` tool."""
    block: int | None = None
    """The index of the block; `None` if there is only one."""
    base: str | None = "$"
    """The path of the cut value, or `None` if it has none."""

    def to_read(
        self, *, path: str | None = None, start: int | None = None, block: int | None = None
    ) -> str:
        """Write the call that reads what is left out."""
        arguments: dict[str, object] = {
            "handle": self.handle,
            "block": self.block if block is None else block,
            "path": path,
            "start": start,
        }
        present = {name: value for name, value in arguments.items() if value is not None}
        written = ", ".join(f"{name}={json.dumps(value)}" for name, value in present.items())
        return f"{self.reader}({written})"

    def text_line(self, left_out: int, total: int, start: int) -> str:
        """Note how much of a text is left out, and where it continues."""
        read = self.to_read(start=start)
        return f"\n[… {left_out} of {total} characters are left out here; to read on: {read} …]\n"

    def block_line(self, what: str, block: int) -> str:
        """Note that a block is left out."""
        return f"[{what}, left out; to read it: {self.to_read(block=block)}]"

    def blocks_line(self, first: int, total: int) -> str:
        """Note that all blocks from `first` on are left out."""
        read = self.to_read(block=first)
        return f"[{total - first} more blocks are left out; to read on: {read}]"

    def inner(self, what: str, path: str | None, start: int) -> str:
        """Note, inside a value, what is left out of it; the note at the root has the handle."""
        where = "" if path is None or len(path) > _MAX_PATH_CHARACTERS else f", path={path}"
        return f"…[{what} left out{where}, start={start}]"

    def outer(self, what: str, start: int | None) -> str:
        """Note, at the root of a value, what is left out, and how to read it."""
        path = self.base if self.base is None or len(self.base) <= _MAX_PATH_CHARACTERS else None
        return f"{what} left out; to read on: {self.to_read(path=path, start=start)}"


def size_of_text(text: str) -> int:
    """Return the bytes of a text in UTF-8, which may have lone surrogates."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut_text(text: str, allowed_bytes: int, note: CutNote) -> str | None:
    """Cut the middle out of a text, or return `None` if not even the note fits."""
    if size_of_text(text) <= allowed_bytes:
        return text
    total = len(text)
    room = allowed_bytes - size_of_text(note.text_line(total, total, total))
    if room < 0:
        return None
    head = head_of(text, int(room * _HEAD_SHARE))
    tail = tail_of(text, room - int(room * _HEAD_SHARE))
    end, begin = head.rfind("\n") + 1, tail.find("\n") + 1
    if end and end >= len(head) * _WHOLE_LINES_SHARE:
        head = head[:end]
    if begin and begin <= len(tail) * (1 - _WHOLE_LINES_SHARE):
        tail = tail[begin:]
    line = note.text_line(total - len(head) - len(tail), total, len(head))
    return f"{head}{line}{tail}"


def head_of(text: str, allowed_bytes: int) -> str:
    """Return as many leading characters as fit."""
    data = text[:allowed_bytes].encode("utf-8", "surrogatepass")
    end = min(allowed_bytes, len(data))
    # Not between the bytes of one character.
    while 0 < end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def tail_of(text: str, allowed_bytes: int) -> str:
    """Return as many trailing characters as fit."""
    return head_of(text[-allowed_bytes:][::-1], allowed_bytes)[::-1] if allowed_bytes > 0 else ""


def path_to(path: str | None, step: str | int) -> str | None:
    """Return the path of an item or key of a value."""
    if path is None:
        return None
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _NAME.fullmatch(step):
        return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"


def parsed_json(text: str) -> Any | None:
    """Parse a JSON object or list; return `None` for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def written_json(value: Any) -> str:
    """Write a value as JSON, escaping non-ASCII characters only if they cannot be encoded."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if is_encodable(text) else json.dumps(value)


def cut_json(value: Any, allowed_bytes: int, note: CutNote) -> Any:
    """Shorten JSON to at most so many bytes; raise `ValueError` if it is no JSON, or too deep."""
    try:
        shorter = _Cutter(note, encode_basestring).root(value, allowed_bytes)
        text = json.dumps(shorter, ensure_ascii=False, allow_nan=False)
        if is_encodable(text):
            return shorter
        return _Cutter(note, encode_basestring_ascii).root(value, allowed_bytes)
    except (TypeError, RecursionError) as error:
        raise ValueError("it is not JSON, or nested too deeply") from error


@dataclass(slots=True)
class _Cutter:
    """Cuts one value; reads no more of each part than it could keep."""

    note: CutNote
    quoted: Callable[[str], str]
    _first: tuple[str, int] | None = None
    """The path of the first thing left out, and the position where it continues."""

    def root(self, value: Any, allowed: int) -> Any:
        if self._size(value, allowed) <= allowed:
            return value
        if not isinstance(value, Mapping):
            return self._list(cast("Sequence[Any]", value), allowed, self.note.base, 0)
        entries = cast("Mapping[str, Any]", value)
        key = CUT
        while key in entries:
            key += "_"
        longest_note = self._root_note("$" * _MAX_EXAMPLE_CHARACTERS, _FAR)
        taken = self._text_size(key) + self._text_size(longest_note) + 2 * _BETWEEN
        made = self._object(entries, allowed - taken, self.note.base, 0)
        return {**made, key: self._root_note(*(self._first or (self.note.base, None)))}

    def _size(self, value: Any, most: int, depth: int = 0) -> int:
        """Return the bytes of a value in JSON, or any number above `most` if it is larger."""
        if depth > _MAX_DEPTH:
            return abs(most) + _FAR
        if isinstance(value, str):
            return self._text_size(value) if len(value) <= most else abs(most) + _FAR
        if not isinstance(value, Mapping | list | tuple):
            return len(repr(value))
        size = 2
        names = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
        for item in cast("Sequence[Any]", value):
            if names is not None:
                size += self._text_size(item) + _BETWEEN
            inner = item if names is None else names[item]
            size += self._size(inner, most - size, depth + 1) + _BETWEEN
            if size > most + _BETWEEN:
                return size
        return max(2, size - _BETWEEN)

    def _text_size(self, text: str) -> int:
        return size_of_text(self.quoted(text))

    def _cut(self, value: Any, allowed: int, path: str | None, depth: int) -> Any:
        if self._size(value, allowed) <= allowed:
            return value
        if depth > _MAX_DEPTH:
            return _ELLIPSIS
        if isinstance(value, str):
            room = allowed - self._text_size(
                self.note.inner(f"{len(value)} characters", path, len(value))
            )
            if room <= 0:
                return self._head(value, allowed - self._text_size(_ELLIPSIS)) + _ELLIPSIS
            head = self._head(value, room)
            left = len(value) - len(head)
            return head + self._inner_note(f"{left} characters", path, len(head))
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[str, Any]", value), allowed, path, depth)
        if isinstance(value, list):
            return self._list(cast("Sequence[Any]", value), allowed, path, depth)
        return _ELLIPSIS

    def _head(self, text: str, room: int) -> str:
        head = text[: max(0, room)]
        while head and (size := self._text_size(head) - 2) > room:
            head = head[: min(len(head) - 1, len(head) * room // size)]
        return head

    def _root_note(self, path: str | None, start: int | None) -> str:
        read = self.note.to_read(path=path, start=start)
        return f"a part of this is left out; to read on, for example: {read}"

    def _inner_note(self, what: str, path: str | None, start: int) -> str:
        self._remember(path, start)
        return self.note.inner(what, path, start)

    def _remember(self, path: str | None, start: int) -> None:
        if self._first is None and path is not None and len(path) <= _MAX_EXAMPLE_CHARACTERS:
            self._first = (path, start)

    def _object(
        self, value: Mapping[str, Any], allowed: int, path: str | None, depth: int
    ) -> dict[str, Any]:
        more = self.note.inner(f"{len(value)} keys", path, len(value))
        room = allowed - 2 - self._text_size(more) - self._text_size(_ELLIPSIS) - 2 * _BETWEEN
        if room < 0:
            return {_ELLIPSIS: _ELLIPSIS}
        keys: list[str] = []
        for key, inner in value.items():
            frame = self._text_size(key) + 2 * _BETWEEN
            least = min(self._size(inner, _MIN_VALUE_BYTES), _MIN_VALUE_BYTES)
            if frame + least > room:
                break
            keys.append(key)
            room -= frame + least
        most = room + _MIN_VALUE_BYTES
        sizes = [max(0, self._size(value[key], most) - _MIN_VALUE_BYTES) for key in keys]
        made = {
            key: self._cut(value[key], extra + _MIN_VALUE_BYTES, path_to(path, key), depth + 1)
            for key, extra in zip(keys, share_room(sizes, room), strict=True)
        }
        if len(keys) < len(value) and _ELLIPSIS not in made:
            left = len(value) - len(keys)
            made[_ELLIPSIS] = self._inner_note(f"{left} keys", path, len(keys))
        return made

    def _list(self, value: Sequence[Any], allowed: int, path: str | None, depth: int) -> list[Any]:
        total = len(value)
        outermost = depth == 0
        longest_note = self._left_out(value, total, total, path, outermost=outermost)
        room = whole = allowed - 2 - self._size(longest_note, allowed) - _BETWEEN
        if room < 0 and not outermost:
            return [_ELLIPSIS]
        kept: list[Any] = []
        for item in value:
            size = self._size(item, room) + _BETWEEN
            if size > room:
                break
            kept.append(item)
            room -= size
        if len(kept) < total and room > whole * _CUT_ITEM_SHARE and room > _MIN_VALUE_BYTES:
            position = len(kept)
            inner = path_to(path, position)
            kept.append(self._cut(value[position], room - _BETWEEN, inner, depth + 1))
        left = total - len(kept)
        if left:
            self._remember(path, len(kept))
        if left or outermost:
            kept.append(self._left_out(value, left, len(kept), path, outermost=outermost))
        return kept

    def _left_out(
        self, value: Sequence[Any], left: int, start: int, path: str | None, *, outermost: bool
    ) -> Any:
        """Make the note at the end of a shortened list, of the same type as the items."""
        what = f"{left} of {len(value)} items" if left else "a part of the last item"
        if outermost:
            note = self.note.outer(f"{what} are" if left else f"{what} is", start if left else None)
        else:
            note = self.note.inner(what, path, start)
        is_of_objects = bool(value) and isinstance(value[0], Mapping)
        return {CUT if outermost else _ELLIPSIS: note} if is_of_objects else note


def share_room(sizes: Sequence[int], room: int) -> list[int]:
    """Divide room so that each gets its size; those for which it is too small get equal shares."""
    shares = [0] * len(sizes)
    left = max(0, room)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, position in enumerate(order):
        shares[position] = min(sizes[position], left // (len(sizes) - done))
        left -= shares[position]
    return shares


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
    kind = block.resource.mime_type if isinstance(block, types.EmbeddedResource) else None
    is_image = isinstance(block, types.ImageContent) or (kind or "").lower().startswith("image/")
    size = len(data_of(block))
    return min(size, _MAX_IMAGE_BYTES) if limit.bytes is None and is_image else size


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
    if counter is None or size > limit.tokens * _MAX_BYTES_PER_TOKEN:
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
    if is_same(text, structured):
        return index, lambda value: value
    wrapped = cast("Mapping[str, Any]", structured if isinstance(structured, Mapping) else {})
    inner = wrapped.get("result")
    if len(wrapped) == 1 and is_same(text, inner):
        return index, lambda value: {"result": value}
    return None


def cut_result(result: ToolResult, limit: Limit, allowed_bytes: int, note: CutNote) -> ToolResult:
    """Shorten content and structured content of a result to at most so many bytes."""
    same = repeating_text(result)
    blocks, structured = result.content, result.structured_content
    is_separate = structured is not None and same is None
    cutter = _BlockCutter(limit, note, several=len(blocks) + is_separate > 1)
    least = allowed_bytes // _STRUCTURED_SHARE
    if is_separate:
        taken = sum(cost_of(block, limit) for block in blocks)
        needed = size_of_text(json_text(structured))
        for_structured = min(needed, max(allowed_bytes - taken, least))
        content = cutter.blocks(blocks, allowed_bytes - for_structured)
        if needed > for_structured:
            structured = cutter.structured(structured, for_structured, block=len(blocks))
    else:
        content = cutter.blocks(blocks, allowed_bytes)
        if same is not None and content[same[0] :][:1] != blocks[same[0] :][:1]:
            # Structured content is shortened like the text that repeats it.
            index, wrap = same
            block = content[index] if index < len(content) else None
            text = block.text if isinstance(block, types.TextContent) else None
            value = None if text is None else parsed_json(text)
            if value is not None:
                structured = wrap(value)
            elif text is not None and wrap("") == {"result": ""}:
                structured = {"result": text}
            else:
                structured = cutter.structured(structured, least, block=index)
    metas = [result.meta, *(block.meta for block in content)]
    if sum(size_of_text(json_text(meta)) for meta in metas if meta) <= allowed_bytes:
        return replace(result, content=content, structured_content=structured)
    content = tuple(
        block if block.meta is None else block.model_copy(update={"meta": None})
        for block in content
    )
    return replace(result, content=content, structured_content=structured, meta=None)


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
        least: list[int] = []
        for index, (block, cost) in enumerate(zip(blocks, costs, strict=True)):
            # A block gets room for a line about it, a text for a useful piece of it.
            line = size_of_text(self._line(block, index))
            least.append(min(cost, line if text_of(block) is None else max(line, _MIN_TEXT_BYTES)))
        end, room = len(blocks), allowed
        if sum(least) > allowed:
            # The last blocks, for which not even that is left, share one line.
            room -= size_of_text(self.note.blocks_line(end, 2 * end))
            end = sum(used <= room for used in accumulate(least))
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
                text = _shortened_text(block.text, share, note)
                if text is not None:
                    return block.model_copy(update={"text": text})
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                text = _shortened_text(resource.text, share - size_of_text(resource.uri), note)
                if text is not None:
                    shorter = resource.model_copy(update={"text": text})
                    return block.model_copy(update={"resource": shorter})
            case _:
                pass
        return types.TextContent(text=self._line(block, index))

    def _line(self, block: types.ContentBlock, index: int) -> str:
        match block:
            case types.TextContent(text=text):
                what = f"text of {len(text)} characters"
            case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
                what = f"resource of {len(text)} characters"
            case _:
                size = len(data_of(block).rstrip("=")) * 3 // 4
                suffix = f" of {size} bytes" if size else ""
                what = label_of(block)[:_MAX_LABEL_CHARACTERS] + suffix
        return self.note.block_line(what, index)


def _shortened_text(text: str, share: int, note: CutNote) -> str | None:
    value = parsed_json(text)
    if value is not None:
        with suppress(ValueError):
            written = written_json(cut_json(value, share, note))
            if size_of_text(written) <= share:
                return written
    return cut_text(text, share, note)


_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\s"'*]+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<first>-?\d*)\s*:\s*(?P<last>-?\d*)\s*\]
      | (?P<all>\[\s*\*\s*\]|\.\*)
      | \[\s*(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""",
    re.VERBOSE,
)

Step = str | int | slice

_NOTE_BYTES = 300
"""Room for the line that says what was read, and what comes next."""
_CONTEXT_CHARACTERS = 80
"""Characters shown on either side of a match."""
_MAX_MATCHES = 50
"""A model that needs more of them continues behind the last."""


class PathError(ValueError):
    """A path is invalid, or has no value."""


def steps_of(path: str) -> list[Step]:
    """Parse a path, perhaps without its leading `$`; raise `PathError` if it is invalid."""
    rest = path.strip()
    if rest.startswith("$"):
        rest = rest[1:]
    elif rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise PathError(
                f"the path cannot be read from {rest[position : position + 20]!r} on; "
                'it is made of .name, ["name"], [0], [10:20] and [*]'
            )
        position = match.end()
        if match["name"] is not None:
            steps.append(match["name"])
        elif match["index"] is not None:
            steps.append(int(match["index"]))
        elif (quoted := match["key"]) is None:
            first, last = match["first"], match["last"]
            steps.append(slice(int(first) if first else None, int(last) if last else None))
        elif quoted.startswith("'"):
            steps.append(re.sub(r"\\(.)", r"\1", quoted[1:-1]))
        else:
            try:
                steps.append(json.loads(quoted))
            except ValueError as error:
                raise PathError(f"{quoted} is not a string") from error
    return steps


def is_single(path: str) -> bool:
    """Return whether a path selects one value, not a list of several."""
    return not any(isinstance(step, slice) for step in steps_of(path))


def select(value: Any, path: str) -> Any:
    """Return the value of a path, or the list of values after a range or `[*]`.

    Items without a value for the rest of the path are left out of the list.

    Raises:
        PathError: The path is invalid, or has no value.
    """
    return _select(value, steps_of(path), "$")


def _select(value: Any, steps: Sequence[Step], at: str) -> Any:
    for number, step in enumerate(steps):
        if not isinstance(step, slice):
            value = _inside(value, step, at)
            at = path_to(at, step) or at
            continue
        if not isinstance(value, list | Mapping):
            raise PathError(f"{at} is {describe(value)}, not a list")
        entries = cast("Mapping[str, Any] | list[Any]", value)
        items = entries if isinstance(entries, list) else list(entries.values())
        rest = steps[number + 1 :]
        selected: list[Any] = []
        missing: PathError | None = None
        for position, item in enumerate(items[step]):
            try:
                selected.append(_select(item, rest, f"{at}[{position}]"))
            except PathError as error:
                missing = error
        if missing is not None and not selected:
            raise missing
        return selected
    return value


def _inside(value: Any, step: str | int, at: str) -> Any:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        if step in entries:
            return entries[cast("str", step)]
        near = ", ".join(list(entries)[:10])
        raise PathError(f"{at} has no {step!r}; it has {len(entries)} keys: {near}"[:300])
    if isinstance(value, list) and isinstance(step, int):
        items = cast("list[Any]", value)
        if -len(items) <= step < len(items):
            return items[step]
        raise PathError(f"{at} has {len(items)} items; there is no [{step}]")
    expected = "a list" if isinstance(step, int) else "an object"
    raise PathError(f"{at} is {describe(cast('object', value))}, not {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The arguments of `read_more`, but for the handle."""

    block: int = 0
    """Structured content counts as the last block."""
    path: str | None = None
    start: int | None = None
    length: int | None = None
    find: str | None = None

    def range_of(self, total: int, unit: str) -> tuple[int, int]:
        """Return the first and the last position to read, if the range begins before the end."""
        start = self.start or 0
        if start > total or (start == total and total):
            raise InvalidArgumentsError(
                f"start={start} is behind the end: there are {total} {unit}"
            )
        return start, total if self.length is None else min(total, start + self.length)


Blocks: TypeAlias = "list[types.ContentBlock]"


def read_part(
    result: ToolResult, request: ReadRequest, limit: Limit, allowed_bytes: int, note: CutNote
) -> Blocks:
    """Return as much of the requested part as fits, and a line that says how to continue."""
    total = count_of_parts(result)
    if not 0 <= request.block < total:
        raise InvalidArgumentsError(
            f"there is no block {request.block}: the result has {total}, from 0 on"
        )
    allowed = allowed_bytes - _NOTE_BYTES
    note = replace(note, block=request.block if total > 1 else None)
    if request.find is not None:
        return _find(raw_text_of(result, request.block), request, allowed)
    if request.path is not None:
        if request.block == len(result.content):
            return _read_path(result.structured_content, request, allowed, note)
        if (value := parsed_json(raw_text_of(result, request.block))) is None:
            raise InvalidArgumentsError(
                f"block {request.block} is not JSON, so it has no paths: read it by start and "
                "length"
            )
        return _read_path(value, request, allowed, note)
    if request.start is None and request.length is None:
        # The block and as many after it as fit.
        blocks: Blocks = []
        room = allowed
        for block in result.content[request.block :]:
            room -= cost_of(block, limit)
            if room < 0:
                break
            blocks.append(_readable(block))
        if blocks:
            last = request.block + len(blocks) - 1
            following = f"; the next is block={last + 1}" if last + 1 < total else ""
            which = f"block {last}" if len(blocks) == 1 else f"blocks {request.block} to {last}"
            return [*blocks, _line(f"{which} of {total}, numbered from 0{following}")]
    return _read_text(raw_text_of(result, request.block), request, allowed)


def _readable(block: types.ContentBlock) -> types.ContentBlock:
    """Convert resources, which may be hidden from the model, to content that it reads."""
    if isinstance(block, types.ResourceLink):
        return types.TextContent(text=text_of(block) or "")
    if not isinstance(block, types.EmbeddedResource):
        return block
    converted = block_from_resource(block.resource)
    return block if isinstance(converted, types.EmbeddedResource) else converted


def _read_text(text: str, request: ReadRequest, allowed: int) -> Blocks:
    start, end = request.range_of(len(text), "characters")
    piece = text[start:end]
    if size_of_text(piece) > allowed:
        piece = head_of(piece, allowed)
    blank = " (blank)" if piece and not piece.strip() else ""
    position = _position("characters", start, start + len(piece), len(text), blank)
    return [types.TextContent(text=piece), position]


def _read_path(data: Any, request: ReadRequest, allowed: int, note: CutNote) -> Blocks:
    path = request.path or "$"
    try:
        value = select(data, path)
        note = replace(note, base=path if is_single(path) else None)
    except PathError as error:
        raise InvalidArgumentsError(str(error)) from error
    if isinstance(value, str):
        return _read_text(value, request, allowed)
    if isinstance(value, list):
        return _read_items(cast("list[Any]", value), request, allowed, note)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        start, end = request.range_of(len(entries), "keys")
        part = dict(list(entries.items())[start:end])
        shorter = cut_json(part, allowed, note)
        cut = "" if shorter is part else " (shortened)"
        line = _line(f"keys {start} to {end} of {len(entries)}{cut}")
        return [types.TextContent(text=written_json(shorter)), line]
    return [types.TextContent(text=written_json(value)), _line(f"the value at {path[:100]}")]


def _read_items(items: list[Any], request: ReadRequest, allowed: int, note: CutNote) -> Blocks:
    """Return whole items; only one that is too large by itself is cut."""
    start, end = request.range_of(len(items), "items")
    written: list[str] = []
    room = allowed - 2
    for item in items[start:end]:
        text = written_json(item)
        room -= size_of_text(text) + 2
        if room < 0:
            break
        written.append(text)
    shortened = ""
    if start < end and not written:
        item, base = items[start], None if note.base is None else f"{note.base}[{start}]"
        is_text = isinstance(item, str)
        shorter = cut_json([item] if is_text else item, allowed - 2, replace(note, base=base))
        written = [written_json(shorter[0] if is_text else shorter)]
        shortened = " (shortened: it is too large by itself)"
    position = _position("items", start, start + len(written), len(items), shortened)
    return [types.TextContent(text=f"[{', '.join(written)}]"), position]


def _find(text: str, request: ReadRequest, allowed: int) -> Blocks:
    """List the matches of a text, ignoring case, with their context."""
    pattern = re.compile(re.escape(request.find or ""), re.IGNORECASE)
    lines: list[str] = []
    room = allowed
    following: int | None = None
    for match in pattern.finditer(text, request.start or 0):
        begin = max(0, match.start() - _CONTEXT_CHARACTERS)
        context = text[begin : match.end() + _CONTEXT_CHARACTERS]
        line = f"start={match.start()}: {' '.join(context.split())}"
        room -= size_of_text(line) + 1
        if room < 0 or len(lines) == _MAX_MATCHES:
            following = match.start()
            break
        lines.append(line)
    more = "" if following is None else f"; there are more: start={following}"
    matches = types.TextContent(text="\n".join(lines) or "There is no match.")
    return [matches, _line(f"{len(lines)} places{more}")]


def _position(unit: str, start: int, end: int, total: int, remark: str) -> types.TextContent:
    following = f"; the next is start={end}" if end < total else "; this is the end"
    return _line(f"{unit} {start} to {end} of {total}{remark}{following}")


def _line(text: str) -> types.TextContent:
    return types.TextContent(text=f"[{text}]")


OWN_SERVER = "plait/results"
"""The server of the `read_more` tool; no configured server can have that name."""
READ_MORE = "read_more"
_MIN_BYTES = 600
"""Notes and the labels of blocks need so much."""
_MAX_TRIES = 12
"""Each takes a third off: the last is a hundredth of the limit."""


def _argument(kind: str, description: str, **limits: int) -> dict[str, Any]:
    return {"type": kind, **limits, "description": description}


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "handle": _argument("string", "The handle in the shortened result: r_…"),
        "block": _argument(
            "integer", "Which block of the result, from 0 on. By default the first.", minimum=0
        ),
        "path": _argument(
            "string", "For JSON: what to read, such as $.rows[100:200].name or $.rows[7]."
        ),
        "start": _argument(
            "integer",
            "Where to begin: a character of a text, an item of a list. By default 0.",
            minimum=0,
        ),
        "length": _argument(
            "integer", "How many characters or items. By default as many as fit.", minimum=1
        ),
        "find": _argument(
            "string", "Lists where this text occurs, instead of reading it.", minLength=1
        ),
    },
    "required": ["handle"],
    "additionalProperties": False,
}


class ResultLimiter:
    """Keeps the results of one client within its budget."""

    def __init__(
        self,
        budget: ResultBudget | None,
        servers: Mapping[str, ServerConfig],
        *,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the budget, and the servers, which may change and have budgets of their own."""
        self._budget = budget
        self._servers = servers
        self._counter = counter
        kept = budget or ResultBudget()
        # Kept until they expire unread, or until newer ones need their space.
        self._kept: TTLCache[str, _FullResult] = TTLCache(
            kept.keep_bytes,
            kept.keep_seconds,
            timer=(clock or SystemClock()).monotonic,
            getsizeof=lambda full_result: full_result.size_bytes,
        )
        self._lock = threading.Lock()

    @property
    def has_limits(self) -> bool:
        """Whether any result is limited."""
        own = (server.result_budget for server in self._servers.values())
        budgets = [budget for budget in (self._budget, *own) if budget is not None]
        return any(
            not limit.is_none
            for budget in budgets
            for limit in (budget.default, *budget.tools.values())
            if limit is not None
        )

    def limits(self, server: str) -> bool:
        """Return whether any result of a server is limited."""
        return self._budget is not None or self._own_budget(server) is not None

    def _own_budget(self, server: str) -> ResultBudget | None:
        return None if (own := self._servers.get(server)) is None else own.result_budget

    def read_more_tool(self, name: str = READ_MORE) -> Tool:
        """Describe the tool that reads full results."""
        return Tool(
            server=OWN_SERVER,
            wire_name=READ_MORE,
            name=name,
            description="Read what is left out of a result that was too large and is shortened. "
            "The result names its handle.",
            input_schema=_SCHEMA,
            annotations={"read_only_hint": True, "idempotent_hint": True},
        )

    async def limited(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shortened one with notes on how to read the rest."""
        limit = limit_for(call.server, call.tool, self._own_budget(call.server), self._budget)
        if limit is None:
            return result

        def shortened() -> ToolResult:
            if is_within(result, limit, self._counter):
                return result
            # 80 random bits: whoever has the handle may ask for the result.
            handle = f"r_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"
            note = CutNote(handle, reader)
            shorter = self._fit(lambda allowed: cut_result(result, limit, allowed, note), limit)
            size = sum(len(raw_text_of(result, part)) for part in range(count_of_parts(result)))
            with self._lock, contextlib.suppress(ValueError):  # larger than all there is room for
                self._kept[handle] = _FullResult(result, call.server, _owner_of(call), limit, size)
            return replace(shorter, full_result=handle)

        return await _process(result, shortened)

    def _fit(self, make: Callable[[int], ToolResult], limit: Limit) -> ToolResult:
        """Make a result that is within the limit also if the token counter exceeds the estimate."""
        allowed = limit.most_bytes
        result = make(allowed)
        for _ in range(_MAX_TRIES):
            has_room = self._counter is not None and allowed > _MIN_BYTES
            if not has_room or is_within(result, limit, self._counter):
                break
            allowed = max(_MIN_BYTES, allowed * 2 // 3)
            result = make(allowed)
        return result

    def _full_result(self, handle: str, reader: _Owner | None = None) -> _FullResult:
        """Return what is kept for a reader, and keep it for the full time again."""
        with self._lock:
            full_result = self._kept.get(handle)
            if full_result is None or not (reader is None or full_result.may_be_read_by(reader)):
                raise _expired_error(handle)
            self._kept[handle] = full_result
        return full_result

    def full_result(self, handle: str) -> ToolResult:
        """Return a full result without checking its owner, or raise `ResultExpiredError`."""
        return self._full_result(handle).result

    def server_of(self, handle: object) -> str | None:
        """Return the server that was called for a result, if the result is kept."""
        with self._lock:
            full_result = self._kept.get(handle) if isinstance(handle, str) else None
        return None if full_result is None else full_result.server

    async def answer_read_more(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of the `read_more` tool; the answer is within the limit, too."""
        arguments = dict(await checked_arguments(_SCHEMA, call.arguments, tool=call.tool))
        handle = str(arguments.pop("handle"))
        full_result = self._full_result(handle, _owner_of(call))
        result, limit = full_result.result, full_result.limit
        request, note = ReadRequest(**arguments), CutNote(handle, reader)

        def read(allowed: int) -> ToolResult:
            content = tuple(read_part(result, request, limit, allowed, note))
            return ToolResult(server=result.server, tool=READ_MORE, is_error=False, content=content)

        return await _process(result, lambda: self._fit(read, limit))


def _owner_of(call: ToolCall) -> _Owner:
    access = "" if call.access is None else call.access.key
    return _Owner(access, None if call.run is None else call.run.thread)


async def _process(result: ToolResult, work: Callable[[], ToolResult]) -> ToolResult:
    """Process a result, in a thread if it is large."""
    texts = [text_of(block) for block in result.content]
    parts = {"texts": texts, "structured": result.structured_content}
    return await in_thread(work) if is_large(parts) else work()


def _expired_error(handle: str) -> ResultExpiredError:
    return ResultExpiredError(
        f"no result is kept under {handle[:40]!r} (any more); call the tool again that returned it"
    )


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose call a result came from."""

    access: str
    """The key of the credentials; empty for the server's own."""
    thread: str | None
    """The conversation, if it is known."""


@dataclass(frozen=True, slots=True)
class _FullResult:
    """A full result, and who may read it."""

    result: ToolResult = field(repr=False)
    server: str
    """The server that was called; its fallback may have answered."""
    owner: _Owner = field(repr=False)
    limit: Limit
    size_bytes: int

    def may_be_read_by(self, other: _Owner) -> bool:
        """Say whether a caller has the same credentials, and is in the same conversation."""
        return self.owner.access == other.access and self.owner.thread in (None, other.thread)
