"""Resumes a response stream that was cut after an event with an id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import httpx2
from mcp.client.streamable_http import DEFAULT_RECONNECTION_DELAY_MS, MAX_RECONNECTION_ATTEMPTS

if TYPE_CHECKING:
    from plait.client.transports.http_post import HttpPost, HttpSender

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
    while failures < MAX_RECONNECTION_ATTEMPTS:
        await asyncio.sleep((DEFAULT_RECONNECTION_DELAY_MS if retry is None else retry) / 1000)
        fields = {"Cache-Control": "no-store", **headers, "last-event-id": event_id}
        is_stream = False
        try:
            async with sender.client.stream("GET", sender.url, headers=fields) as response:
                response.raise_for_status()
                kind = response.headers.get("content-type", "").partition(";")[0]
                is_stream = kind.strip().lower() == "text/event-stream"
                source = httpx2.EventSource(response, max_event_size=sender.max_event_size)
                async for event in source:
                    event_id = event.id or event_id
                    retry = retry if event.retry is None else event.retry
                    if event.event == "message" and event.data:
                        await post.take(event.data.encode())
                    if post.is_settled:
                        return
            failures = 0
        except httpx2.SSEError as error:
            if is_stream:
                post.lose(f"SSE stream failed: {error}")
                return
            failures += 1
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            logger.debug("%s: a stream could not be resumed: %r", sender.wire.server, error)
            failures += 1
    post.lose("SSE stream ended and reconnection attempts were exhausted")
