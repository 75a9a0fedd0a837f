"""The streams that a Streamable HTTP session gets beside the responses to its requests.

One receives what the server sends by itself. Others go on with responses that were cut after an
event with an id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx2

from plait.client.protocol.exchange import as_current
from plait.client.transports.http_events import ServerEvent, events_of
from plait.client.transports.http_post import OF_ANOTHER

if TYPE_CHECKING:
    from plait.client.transports.http_post import HttpPost
    from plait.client.transports.http_sender import HttpSender

logger = logging.getLogger("plait.client.transports")

_RETRY_MILLISECONDS: Final = 1000
"""When a stream is opened again, unless the server says when."""
_MAX_FAILURES: Final = 2
"""How often in a row a stream may fail before it is given up."""
_NO_STREAM: Final = frozenset({HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})


async def listen(sender: HttpSender) -> None:
    """Receive what the server sends by itself, and open the stream again when it ends."""
    wire, failures, event_id, has_worked = sender.wire, 0, "", False
    retry = _RETRY_MILLISECONDS
    while failures < _MAX_FAILURES:
        is_open = False
        try:
            async with _stream(sender, event_id) as events:
                is_open = has_worked = True
                async for event in events:
                    event_id = event.event_id or event_id
                    if event.retry_milliseconds is not None:
                        retry = event.retry_milliseconds
                    if event.kind == "message" and event.data:
                        await wire.receive(event.data, sender.limits)
            failures = 0
        except Exception as error:  # noqa: BLE001  # boundary: headers and auth of the user
            if _has_no_stream(error):
                return
            # A server that has nothing to say for long has not failed.
            is_silent = is_open and isinstance(error, httpx2.ReadTimeout)
            failures = 0 if is_silent else failures + 1
            reason = wire.redact(f"{type(error).__name__}: {error}")
            logger.debug("%s: no stream of notifications: %s", wire.server, reason)
        finally:
            sender.release()
        if failures < _MAX_FAILURES:
            await asyncio.sleep(retry / 1000)
    if has_worked:
        wire.lose_notifications()


def _has_no_stream(refusal: Exception) -> bool:
    status = refusal.response.status_code if isinstance(refusal, httpx2.HTTPStatusError) else None
    return status in _NO_STREAM


async def resume_stream(
    sender: HttpSender, post: HttpPost, event_id: str, retry_milliseconds: int | None
) -> None:
    """Get the rest of a response stream."""
    failures = 0
    retry = _RETRY_MILLISECONDS if retry_milliseconds is None else retry_milliseconds
    while failures < _MAX_FAILURES:
        await asyncio.sleep(retry / 1000)
        failures += 1
        try:
            with as_current(post.request):
                async with _stream(sender, event_id) as events:
                    async for event in events:
                        event_id = event.event_id or event_id
                        if event.retry_milliseconds is not None:
                            retry = event.retry_milliseconds
                        if event.kind == "message" and event.data:
                            await post.take(event.data)
                        if post.is_settled:
                            return
            if post.request.has_stray:
                post.lose(OF_ANOTHER)
                return
            failures = 0
        except httpx2.SSEError as error:
            post.lose(f"SSE stream failed: {error}")
            return
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            logger.debug("%s: a stream could not be resumed: %r", sender.wire.server, error)
        except Exception as error:  # noqa: BLE001  # boundary: headers and auth of the user
            reason = sender.wire.redact(f"{type(error).__name__}: {error}")
            post.lose(f"SSE stream could not be resumed: {reason}")
            return
    post.lose("SSE stream ended and reconnection attempts were exhausted")


@asynccontextmanager
async def _stream(sender: HttpSender, event_id: str) -> AsyncGenerator[AsyncIterator[ServerEvent]]:
    """Open a stream, after an event of it if there is the id of one."""
    own = {"Accept": "text/event-stream", "Cache-Control": "no-store", **sender.session_headers()}
    headers = httpx2.Headers(own).raw
    if event_id:
        # https://html.spec.whatwg.org/multipage/server-sent-events.html: an id is sent as UTF-8.
        headers = [*headers, (b"Last-Event-ID", event_id.encode())]
    async with sender.client.stream("GET", sender.url, headers=headers) as response:
        sender.release()
        response.raise_for_status()
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith("text/event-stream"):
            raise httpx2.StreamError(f"the server sent {kind or 'nothing'} in place of events")
        yield events_of(response.aiter_bytes(), sender.max_event_size)
