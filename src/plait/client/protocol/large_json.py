"""Parses large JSON in parts, so that no single call holds the interpreter for long.

A parser in C holds the GIL from the first byte to the last: 60 MB of escapes would stop every
thread for a third of a second, whichever thread parses them.
"""

from __future__ import annotations

import re
import secrets
import sys
from typing import Any, Final

from pydantic_core import from_json

from plait._support.garbage import collection_paused

LARGE_BYTES: Final = 1024 * 1024
"""Smaller messages are parsed at once."""

_PART_BYTES: Final = 256 * 1024
"""How much is searched, or parsed, at a time."""
_TEXT_BYTES: Final = 1024 * 1024
"""How much of a long text is parsed at a time; smaller pieces take more memory."""
_LONGEST_BYTES: Final = 4 * _PART_BYTES
"""What has no place to cut for so long is a number, a name or white space without end."""
_MOST_LEVELS: Final = 200
"""Deeper JSON is refused, as by the parser."""
_QUICK_BYTES: Final = 16_000_000
_QUICK_NANOSECONDS: Final = 40_000_000
"""JSON that is parsed in this time is not cut."""
_VALUE_NANOSECONDS: Final = 140
_ESCAPE_NANOSECONDS: Final = 12
_VALUE_BYTES: Final = 100
"""The memory of a value, without its text."""
_SPARE_BYTES: Final = 64_000_000
"""How much more memory than its limit a message may take while it is parsed."""

_STRUCTURE: Final = re.compile(rb"[][{},]")
_WIDE: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD]")
_NOT_PLAIN: Final = re.compile(rb"[\\\x00-\x1f]")
_COLON: Final = re.compile(rb"[ \t\r\n]*:")
_HALF_ESCAPE: Final = re.compile(
    rb"(?:\\u[dD][89abAB]..)?\\(?:u.{0,3})?\Z|\\u[dD][89abAB]..\Z", re.DOTALL
)
"""An escape at the end of a part that needs what follows; a pair of surrogates stays together."""
_HALF_ESCAPE_BYTES: Final = 12
_MARK: Final = secrets.token_hex(16)
"""Stands for what is next to the entries that are parsed; no server knows it."""
_MARK_JSON: Final = f'"{_MARK}"'.encode()


class LimitError(Exception):
    """A message is not parsed; the text names the limit."""


def too_many_values(most: int) -> str:
    """Explain that a message is not parsed, and what would permit it."""
    return f"the server sent a message of more than {most:,} values (raise `values` in `limits`)"


def too_much_memory(most_bytes: int) -> str:
    """Explain that a message is not parsed because of what would become of it."""
    return (
        "the server sent a message that takes several times its size in memory "
        f"(`message_bytes` in `limits` is {most_bytes:,})"
    )


def parse_large(body: bytes, most_values: int, most_bytes: int) -> Any:
    """Parse JSON of any size and shape, in parts that take a few milliseconds each.

    Raises:
        ValueError: It is not JSON.
        LimitError: It has more values than `most_values`, or would take far more memory than
            `most_bytes`.
    """
    with collection_paused():
        if _is_quick(body, most_values):
            return from_json(body)
        return _Message(body, most_values, most_bytes).parse()


def _is_quick(body: bytes, most_values: int) -> bool:
    is_small = len(body) <= _QUICK_BYTES
    return is_small and _openings(body) < most_values and _cost(body) < _QUICK_NANOSECONDS


def _cost(body: bytes) -> int:
    """Estimate how many nanoseconds it takes to parse JSON as a whole."""
    per_byte = 1 if body.isascii() else 3
    escapes = body.count(b"\\") * _ESCAPE_NANOSECONDS
    return len(body) * per_byte + escapes + _openings(body) * _VALUE_NANOSECONDS


