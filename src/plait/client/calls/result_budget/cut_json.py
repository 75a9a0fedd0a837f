"""Cuts texts and JSON to a size, with notes about what is left out; JSON keeps its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

from plait.client.calls.outcome import is_encodable

CUT = "plait/cut"
"""The key of the note in a shortened object."""
_LONGEST_PATH = 200
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
_LONGEST_FIRST = 60
"""The longest path that the note at the root names."""
_LEAST_VALUE = 24
"""A key is kept if at least so much of its value, or all of it, fits; every cut value can be
shorter."""
_DEEPEST = 60
"""Values nested more deeply are left out, to bound recursion."""
_CUT_ITEM_SHARE = 0.5
"""An item that does not fit is cut, not left out, if it gets at least this share of the list."""
_NAME = re.compile(r"[^\W\d]\w*")


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
        where = "" if path is None or len(path) > _LONGEST_PATH else f", path={path}"
        return f"…[{what} left out{where}, start={start}]"

    def outer(self, what: str, start: int | None) -> str:
        """Note, at the root of a value, what is left out, and how to read it."""
        path = self.base if self.base is None or len(self.base) <= _LONGEST_PATH else None
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
    while 0 < end < len(data) and _is_continuation(data[end]):
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def tail_of(text: str, allowed_bytes: int) -> str:
    """Return as many trailing characters as fit."""
    if allowed_bytes <= 0:
        return ""
    data = text[-allowed_bytes:].encode("utf-8", "surrogatepass")
    begin = max(0, len(data) - allowed_bytes)
    while begin < len(data) and _is_continuation(data[begin]):
        begin += 1
    return data[begin:].decode("utf-8", "surrogatepass")


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


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
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


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
        if isinstance(value, Mapping):
            return self._root_object(cast("Mapping[str, Any]", value), allowed)
        return self._list(cast("Sequence[Any]", value), allowed, self.note.base, 0)

    def _size(self, value: Any, most: int, depth: int = 0) -> int:
        """Return the bytes of a value in JSON, or any number above `most` if it is larger."""
        if depth > _DEEPEST:
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
        if depth > _DEEPEST:
            return _ELLIPSIS
        if isinstance(value, str):
            return self._text(value, allowed, path)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[str, Any]", value), allowed, path, depth)
        if isinstance(value, list):
            return self._list(cast("Sequence[Any]", value), allowed, path, depth)
        return _ELLIPSIS

    def _text(self, text: str, allowed: int, path: str | None) -> str:
        room = allowed - self._text_size(
            self.note.inner(f"{len(text)} characters", path, len(text))
        )
        if room <= 0:
            return self._head(text, allowed - self._text_size(_ELLIPSIS)) + _ELLIPSIS
        head = self._head(text, room)
        left = len(text) - len(head)
        return head + self._inner_note(f"{left} characters", path, len(head))

    def _head(self, text: str, room: int) -> str:
        head = text[: max(0, room)]
        while head and (size := self._text_size(head) - 2) > room:
            head = head[: min(len(head) - 1, len(head) * room // size)]
        return head

    def _root_object(self, value: Mapping[str, Any], allowed: int) -> dict[str, Any]:
        key = CUT
        while key in value:
            key += "_"
        longest_note = self._root_note("$" * _LONGEST_FIRST, _FAR)
        taken = self._text_size(key) + self._text_size(longest_note) + 2 * _BETWEEN
        made = self._object(value, allowed - taken, self.note.base, 0)
        return {**made, key: self._root_note(*(self._first or (self.note.base, None)))}

    def _root_note(self, path: str | None, start: int | None) -> str:
        read = self.note.to_read(path=path, start=start)
        return f"a part of this is left out; to read on, for example: {read}"

    def _inner_note(self, what: str, path: str | None, start: int) -> str:
        self._remember(path, start)
        return self.note.inner(what, path, start)

    def _remember(self, path: str | None, start: int) -> None:
        if self._first is None and path is not None and len(path) <= _LONGEST_FIRST:
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
            least = min(self._size(inner, _LEAST_VALUE), _LEAST_VALUE)
            if frame + least > room:
                break
            keys.append(key)
            room -= frame + least
        most = room + _LEAST_VALUE
        sizes = [max(0, self._size(value[key], most) - _LEAST_VALUE) for key in keys]
        made = {
            key: self._cut(value[key], extra + _LEAST_VALUE, path_to(path, key), depth + 1)
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
        if len(kept) < total and room > whole * _CUT_ITEM_SHARE and room > _LEAST_VALUE:
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
