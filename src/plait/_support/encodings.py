"""The encodings of a value: quoted, escaped, base64, line by line."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

_SHORTEST_ENCODED = 6
"""Encodings of shorter values could occur in other words by chance."""

_SHORTEST_LINE = 8
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def _with_small_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].lower(), quote(text, safe=""))


_QUOTINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: repr(text.encode())[2:-1],
    lambda text: shlex.quote(text).removeprefix("'").removesuffix("'"),
    html.escape,
    lambda text: html.escape(text, quote=False),
    quote,
    lambda text: quote(text, safe=""),
    quote_plus,
    _with_small_escapes,
)


def encoded_forms(value: str) -> frozenset[str]:
    """Return the value and its forms in JSON, a URL, HTML, a `repr` or base64."""
    found = {value, value.strip()}
    if len(value) < _SHORTEST_ENCODED:
        return frozenset(found)
    found.update(line for line in map(str.strip, value.splitlines()) if len(line) >= _SHORTEST_LINE)
    plain = {*found, quote(value, safe="")}
    for _ in range(2):  # twice: JSON is often quoted inside JSON
        found.update(quoted(text) for text in tuple(found) for quoted in _QUOTINGS)
    found.update(part for text in plain for part in _encoded(text))
    return frozenset(found)


def _encoded(text: str) -> Iterator[str]:
    """Yield the base64 forms of a text at any offset in a longer one.

    Without the characters at either end, which also depend on the surrounding text.
    """
    data = text.encode("utf-8", "surrogatepass")
    for offset in range(3):
        inner = base64.b64encode(bytes(offset) + data)
        first = (0, 2, 3)[offset]
        last = (offset + len(data)) * 8 // 6
        part = inner[first:last].decode()
        if len(part) >= _SHORTEST_ENCODED:
            yield part
            yield part.translate(str.maketrans("+/", "-_"))
