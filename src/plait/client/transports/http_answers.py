"""Checks responses that httpx2 has received, before the SDK reads them.

The SDK ends a request at the first event that it cannot read, logs a traceback for it, and waits
for ever after a body that answers another request. It parses a message of any size in the event
loop, so that large ones do not reach it on the lean wire.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import httpx2
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic_core import to_json

from plait._support.threads import in_thread
from plait.client.config.budgets import IncomingLimits
from plait.client.config.servers import ExchangeOptions
from plait.client.protocol.exchange import Exchange
from plait.client.protocol.large_json import LARGE_BYTES, LimitError, parse_large
from plait.client.protocol.reading import coerced_id
from plait.client.transports.http_decoding import PIECE_BYTES
from plait.client.transports.http_events import EventParser, ServerEvent
from plait.client.transports.oversize import HANDSHAKES, too_large, too_large_handshake
from plait.client.transports.wire import Wire

logger = logging.getLogger("plait.client.transports")

OF_ANOTHER: Final = "it belongs to another request"
"""Why the only response of an exchange is not taken."""


async def checked_answer(
    response: httpx2.Response, exchange: Exchange, kind: str, limits: IncomingLimits
) -> httpx2.Response:
    """Return the response to a request, or another that says why it cannot be read.

    `kind` is its content type; a body in JSON has been read.
    """
    if not kind.startswith("application/json"):
        if response.status_code == HTTPStatus.ACCEPTED:
            return misread(response, exchange, "the server answered a request with 202 Accepted")
        return misread(response, exchange, f"unexpected content type: {kind}")
    if exchange.method == "tools/list":
        limits = replace(limits, values=sys.maxsize)  # `tools` bounds it
    try:
        message = await _validated(response.content, limits)
    except LimitError as error:
        return misread(response, exchange, str(error))
    except ValueError:
        return misread(response, exchange, "it is not JSON-RPC")
    if isinstance(message, JSONRPCResponse | JSONRPCError):
        if coerced_id(message.id) == exchange.request_id:
            return response
        if message.id is None:
            body = {**message.model_dump(by_alias=True), "id": exchange.request_id}
            return httpx2.Response(response.status_code, request=response.request, json=body)
    return misread(response, exchange, OF_ANOTHER)


def misread(response: httpx2.Response, exchange: Exchange, reason: str) -> httpx2.Response:
    """Return an error that counts as the SDK's own: the server has not sent it."""
    return httpx2.Response(200, request=response.request, json=_misread_error(exchange, reason))


def _misread_error(exchange: Exchange, reason: str) -> dict[str, Any]:
    exchange.stream_ended = True
    error = {"code": CONNECTION_CLOSED, "message": reason}
    return {"jsonrpc": "2.0", "id": exchange.request_id, "error": error}


def longest_answer(exchange: Exchange | None, wire: Wire, limits: IncomingLimits) -> int:
    """Return how many bytes a response may have; those of handshakes, which the SDK parses, few."""
    is_handshake = exchange is not None and exchange.method in HANDSHAKES
    if wire.pass_on is None or not is_handshake:
        return limits.message_bytes
    return min(LARGE_BYTES, limits.message_bytes)


def too_large_answer(exchange: Exchange, wire: Wire, limits: IncomingLimits) -> str:
    """Explain that a response is larger than that."""
    most = longest_answer(exchange, wire, limits)
    if most == limits.message_bytes:
        return too_large(most)
    return too_large_handshake(exchange.method)


async def readable_events(
    wire: Wire, server: ExchangeOptions, exchange: Exchange | None, chunks: AsyncIterable[bytes]
) -> AsyncIterator[bytes]:
    """Yield the events of a stream that the SDK can read; `exchange` is the request of the stream.

    On the lean wire, large messages are passed on without the SDK's parser.
    """
    async for event in events_of(chunks, server.most_event_bytes):
        if (data := await _readable(event, wire, server.incoming, exchange)) is not None:
            yield _encoded(event, data)
    if exchange is not None and exchange.has_stray:
        # The SDK has closed the stream before if it had the answer as well.
        yield b"data: %b\n\n" % to_json(_misread_error(exchange, OF_ANOTHER))


async def events_of(
    chunks: AsyncIterable[bytes], most_event_bytes: int | None
) -> AsyncIterator[ServerEvent]:
    """Yield the events of a stream."""
    parser = EventParser(most_event_bytes)
    async for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            await asyncio.sleep(0)  # what was decompressed arrives without waiting
            for event in parser.feed(chunk[start : start + PIECE_BYTES]):
                yield event
    for event in parser.end():
        yield event


async def _readable(
    event: ServerEvent, wire: Wire, limits: IncomingLimits, exchange: Exchange | None
) -> bytes | None:
    """Return the data of an event that the SDK has to read; `None` leaves the event out."""
    if event.kind != "message" or not event.data:
        return event.data
    try:
        message = await _validated(event.data, limits)
    except LimitError as error:
        logger.warning("%s: %s", wire.server, error)
        return None
    except ValueError:
        wire.note_noise(event.data)
        return None
    if exchange is not None and not _may_answer(message, exchange):
        exchange.has_stray = True
        return None
    if wire.pass_on is None or len(event.data) < LARGE_BYTES:
        return event.data
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        await wire.pass_on(message)
        return b""  # the id of the event counts
    if exchange is None:
        return None
    if len(event.data) <= longest_answer(exchange, wire, limits):
        return event.data  # of a session that is recorded, in which the SDK makes all requests
    return to_json(_misread_error(exchange, too_large_answer(exchange, wire, limits)))


def _may_answer(message: JSONRPCMessage, exchange: Exchange) -> bool:
    """Return whether a message is no response to another request: the SDK takes any response."""
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return True
    is_refusal = isinstance(message, JSONRPCError) and message.id is None
    return is_refusal or coerced_id(message.id) == exchange.request_id


async def _validated(body: bytes, limits: IncomingLimits) -> JSONRPCMessage:
    if len(body) < LARGE_BYTES:
        return jsonrpc_message_adapter.validate_json(body, by_name=False)
    message = await in_thread(parse_large, body, limits.values, limits.message_bytes)
    return jsonrpc_message_adapter.validate_python(message, by_name=False)


def _encoded(event: ServerEvent, data: bytes) -> bytes:
    lines = [f"event: {event.kind}".encode()]
    if event.event_id:
        lines.append(f"id: {event.event_id}".encode())
    if event.retry_milliseconds is not None:
        lines.append(b"retry: %d" % event.retry_milliseconds)
    lines += [b"data: " + line for line in data.split(b"\n")]
    return b"\n".join([*lines, b"", b""])