def _openings(body: bytes) -> int:
    """Count the values of JSON, and what looks like values in its texts."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


class _Container:
    """An array or object whose end was not found yet."""

    __slots__ = ("before", "is_list", "pending", "start", "value")

    def __init__(self, start: int, *, is_list: bool) -> None:
        self.start = start
        self.is_list = is_list
        self.pending = start + 1
        """Where its entries begin that are not parsed yet."""
        self.before = b""
        """Stands for the entries that are parsed."""
        self.value: Any = None
        """Its parsed entries; `None` if it may be parsed with its neighbours."""


class _Message:
    """A message: what is small is parsed with its neighbours, what is large entry by entry."""

    def __init__(self, body: bytes, most_values: int, most_bytes: int) -> None:
        self._body = body
        self._most_values = most_values
        self._values = 0
        self._most_bytes = most_bytes
        self._room = most_bytes + max(2 * most_bytes, _SPARE_BYTES) - len(body)
        """How many bytes may still be made of the message."""
        self._open = [_Container(-1, is_list=True)]

    def parse(self) -> Any:
        start, text_start, in_text = 0, 0, False
        while start < len(self._body):
            part = self._part(start, start + _PART_BYTES)
            at = start
            for piece in part.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"'):
                if at > start:  # after a quote
                    in_text = not in_text
                    if in_text:
                        text_start = at
                    elif at - text_start > _PART_BYTES:
                        self._take_text(text_start, at - 1)
                if not in_text:
                    self._take_structure(piece, at)
                at += len(piece) + 1
            start += len(part)
        root = self._open.pop()
        if in_text or self._open:
            raise ValueError("the end is missing")
        self._parse_entries(root, len(self._body))
        if len(root.value) != 1:
            raise ValueError("not one value")
        return root.value[0]

    def _part(self, start: int, end: int) -> bytes:
        """Return a part of the body that does not end between a backslash and what it escapes."""
        part = self._body[start:end]
        is_cut = (len(part) - len(part.rstrip(b"\\"))) % 2
        return self._body[start : end + 1] if is_cut else part

    def _take_structure(self, piece: bytes, at: int) -> None:
        """Take the brackets and commas of a piece that is in no text."""
        for found in _STRUCTURE.finditer(piece):
            position, sign = at + found.start(), found[0]
            if sign == b",":
                self._values += 1
                if position - self._open[-1].pending > _PART_BYTES:
                    self._parse_entries(self._open[-1], position, b"," + _MARK_JSON)
                    self._open[-1].pending += 1
                    self._open[-1].before += b","
            elif sign in b"[{":
                self._values += 1
                self._open.append(_Container(position, is_list=sign == b"["))
                if len(self._open) > _MOST_LEVELS:
                    raise ValueError("nested too deeply")
            else:
                self._close(position, is_list=sign == b"]")
        if self._values > self._most_values:
            raise LimitError(too_many_values(self._most_values))

    def _close(self, position: int, *, is_list: bool) -> None:
        closed = self._open.pop()
        if not self._open or closed.is_list is not is_list:
            raise ValueError("a bracket is closed that was not opened")
        if closed.value is not None or position - closed.start > _PART_BYTES:
            self._parse_entries(closed, position)
            self._add(closed.value, closed.start, position + 1)

    def _take_text(self, start: int, end: int) -> None:
        """Take a long text, which is between these quotes."""
        if _COLON.match(self._body, end + 1, end + _PART_BYTES) is None:
            self._add(self._text(start, end), start - 1, end + 1)

    def _add(self, value: object, start: int, end: int) -> None:
        """Add a value that was parsed by itself to the array or object it is in."""
        container = self._open[-1]
        key = self._parse_entries(container, start, _MARK_JSON, has_key=True)
        if container.is_list:
            container.value.append(value)
        else:
            container.value[key] = value
        container.pending, container.before = end, _MARK_JSON

    def _parse_entries(
        self, container: _Container, end: int, after: bytes = b"", *, has_key: bool = False
    ) -> str | None:
        """Parse the entries up to `end`, where `after` stands for what follows.

        Return the key of what follows, if it has one.
        """
        raw = self._body[container.pending : end]
        if len(raw) > _LONGEST_BYTES:
            raise ValueError("a number, a name or white space is too long")
        self._reserve(raw)
        container.pending = end
        if container.is_list:
            entries = from_json(b"".join((b"[", container.before, raw, after, b"]")))
            first, last = bool(container.before), len(entries) - bool(after)
            container.value = container.value or []
            container.value += entries[first:last]
            container.before = _MARK_JSON if container.value or after else b""
            return None
        before = container.before.replace(_MARK_JSON, _MARK_JSON + b":0")
        ending = after if has_key else after.replace(_MARK_JSON, _MARK_JSON + b":0")
        members = from_json(b"".join((b"{", before, raw, ending, b"}")))
        members.pop(_MARK, None)
        key = next(name for name, value in members.items() if value == _MARK) if has_key else None
        if key is not None:
            del members[key]
        container.value = container.value or {}
        container.value |= members
        container.before = _MARK_JSON
        return key

    def _text(self, start: int, end: int) -> str:
        if self._is_plain(start, end):
            self._room -= end - start
            if self._room < 0:
                raise LimitError(too_much_memory(self._most_bytes))
            return str(memoryview(self._body)[start:end], "ascii")  # without another copy
        pieces: list[str] = []
        length, width = 0, 1
        while start < end:
            part = self._text_part(start, end)
            pieces.append(from_json(b'"%b"' % part))
            start += len(part)
            length += len(pieces[-1])
            width = max(width, _width(pieces[-1]))
            self._room -= sys.getsizeof(pieces[-1])
            if length * width > self._room:
                raise LimitError(too_much_memory(self._most_bytes))
        return "".join(pieces)

    def _is_plain(self, start: int, end: int) -> bool:
        """Return whether a text is what its bytes are."""
        parts = (
            self._body[at : min(at + _TEXT_BYTES, end)] for at in range(start, end, _TEXT_BYTES)
        )
        return all(part.isascii() and _NOT_PLAIN.search(part) is None for part in parts)

    def _text_part(self, start: int, end: int) -> bytes:
        """Return the next part of a text, which ends between two characters."""
        stop = start + _TEXT_BYTES
        if stop >= end:
            return self._body[start:end]
        while self._body[stop] & 0xC0 == 0x80 and stop > start + _TEXT_BYTES - 4:
            stop -= 1
        part = self._part(start, stop)
        plain = part.replace(b"\\\\", b"__")
        half = _HALF_ESCAPE.search(plain, len(plain) - _HALF_ESCAPE_BYTES)
        return part if half is None else part[: half.start()]

    def _reserve(self, raw: bytes) -> None:
        """Count the memory that is made of the entries, and of all values so far."""
        is_plain = raw.isascii() and b"\\u" not in raw
        self._room -= len(raw) * (1 if is_plain else 4 if _WIDE.search(raw) else 2)
        if self._room < self._values * _VALUE_BYTES:
            raise LimitError(too_much_memory(self._most_bytes))


def _width(text: str) -> int:
    """Return how many bytes each character of a text takes."""
    if text.isascii():
        return 1
    widest = ord(max(text))
    return 1 if widest < 1 << 8 else 2 if widest < 1 << 16 else 4
