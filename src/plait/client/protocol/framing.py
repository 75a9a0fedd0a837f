"""Finds JSON-RPC messages in the lines that servers write.

A line may hold a banner, a byte order mark, half of another line, invalid UTF-8, or two messages.
What is not a message is noise.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from plait.client.config.budgets import DEFAULT_LIMITS, IncomingLimits
from plait.client.protocol.reading import (
    LARGE_BYTES,
    Message,
    RequestId,
    coerced_id,
    cut_nesting,
    decode,
    message_from,
    read,
)

HEAD_BYTES: Final = 200
"""How much of the beginning and the end of a message is searched for its id."""
MAX_FAILURES: Final = 64
"""How many positions of a noisy line are tried as the start of a message."""
MAX_BATCH_MESSAGES: Final = 1000
"""How many messages of a batch are read."""
MAX_SEARCHED_BYTES: Final = 4 * 1024 * 1024
"""In a longer line that is not one message, only its last message is looked for."""
MAX_WASTED_CHARS: Final = 1_000_000
"""How many characters may be parsed in vain; a long line must not hold up the event loop."""

_DECODER: Final = json.JSONDecoder()
_SIGN: Final = '{"jsonrpc"'
"""The start of nearly all messages."""
_PADDING: Final = "\ufeff \t\r\n\0"
"""Characters around a message that are not noise."""
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_FIRST: Final = re.compile(rb'\s*\{(?:\s*%b,)?\s*"id"\s*:\s*"?(\d{1,18})\b' % _VERSION)
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*%b)?\}\s*$' % _VERSION)


@dataclass(frozen=True, slots=True)
class Framed:
    """The messages of one line, and whether it held anything else."""

    messages: tuple[Message, ...]
    noise: bool = False


def frames(
    line: bytes,
    *,
    encoding: str = "utf-8",
    errors: str = "replace",
    limits: IncomingLimits = DEFAULT_LIMITS,
) -> Framed:
    """Find the messages in one line; one of `LARGE_BYTES` should be searched in a thread.

    Raises:
        LimitError: It has more values, or would take more memory, than `limits` permit.
    """
    line = line.strip()
    if not line:
        return Framed(())
    if encoding == "utf-8":
        try:
            return Framed((read(line, limits),))
        except ValueError:
            pass
    try:
        text = cut_nesting(line).decode(encoding, errors)
    except UnicodeError:
        return Framed((), noise=True)
    return _search(text) if len(line) <= MAX_SEARCHED_BYTES else _search_end(text, limits)


def frames_from(value: object) -> Framed:
    """Return the messages that a JSON value holds: one, or those of a batch."""
    batch = cast("list[Any]", value)[:MAX_BATCH_MESSAGES] if isinstance(value, list) else [value]
    found = tuple(message for item in batch if (message := message_from(item)) is not None)
    return Framed(found, noise=len(found) < len(batch))


def _search_end(text: str, limits: IncomingLimits) -> Framed:
    """Take a very long line as a batch, or else the last part of it that looks like a message."""
    body = text.encode("utf-8", "replace")
    for start in (0, body.rfind(_SIGN.encode())):
        try:
            return frames_from(decode(body[start:] if start > 0 else body, limits))
        except ValueError:
            pass
    return Framed((), noise=True)


def _search(text: str) -> Framed:
    """Look for JSON objects anywhere in the line."""
    messages: list[Message] = []
    noise = False
    surrogates = "\\ud" in text or "\\uD" in text
    position, failures, wasted = 0, 0, 0
    while failures < 2 * MAX_FAILURES and (start := _next_start(text, position)) is not None:
        noise = noise or bool(text[position:start].strip(_PADDING))
        found: tuple[Message, ...] = ()
        try:
            value, position = _DECODER.raw_decode(text, start)
            found = frames_from(_encodable(value) if surrogates else value).messages
        except (ValueError, RecursionError) as error:
            position = start + 1
            wasted += max(0, getattr(error, "pos", len(text)) - start)
        if not found:
            failures += 1
            noise = True
            if wasted > MAX_WASTED_CHARS:
                # Only the last part that looks like a message is tried: half a line, and a whole.
                position = max(position, text.rfind(_SIGN))
                failures = max(failures, 2 * MAX_FAILURES - 1)
            elif failures >= MAX_FAILURES:
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


def is_answer(first: bytes) -> bool:
    """Return whether a message is an answer, by its first bytes; else the server asks or tells."""
    return b'"method"' not in first[:HEAD_BYTES]


def answered_id(first: bytes, last: bytes) -> int | None:
    """Return the id of the request that a message answers which is not kept.

    It is looked for at the beginning and at the end of the message.
    """
    found = _ID_FIRST.match(first[:HEAD_BYTES]) or _ID_LAST.search(last[-HEAD_BYTES:])
    return None if found is None else int(found[1])


def misread_id(line: bytes) -> RequestId | None:
    """Return the id of the request whose answer does not follow JSON-RPC, if a line is one."""
    if b'"id"' not in line:
        return None
    if len(line) >= LARGE_BYTES:
        return answered_id(line, line) if is_answer(line) else None
    try:
        message: object = decode(line)
    except ValueError:
        # It has a number of thousands of digits, say, or too many levels.
        has_outcome = b'"result"' in line or b'"error"' in line
        is_whole = has_outcome and is_answer(line) and line.rstrip().endswith(b"}")
        return answered_id(line, line) if is_whole else None
    if not isinstance(message, dict) or "method" in message or not {"result", "error"} & {*message}:
        return None
    return coerced_id(cast("dict[str, Any]", message).get("id"))
