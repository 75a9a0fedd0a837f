"""Messages that are too large to be kept or parsed, and the requests that they answer."""

from __future__ import annotations

import logging
import re
from itertools import accumulate

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic_core import to_json

from plait._support.threads import in_thread
from plait.client.transports.wire import PendingRequest, Wire, parse_json

logger = logging.getLogger("plait.client.transports")

_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_FIRST = re.compile(rb'\s*\{(?:\s*%b,)?\s*"id"\s*:\s*"?(\d{1,18})\b' % _VERSION)
_ID_LAST = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*%b)?\}\s*$' % _VERSION)

LARGE_BYTES = 1024 * 1024
"""Smaller messages cannot have enough values to matter."""
_COUNTED_BYTES = 256 * 1024
"""How much is counted at a time, so that other threads have their turn."""
_HEAD_BYTES = 200
"""How much of the beginning and the end of a message is searched for its id."""
_BACKSLASHES = re.compile(rb"\\*")


def too_many_values(most: int) -> str:
    """Explain that a message is not parsed, and what would permit it."""
    return f"the server sent a message of more than {most:,} values (raise `values` in `limits`)"


def has_too_many_values(body: bytes, most: int) -> bool:
    """Return whether JSON has more values than this; parsing `[{},{},…` takes 30 times its bytes.

    Every value but the first follows a comma or an opening bracket. Those in texts are told apart
    only if there are enough of them.
    """
    if len(body) <= max(LARGE_BYTES, most):
        return False
    parts = (body[at : at + _COUNTED_BYTES] for at in range(0, len(body), _COUNTED_BYTES))
    if all(count < most for count in accumulate(map(_openings, parts))):
        return False
    count, start, in_text = 0, 0, False
    while start < len(body) and count < most:
        end = start + _COUNTED_BYTES
        if body[end - 1 : end] == b"\\" and (found := _BACKSLASHES.match(body, end)):
            end = found.end() + 1  # what they escape belongs to them
        part = body[start:end]
        pieces = part.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(pieces[in_text::2])
        count += _openings(outside)
        in_text ^= len(pieces) % 2 == 0
        start = end
    return count >= most


def _openings(part: bytes) -> int:
    return part.count(b",") + part.count(b"[") + part.count(b"{")


async def refuse_values(wire: Wire, body: bytes, most: int) -> list[bytes] | None:
    """Fail the request that a message with too many values answers; `None` if it has fewer.

    Return what `lose_answer` does. The tools of a list are not parsed as a whole.
    """
    if len(body) <= LARGE_BYTES:
        return None
    is_listing = any(one.method == "tools/list" for one in wire.pending.values())
    if wire.parse is not parse_json or is_listing:
        return None
    if not await in_thread(has_too_many_values, body, most):
        return None
    return lose_answer(wire, body[:_HEAD_BYTES], body[-_HEAD_BYTES:], too_many_values(most))


def too_large(most_bytes: int) -> str:
    """Explain that a message is refused, and what would permit it."""
    return (
        f"the server sent a message of more than {most_bytes:,} bytes "
        "(raise `message_bytes` in `limits`)"
    )


def lose_answer(wire: Wire, first: bytes, last: bytes, reason: str) -> list[bytes]:
    """Fail the request that a message answers which was not kept.

    It is found by an id at the beginning or at the end of the message; without one, every request
    has lost its answer. Return error responses for those of the SDK.
    """
    if b'"method"' in first:
        logger.warning("%s: %s", wire.server, reason)
        return []
    found = _ID_FIRST.match(first) or _ID_LAST.search(last)
    known = {*wire.requests, *wire.pending}
    lost: list[bytes] = []
    for request_id in known if found is None else known & {int(found[1])}:
        request = wire.requests.pop(request_id, None)
        exchange = request or wire.pending.get(request_id or "")
        if exchange is not None:
            exchange.stream_ended = True
        if isinstance(exchange, PendingRequest):
            exchange.fail(MCPError(code=CONNECTION_CLOSED, message=reason))
        elif exchange is not None:
            error = {"code": CONNECTION_CLOSED, "message": reason}
            lost.append(to_json({"jsonrpc": "2.0", "id": request_id, "error": error}))
    wire.check_drained()
    return lost
