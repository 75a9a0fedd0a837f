"""Asking the gateway over HTTP: one exchange, and exchanges that are tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from plait._support.clock import Clock
from plait._support.redact import Redactor
from plait._support.retry_after import seconds_from_retry_after
from plait._support.threads import in_thread
from plait.client.config.secrets import secrets_in_headers
from plait.client.config.timing import ReconnectPolicy
from plait.client.config.urls import public_url
from plait.errors import DiscoveryError, GatewayError
from plait.models.connections import certificates

_WORTH_REPEATING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may well succeed."""

_LONGEST_BODY = 16 * 1024 * 1024
"""No list of servers is that long; a gateway that sends more is not one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300


async def get_with_retries(
    url: str,
    headers: Mapping[str, str],
    *,
    policy: ReconnectPolicy,
    timeout_seconds: float,
    clock: Clock,
) -> Answer:
    """Get something; what fails for the moment is tried again while there is time.

    A server that says when to come back is believed.

    Raises:
        DiscoveryError: It never succeeded.
    """
    ends_at = clock.monotonic() + timeout_seconds
    pauses = policy.delays()
    attempts = 0
    while True:
        attempts += 1
        left = max(0.1, ends_at - clock.monotonic())
        error = await _attempt(url, headers, left)
        if isinstance(error, Answer):
            return error
        pause = next(pauses, None)
        if pause is None or error.retry == "never":
            break
        pause = pause if error.retry_after is None else error.retry_after
        if clock.monotonic() + pause >= ends_at:
            break
        await clock.sleep(pause)
    if attempts > 1:
        error.add_note(f"tried {attempts} times")
    raise error


async def _attempt(url: str, headers: Mapping[str, str], seconds: float) -> Answer | DiscoveryError:
    redact = Redactor(secrets_in_headers(headers))
    try:
        answer = await _get(url, headers, seconds)
    except (httpx2.RequestError, TimeoutError) as fault:
        reason = reason_of(fault, seconds, redact)
        text = f"Failed to connect to MCP configuration endpoint: {public_url(url)}: {reason}"
        error = DiscoveryError(text, url=public_url(url))
        error.__cause__ = fault
        return error
    if answer.is_success:
        return answer
    said = redact.excerpt(answer.body.decode("utf-8", "replace"))
    return DiscoveryError(
        f"Failed to read MCP servers from endpoint: {public_url(url)}: HTTP {answer.status}"
        f"{f': {said}' if said else ''}",
        url=public_url(url),
        status=answer.status,
        retry_after=answer.retry_after,
        retry="always" if answer.status in _WORTH_REPEATING else "never",
    )


async def _get(url: str, headers: Mapping[str, str], seconds: float) -> Answer:
    context = await in_thread(certificates)
    # The whole exchange is bounded: the timeouts of the library hold between two bytes.
    async with asyncio.timeout(seconds), httpx2.AsyncClient(verify=context, timeout=None) as client:
        request = client.build_request("GET", url, headers=dict(headers))
        response = await client.send(request, stream=True)
        try:
            return await _answer_from(response)
        finally:
            await response.aclose()


async def _answer_from(response: httpx2.Response) -> Answer:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _LONGEST_BODY:
            raise httpx2.DecodingError("the answer does not end", request=response.request)
    return Answer(
        response.status_code,
        bytes(body),
        seconds_from_retry_after(response.headers.get("retry-after")),
    )


async def post(
    url: str, headers: Mapping[str, str], body: bytes, *, timeout_seconds: float
) -> Answer:
    """Send something once.

    Raises:
        httpx2.RequestError: There was no answer.
        TimeoutError: There was none in time.
    """
    context = await in_thread(certificates)
    async with (
        asyncio.timeout(timeout_seconds),
        httpx2.AsyncClient(verify=context, timeout=None) as client,
    ):
        response = await client.post(url, headers=dict(headers), content=body)
    return Answer(
        response.status_code,
        response.content,
        seconds_from_retry_after(response.headers.get("retry-after")),
    )


def reason_of(fault: BaseException, seconds: float, redact: Redactor | None = None) -> str:
    """Say why there was no answer."""
    if isinstance(fault, TimeoutError | httpx2.TimeoutException):
        return f"no answer in {seconds:g} s"
    said = (redact or Redactor()).excerpt(str(fault))
    return f"{type(fault).__name__}: {said}" if said else type(fault).__name__


def may_come_right(status: int) -> bool:
    """Say whether the same request may succeed later."""
    return status in _WORTH_REPEATING or status in {401, 403, 404}


def is_refused(error: GatewayError) -> bool:
    """Say whether the gateway answered that it will not."""
    return error.status is not None and error.status not in _WORTH_REPEATING
