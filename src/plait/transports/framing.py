"""JSON-RPC messages out of the lines that servers really write.

A line may hold a banner, a byte order mark, half of another line, bytes that are no UTF-8, or two
messages. What is a message is found; the rest is noise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError

_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()
_MOST_CANDIDATES = 16
"""How many places of a noisy line are tried as the start of a message."""


@dataclass(frozen=True, slots=True)
class Framed:
    """The messages of one line, and whether there was anything else in it."""

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
    return _search(line.decode(encoding, errors))


def parse_message(text: str | bytes) -> Framed:
    """Find the messages in one frame of a transport that frames by itself."""
    return frames_of(text.encode() if isinstance(text, str) else text)


def _search(text: str) -> Framed:
    """Look for JSON objects anywhere in the line."""
    messages: list[JSONRPCMessage] = []
    noise = False
    position, candidates = 0, 0
    while candidates < _MOST_CANDIDATES:
        start = _next_start(text, position)
        if start is None:
            break
        noise = noise or bool(text[position:start].strip("\ufeff \t\r\0"))
        candidates += 1
        try:
            value, position = _DECODER.raw_decode(text, start)
        except ValueError:
            noise = True
            position = start + 1
            continue
        found = [message for one in _batch(value) if (message := _message(one)) is not None]
        noise = noise or not found
        messages.extend(found)
    noise = noise or bool(text[position:].strip())
    return Framed(tuple(messages), noise)


def _next_start(text: str, position: int) -> int | None:
    starts = [at for opening in ("{", "[{") if (at := text.find(opening, position)) >= 0]
    return min(starts, default=None)


def _batch(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _message(value: object) -> JSONRPCMessage | None:
    if isinstance(value, dict) and "result" in value and value["result"] is None:
        value = {**cast("dict[str, Any]", value), "result": {}}
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return None
