"""Messages that are too large to be kept, and the requests that they answer."""

from __future__ import annotations

import logging
import re

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic_core import to_json

from plait.client.transports.wire import PendingRequest, Wire

logger = logging.getLogger("plait.client.transports")

_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_FIRST = re.compile(rb'\s*\{(?:\s*%b,)?\s*"id"\s*:\s*"?(\d{1,18})\b' % _VERSION)
_ID_LAST = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*%b)?\}\s*$' % _VERSION)


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
