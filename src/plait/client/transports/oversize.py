"""Messages that are too large or cannot be read, and the requests that they answer."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from pydantic_core import from_json, to_json

from plait._support import mcp_types as types
from plait._support.threads import in_thread
from plait.client.config.budgets import IncomingLimits
from plait.client.protocol.exchange import PendingRequest, parse_json
from plait.client.protocol.large_json import LARGE_BYTES, LimitError, parse_large
from plait.client.protocol.peer import RequestError
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.transports.streams import Framed, frames_from, frames_of
from plait.client.transports.wire import Wire

logger = logging.getLogger("plait.client.transports")

_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_FIRST = re.compile(rb'\s*\{(?:\s*%b,)?\s*"id"\s*:\s*"?(\d{1,18})\b' % _VERSION)
_ID_LAST = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*%b)?\}\s*$' % _VERSION)

_HEAD_BYTES = 200
"""How much of the beginning and the end of a message is searched for its id."""
_MOST_SEARCHED = 4 * 1024 * 1024
"""Longer lines that are not one message are not searched for several."""
_SIGN = b'{"jsonrpc"'
HANDSHAKES = frozenset({"initialize", "server/discover"})
_NO_JSON_RPC = "it is not JSON-RPC"


async def read_large(
    wire: Wire,
    body: bytes,
    limits: IncomingLimits,
    *,
    may_take: Callable[[], bool] = lambda: True,
    encoding: str = "utf-8",
    errors: str = "replace",
) -> Framed:
    """Parse a large message in a thread, and hand it to the request of our own that it answers.

    Return what the SDK has to handle: other messages, and errors in place of answers that are
    refused. With `may_take` returning `False`, it handles all of them.
    """
    if (method := _answered_handshake(wire, body)) is not None:
        return _lost(wire, body, too_large_handshake(method))
    parse = partial(parse_large, most_values=limits.values, most_bytes=limits.message_bytes)
    try:
        # The tools of a list are not parsed as a whole.
        message = await in_thread(parse if wire.parse is parse_json else wire.parse, body)
    except LimitError as error:
        return _lost(wire, body, str(error))
    except ValueError:
        if len(body) <= _MOST_SEARCHED:
            found = frames_of(body, encoding=encoding, errors=errors)
            return found if found.messages else _lost(wire, body, _NO_JSON_RPC, noise=True)
        try:
            message = await in_thread(_parse_last, parse, body, encoding, errors)
        except LimitError as error:
            return _lost(wire, body, str(error))
        except (ValueError, LookupError):
            return _lost(wire, body, _NO_JSON_RPC, noise=True)
    own = cast("dict[str, Any]", message if type(message) is dict else {})
    if may_take() and wire.take(own, body):
        return Framed(())
    return frames_from(cast("object", message))


def _answered_handshake(wire: Wire, body: bytes) -> str | None:
    """Return the method of the handshake that a message answers, if it is one."""
    found = _ID_FIRST.match(body[:_HEAD_BYTES]) or _ID_LAST.search(body[-_HEAD_BYTES:])
    request_id = None if found is None else int(found[1])
    exchange = wire.requests.get(request_id) or wire.pending.get(request_id or "")
    return exchange.method if exchange is not None and exchange.method in HANDSHAKES else None


def too_large_handshake(method: str) -> str:
    """Explain that the answer of a handshake is refused."""
    return f"the server answered {method} with more than {LARGE_BYTES:,} bytes"


def _parse_last(parse: Callable[[bytes], Any], body: bytes, encoding: str, errors: str) -> Any:
    text = body.decode(encoding, errors).encode("utf-8", "replace")
    return parse(text[max(0, text.rfind(_SIGN)) :])


def _lost(wire: Wire, body: bytes, reason: str, *, noise: bool = False) -> Framed:
    first, last = body[:_HEAD_BYTES], body[-_HEAD_BYTES:]
    if noise and not (_ID_FIRST.match(first) or _ID_LAST.search(last)):
        return Framed((), noise=True)
    return Framed(_messages_in(lose_answer(wire, first, last, reason)), noise=noise)


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
    return _fail(wire, known if found is None else known & {int(found[1])}, reason)


def lose_misread(wire: Wire, line: bytes) -> tuple[types.JSONRPCMessage, ...]:
    """Fail the request whose answer does not follow JSON-RPC; else it would wait for its timeout.

    Return error responses for those of the SDK.
    """
    if len(line) >= LARGE_BYTES or b'"id"' not in line:
        return ()
    try:
        message = cast("dict[str, Any] | list[Any]", from_json(line))
    except ValueError:
        # It has a number of thousands of digits, say, or too many levels.
        return _lost(wire, line, _NO_JSON_RPC, noise=True).messages if _is_whole(line) else ()
    if not isinstance(message, dict) or "method" in message or not {"result", "error"} & {*message}:
        return ()
    return _messages_in(_fail(wire, {coerced_id(message.get("id"))}, _NO_JSON_RPC))


def _is_whole(line: bytes) -> bool:
    """Return whether a line looks like an answer from its beginning to its end."""
    has_outcome = b'"result"' in line or b'"error"' in line
    return has_outcome and b'"method"' not in line[:_HEAD_BYTES] and line.rstrip().endswith(b"}")


def _messages_in(lines: Iterable[bytes]) -> tuple[types.JSONRPCMessage, ...]:
    return tuple(one for line in lines for one in frames_of(line).messages)


def _fail(wire: Wire, request_ids: Iterable[RequestId | None], reason: str) -> list[bytes]:
    lost: list[bytes] = []
    for request_id in request_ids:
        request = wire.requests.pop(request_id, None)
        exchange = request or wire.pending.get(request_id or "")
        if exchange is not None:
            exchange.stream_ended = True
        if isinstance(exchange, PendingRequest):
            exchange.fail(RequestError(types.CONNECTION_CLOSED, reason))
        elif exchange is not None:
            error = {"code": types.CONNECTION_CLOSED, "message": reason}
            lost.append(to_json({"jsonrpc": "2.0", "id": request_id, "error": error}))
    wire.check_drained()
    return lost
