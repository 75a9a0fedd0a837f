"""Messages of servers, and ways to spoil them; `$ID` stands for the id of the request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "text", "text": "hello"}
_RESULTS: list[Json] = [
    {"content": [_TEXT]},
    {"content": [_TEXT], "structuredContent": {"a": [1, {"b": None}]}, "isError": False},
    {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
    {"content": [{"type": "resource_link", "name": "n", "uri": "file:///x", "size": 3}]},
    {"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": "t"}}]},
    {"resultType": "complete", "content": [_TEXT], "_meta": {"k": "v"}},
    {"resultType": "input_required", "inputRequests": {}, "requestState": "s"},
]
_TOOLS: list[Json] = [
    {
        "name": "raw",
        "description": "d",
        "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "odd", "inputSchema": {"type": "object", "patternProperties": {"^(a+)+$": {}}}},
]
_OTHERS: list[Json] = [
    {"method": "notifications/progress", "params": {"progressToken": "$ID", "progress": 1}},
    {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}},
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/cancelled", "params": {"requestId": "$ID"}},
    {"method": "elicitation/create", "id": 7, "params": {"message": "m", "requestedSchema": {}}},
    {"method": "sampling/createMessage", "id": 8, "params": {"messages": [], "maxTokens": 1}},
    {"method": "roots/list", "id": 9},
    {"method": "ping", "id": 10},
    {"id": "$ID", "error": {"code": -32000, "message": "no", "data": [1]}},
]
_MOST_PLACES = 2000
_MOST_BYTES = 200_000
_ODD: list[object] = [
    None, True, -1, 0, 1e308, 10**400, "", "\ud800", "\x00", "x" * 5000, [], {}, [[]], [None],
    {"$ref": {"a": 1}}, {"": ""}, "NaN", "$ID", 2**63, -(2**63) - 1,
]  # fmt: skip
_BYTES: list[bytes] = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n", b"{", b"}", b"]", b'"', b"\\u",
    b"NaN", b"Infinity", b"1e999", b"[" * 300, b'{"a":' * 1200, b"\xed\xa0\x80", b": ", b"data: ",
]  # fmt: skip


def messages(target: str) -> list[Json]:
    """Return the messages that a server may send in answer to a call or a list."""
    answers: list[Json]
    if target == "list":
        page: Json = {"tools": _TOOLS, "nextCursor": None, "ttlMs": 0, "cacheScope": "private"}
        answers = [{"id": "$ID", "result": page}, {"id": "$ID", "result": {**page, "tools": []}}]
    else:
        answers = [{"id": "$ID", "result": result} for result in _RESULTS]
    return [{"jsonrpc": "2.0", **one} for one in (*answers, *_OTHERS)]


def frames(chance: random.Random, target: str) -> list[bytes]:
    """Return a few spoiled frames, in which the id is still to be filled in."""
    return [_frame(chance, target) for _ in range(chance.choice((1, 1, 2, 4)))]


def _frame(chance: random.Random, target: str) -> bytes:
    message: object = json.loads(json.dumps(chance.choice(messages(target))))
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        message = chance.choice(_CHANGES)(chance, message)
    try:
        frame = _encoded(message)
    except (RecursionError, ValueError):  # a message that holds itself, or much
        frame = b"[" * 5000
    for _ in range(chance.choice((0, 0, 1, 3))):
        frame = chance.choice(_SPOILS)(chance, frame)
    return frame[:_MOST_BYTES]


def _encoded(message: object) -> bytes:
    text = json.dumps(message).replace('"$ID"', "$ID")
    return text.encode("utf-8", "surrogatepass")


def _places(value: object) -> list[tuple[Any, Any]]:
    """Return the places of a value, as what holds each, and its key."""
    found: list[tuple[Any, Any]] = []
    left: list[Any] = [value]
    while left and len(found) < _MOST_PLACES:
        holder = left.pop()
        keys = list(holder) if isinstance(holder, dict) else []
        keys = range(len(holder)) if isinstance(holder, list) else keys
        found += [(holder, key) for key in keys]
        left += [holder[key] for key in keys]
    return found


def _replace(chance: random.Random, message: object) -> object:
    if places := _places(message):
        holder, key = chance.choice(places)
        holder[key] = chance.choice(_ODD)
    return message


def _remove(chance: random.Random, message: object) -> object:
    if places := _places(message):
        holder, key = chance.choice(places)
        del holder[key]
    return message


def _wrap(chance: random.Random, message: object) -> object:
    if places := _places(message):
        holder, key = chance.choice(places)
        for _ in range(chance.choice((1, 50, 400))):
            holder[key] = chance.choice(({"a": holder[key]}, [holder[key]]))
    return message


def _batch(chance: random.Random, message: object) -> object:
    return [message] * chance.choice((1, 2, 5))


def _cut(chance: random.Random, frame: bytes) -> bytes:
    return frame[: chance.randrange(len(frame) + 1)]


def _insert(chance: random.Random, frame: bytes) -> bytes:
    position = chance.randrange(len(frame) + 1)
    return frame[:position] + chance.choice(_BYTES) + frame[position:]


def _flip(chance: random.Random, frame: bytes) -> bytes:
    if not frame:
        return frame
    position = chance.randrange(len(frame))
    return frame[:position] + bytes([chance.randrange(256)]) + frame[position + 1 :]


def _double(_chance: random.Random, frame: bytes) -> bytes:
    return frame + frame


_CHANGES: list[Callable[[random.Random, object], object]] = [
    _replace,
    _replace,
    _remove,
    _wrap,
    _batch,
]
_SPOILS: list[Callable[[random.Random, bytes], bytes]] = [_cut, _insert, _insert, _flip, _double]
