"""Checks responses that httpx2 has received, before the SDK reads them.

The SDK ends a request at the first event that it cannot read, logs a traceback for it, and waits
for ever after a body that answers another request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator
from http import HTTPStatus

import httpx2
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from plait.client.config.servers import ExchangeOptions
from plait.client.transports.http_pool import EventParser, ServerEvent
from plait.client.transports.oversize import has_too_many_values, too_many_values
from plait.client.transports.wire import Exchange, Wire, coerced_id

logger = logging.getLogger("plait.client.transports")


def checked_answer(response: httpx2.Response, exchange: Exchange, kind: str) -> httpx2.Response:
    """Return the response to a request, or another that says why it cannot be read.

    `kind` is its content type; a body in JSON has been read.
    """
    if not kind.startswith("application/json"):
        if response.status_code == HTTPStatus.ACCEPTED:
            return misread(response, exchange, "the server answered a request with 202 Accepted")
        return misread(response, exchange, f"unexpected content type: {kind}")
    try:
        message = jsonrpc_message_adapter.validate_json(response.content, by_name=False)
    except ValidationError:
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
    parser, most = EventParser(server.most_event_bytes), server.incoming.values
    async for chunk in chunks:
        for event in parser.feed(chunk):
            if _is_readable(event, wire, most):
                yield _encoded(event)
    for event in parser.end():
        if _is_readable(event, wire, most):
            yield _encoded(event)


def _is_readable(event: ServerEvent, wire: Wire, most_values: int) -> bool:
    if event.kind != "message" or not event.data:
        return True
    if has_too_many_values(event.data, most_values):
        logger.warning("%s: %s", wire.server, too_many_values(most_values))
        return False
    try:
        jsonrpc_message_adapter.validate_json(event.data, by_name=False)
    except ValidationError:
        wire.note_noise(event.data)
        return False
    return True


def _encoded(event: ServerEvent) -> bytes:
    lines = [f"event: {event.kind}".encode()]
    if event.event_id:
        lines.append(f"id: {event.event_id}".encode())
    if event.retry_milliseconds is not None:
        lines.append(b"retry: %d" % event.retry_milliseconds)
    lines += [b"data: " + line for line in event.data.split(b"\n")]
    return b"\n".join([*lines, b"", b""])
