"""Sends HTTP requests: one exchange with limits, and retries with backoff and `Retry-After`."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from plait._support.clock import Clock
from plait.errors import PlaitError

if TYPE_CHECKING:
    import httpx2

ReplyT = TypeVar("ReplyT")

MAX_BODY_BYTES = 16 * 1024 * 1024
"""No reply that this package asks for is longer."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete HTTP response."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds to wait, from the `Retry-After` header."""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text; bytes that are not UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")

    def json_object(self) -> dict[str, Any] | None:
        """Return the JSON object in the body; `None` if it is anything else."""
        try:
            value: object = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


async def send_request(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    *,
    timeout_seconds: float,
    headers: Mapping[str, str] | None = None,
    json: Mapping[str, Any] | None = None,
    content: bytes | None = None,
) -> HttpReply:
    """Send one request and read the whole reply; the timeout is for all of it.

    Raises:
        httpx2.RequestError: There was no complete reply.
        TimeoutError: There was none in time.
    """
    # The timeouts of the library hold between two bytes only, and would end a slow reply early.
    exchange = client.stream(method, url, headers=headers, json=json, content=content, timeout=None)
    async with asyncio.timeout(timeout_seconds), exchange as response:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                import httpx2  # noqa: PLC0415 - slow to import

                raise httpx2.DecodingError("the answer does not end", request=response.request)
    retry_after = seconds_from_retry_after(response.headers.get("retry-after"))
    return HttpReply(response.status_code, bytes(body), retry_after)


async def with_retries(
    attempt: Callable[[], Awaitable[ReplyT]],
    *,
    delays: Iterable[float],
    clock: Clock,
    give_up: Callable[[PlaitError, int], PlaitError],
    deadline: float | None = None,
    max_retry_after_seconds: float | None = None,
) -> ReplyT:
    """Make an attempt, and repeat it while its error allows a retry.

    `delays` are the pauses between attempts; `Retry-After` replaces one. `deadline` is a time of
    the clock after which no attempt starts. A server that asks for a longer pause than
    `max_retry_after_seconds` is not tried again. `give_up` returns the error to raise after
    several attempts, from the last error and their number.
    """
    pauses = iter(delays)
    attempts = 0
    while True:
        attempts += 1
        try:
            return await attempt()
        except PlaitError as error:
            pause = next(pauses, None) if error.retry != "never" else None
            if pause is not None and error.retry_after is not None:
                too_long = max_retry_after_seconds is not None and (
                    error.retry_after > max_retry_after_seconds
                )
                pause = None if too_long else error.retry_after
            if pause is None or (deadline is not None and clock.monotonic() + pause >= deadline):
                if attempts == 1:
                    raise
                raise give_up(error, attempts) from error.__cause__
        await clock.sleep(pause)


def seconds_from_retry_after(header: str | None) -> float | None:
    """Return the seconds to wait, from a number or a date; `None` if it is neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
