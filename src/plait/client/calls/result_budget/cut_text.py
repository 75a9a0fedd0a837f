"""Cutting text: its head and its tail stay, with one line between them."""

from __future__ import annotations

from plait.client.calls.result_budget.marks import Mark

_HEAD_SHARE = 2 / 3
"""Most texts say at their beginning what they are; logs say at their end what went wrong."""

_WHOLE_LINES_SHARE = 0.8
"""A cut is moved to the end of a line if that keeps so much of the piece."""


def size_of_text(text: str) -> int:
    """Return the bytes of a text in UTF-8; half a surrogate pair counts like a character."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut_text(text: str, allowed_bytes: int, mark: Mark) -> str | None:
    """Shorten a text to so many bytes, or return `None` if not even the line fits."""
    if size_of_text(text) <= allowed_bytes:
        return text
    total = len(text)
    room = allowed_bytes - size_of_text(mark.text_line(total, total, total))
    if room < 0:
        return None
    head = _whole_lines(head_of(text, int(room * _HEAD_SHARE)))
    tail = _whole_last_lines(tail_of(text, room - int(room * _HEAD_SHARE)))
    line = mark.text_line(total - len(head) - len(tail), total, len(head))
    return f"{head}{line}{tail}"


def head_of(text: str, allowed_bytes: int) -> str:
    """Return as many characters from the beginning as fit into so many bytes."""
    data = text[:allowed_bytes].encode("utf-8", "surrogatepass")
    end = min(allowed_bytes, len(data))
    while 0 < end < len(data) and _is_continuation(data[end]):
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def tail_of(text: str, allowed_bytes: int) -> str:
    """Return as many characters from the end as fit into so many bytes."""
    if allowed_bytes <= 0:
        return ""
    data = text[-allowed_bytes:].encode("utf-8", "surrogatepass")
    begin = max(0, len(data) - allowed_bytes)
    while begin < len(data) and _is_continuation(data[begin]):
        begin += 1
    return data[begin:].decode("utf-8", "surrogatepass")


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _whole_lines(head: str) -> str:
    end = head.rfind("\n") + 1
    return head[:end] if end and end >= len(head) * _WHOLE_LINES_SHARE else head


def _whole_last_lines(tail: str) -> str:
    begin = tail.find("\n") + 1
    return tail[begin:] if 0 < begin <= len(tail) * (1 - _WHOLE_LINES_SHARE) else tail
