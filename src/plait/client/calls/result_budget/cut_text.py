"""Cuts text to a size, and writes the notes that say what is left out and how to read it."""

from __future__ import annotations

import json
from dataclasses import dataclass

CUT = "plait/cut"
"""The key of the note in a shortened object."""
_LONGEST_PATH = 200
"""A longer path is left out of notes."""
_HEAD_SHARE = 2 / 3
"""The beginning identifies most texts; logs have the failure at their end."""
_WHOLE_LINES_SHARE = 0.8
"""A cut is moved to the end of a line if that keeps at least this share of the piece."""


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
