"""Finds JSON-RPC messages in the lines that servers write.

A line may hold a banner, a byte order mark, half of another line, invalid UTF-8, or two messages.
What is not a message is noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()
_MOST_FAILURES = 64
"""How many positions of a noisy line are tried as the start of a message."""
_SIGN = '{"jsonrpc"'
"""The start of nearly all messages."""
_PADDING = "\ufeff \t\r\n\0"
"""Characters around a message that are not noise."""


@dataclass(frozen=True, slots=True)
class Framed:
    """The messages of one line, and whether it held anything else."""

    messages: tuple[JSONRPCMessage, ...]
    noise: bool = False


def frames_of(line: bytes, *, encoding: str = "utf-8", errors: str = "replace") -> Framed:
    """Find the messages in one line; never raises."""
    line = line.strip().removeprefix(_BOM)
    if not line:
        return Framed(())
    if encoding == "utf-8":
        try:
            return Framed((jsonrpc_message_adapter.validate_json(line, by_name=False),))
        except ValidationError:
            pass
    try:
        return _search(line.decode(encoding, errors))
    except UnicodeError:
        return Framed((), noise=True)


def parse_message(text: str | bytes) -> Framed:
    """Find the messages in one frame of a transport that frames by itself."""
    return frames_of(text.encode("utf-8", "replace") if isinstance(text, str) else text)


def _search(text: str) -> Framed:
    """Look for JSON objects anywhere in the line."""
    messages: list[JSONRPCMessage] = []
    noise = False
    surrogates = "\\ud" in text or "\\uD" in text
    position, failures = 0, 0
    while failures < 2 * _MOST_FAILURES and (start := _next_start(text, position)) is not None:
        noise = noise or bool(text[position:start].strip(_PADDING))
        found: list[JSONRPCMessage] = []
        try:
            value, position = _DECODER.raw_decode(text, start)
            value = _encodable(value) if surrogates else value
            found = [message for item in _batch(value) if (message := _message(item)) is not None]
        except (ValueError, RecursionError):
            position = start + 1
        if not found:
            failures += 1
            noise = True
            if failures >= _MOST_FAILURES:
                # In so much noise, only try what looks like a message.
                sign = text.find(_SIGN, position)
                if sign < 0:
                    break
                position = sign
        messages.extend(found)
    noise = noise or bool(text[position:].strip(_PADDING))
    return Framed(tuple(messages), noise)


def _next_start(text: str, position: int) -> int | None:
    """Find the next object, or the array it opens."""
    start = text.find("{", position)
    if start < 0:
        return None
    return start - 1 if start > position and text[start - 1] == "[" else start


def _encodable(value: object) -> object:
    """Replace lone surrogates, which JSON can encode and UTF-8 cannot."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _batch(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _message(value: object) -> JSONRPCMessage | None:
    if isinstance(value, dict) and "result" in value and value["result"] is None:
        value = {**cast("dict[str, Any]", value), "result": {}}
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return None
