"""Cuts JSON that is nested more deeply than parsers and later steps can handle."""

from __future__ import annotations

import re
from typing import Final

NESTED_NOTE: Final = "the answer was nested too deeply, and was cut"

_MOST_LEVELS: Final = 100
_MOST_BYTES: Final = 256 * 1024
"""Longer messages are left as they are, because looking at every bracket takes time."""
_CUT: Final = b'"(nested too deeply)"'
_BRACKETS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|([\[{]+|[\]}]+)', re.DOTALL)
"""A string, which may end with the body, or brackets: from a quote on there is always a match, so
that no part of a body is read twice."""


def shallow(body: bytes) -> bytes:
    """Return JSON with what is nested too deeply replaced by a text; the same object if nothing is.

    Takes linear time, whatever the body holds.
    """
    if len(body) > _MOST_BYTES:
        return body
    kept: list[bytes] = []
    level = end = 0
    for found in _BRACKETS.finditer(body):
        brackets: bytes | None = found[1]
        if brackets is None:
            continue  # a string
        start, count = found.start(), len(brackets)
        if brackets[0] in b"[{":
            if level <= _MOST_LEVELS < level + count:
                kept += [body[end : start + _MOST_LEVELS - level], _CUT]
            level += count
        else:
            if level - count <= _MOST_LEVELS < level:
                end = start + level - _MOST_LEVELS
            level -= count
    if not kept:
        return body
    return b"".join([*kept, body[end:]])
