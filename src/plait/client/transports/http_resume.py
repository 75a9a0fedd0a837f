"""Resumes a response stream that was cut after an event with an id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import httpx2
from mcp.client.streamable_http import DEFAULT_RECONNECTION_DELAY_MS, MAX_RECONNECTION_ATTEMPTS

from plait.client.protocol.exchange import as_current
from plait.client.transports.http_answers import OF_ANOTHER, events_of

if TYPE_CHECKING:
    from plait.client.transports.http_post import HttpPost
    from plait.client.transports.http_sender import HttpSender

logger = logging.getLogger("plait.client.transports")


async def resume_stream(
    sender: HttpSender,
    post: HttpPost,
    headers: Mapping[str, str],
    event_id: str,
    retry_milliseconds: int | None,
) -> None:
    """Get the rest of a stream, as the SDK does; `headers` are those of the session."""
    failures, retry = 0, retry_milliseconds
    fields = httpx2.Headers({"Cache-Control": "no-store", **headers}).raw
    while failures < MAX_RECONNECTION_ATTEMPTS:
        await asyncio.sleep((DEFAULT_RECONNECTION_DELAY_MS if retry is None else retry) / 1000)
        failures += 1
        # https://html.spec.whatwg.org/multipage/server-sent-events.html: an id is sent as UTF-8.
        last = [*fields, (b"Last-Event-ID", event_id.encode())]
        try:
            # As the request's own: else the stream would be read as that of notifications.
            with as_current(post.request):
                async with sender.client.stream("GET", sender.url, headers=last) as response:
                    response.raise_for_status()
                    kind = response.headers.get("content-type", "").lower()
                    if not kind.startswith("text/event-stream"):
                        continue
                    async for event in events_of(response.aiter_bytes(), sender.max_event_size):
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
