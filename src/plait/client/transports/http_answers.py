"""Checks responses that httpx2 has received, before the SDK reads them.

The SDK ends a request at the first event that it cannot read, logs a traceback for it, and waits
for ever after a body that answers another request.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from http import HTTPStatus

import httpx2
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from plait._support.threads import in_thread
from plait.client.config.budgets import IncomingLimits
from plait.client.config.servers import ExchangeOptions
from plait.client.transports.http_events import EventParser, ServerEvent
from plait.client.transports.large_json import LARGE_BYTES, LimitError, parse_large
from plait.client.transports.wire import Exchange, Wire, coerced_id

logger = logging.getLogger("plait.client.transports")


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
    return misread(response, exchange, "it belongs to another request")


def misread(response: httpx2.Response, exchange: Exchange, reason: str) -> httpx2.Response:
    """Return an error that counts as the SDK's own: the server has not sent it."""
    exchange.stream_ended = True
    error = {"code": CONNECTION_CLOSED, "message": reason}
    body = {"jsonrpc": "2.0", "id": exchange.request_id, "error": error}
    return httpx2.Response(200, request=response.request, json=body)


async def readable_events(
    wire: Wire, server: ExchangeOptions, chunks: AsyncIterable[bytes]
) -> AsyncIterator[bytes]:
    """Yield the events of a stream that are messages, or have no data."""
    parser = EventParser(server.most_event_bytes)
    async for chunk in chunks:
        for event in parser.feed(chunk):
            if await _is_readable(event, wire, server.incoming):
                yield _encoded(event)
    for event in parser.end():
        if await _is_readable(event, wire, server.incoming):
            yield _encoded(event)


async def _is_readable(event: ServerEvent, wire: Wire, limits: IncomingLimits) -> bool:
    if event.kind != "message" or not event.data:
        return True
    try:
        await _validated(event.data, limits)
    except LimitError as error:
        logger.warning("%s: %s", wire.server, error)
        return False
    except ValueError:
        wire.note_noise(event.data)
        return False
    return True


async def _validated(body: bytes, limits: IncomingLimits) -> JSONRPCMessage:
    if len(body) < LARGE_BYTES:
        return jsonrpc_message_adapter.validate_json(body, by_name=False)
    message = await in_thread(parse_large, body, limits.values, limits.message_bytes)
    return jsonrpc_message_adapter.validate_python(message, by_name=False)


def _encoded(event: ServerEvent) -> bytes:
    lines = [f"event: {event.kind}".encode()]
    if event.event_id:
        lines.append(f"id: {event.event_id}".encode())
    if event.retry_milliseconds is not None:
        lines.append(b"retry: %d" % event.retry_milliseconds)
    lines += [b"data: " + line for line in event.data.split(b"\n")]
    return b"\n".join([*lines, b"", b""])
