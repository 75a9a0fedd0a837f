"""Requests to the gateway, once or with retries."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from plait._support.clock import Clock
from plait._support.http import HttpReply, send_request, with_retries
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.config.secrets import secrets_in_headers
from plait.client.config.timing import ReconnectPolicy
from plait.client.config.urls import public_url
from plait.errors import DiscoveryError, GatewayError, PlaitError
from plait.models.endpoints import certificates

_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""


async def get_with_retries(
    url: str,
    headers: Mapping[str, str],
    *,
    policy: ReconnectPolicy,
    timeout_seconds: float,
    clock: Clock,
) -> HttpReply:
    """Send a GET request, with retries until the timeout; `Retry-After` is respected."""
    deadline = clock.monotonic() + timeout_seconds
    texts = (
        "Failed to connect to MCP configuration endpoint",
        "Failed to read MCP servers from endpoint",
    )

    async def attempt() -> HttpReply:
        seconds = max(0.1, deadline - clock.monotonic())
        try:
            return await send("GET", url, headers, None, seconds, error=DiscoveryError, texts=texts)
        except DiscoveryError as error:
            if is_refused(error):
                error.retry = "never"
            raise

    return await with_retries(
        attempt, delays=policy.delays(), clock=clock, give_up=_with_attempts, deadline=deadline
    )


def _with_attempts(error: PlaitError, attempts: int) -> PlaitError:
    error.add_note(f"tried {attempts} times")
    return error


async def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    seconds: float,
    *,
    error: type[GatewayError],
    texts: tuple[str, str],
    limit: int = 200,
) -> HttpReply:
    """Send a request once."""
    shown = public_url(url)
    redact = Redactor(secrets_in_headers(headers))
    context = await in_thread(certificates)
    try:
        async with httpx2.AsyncClient(verify=context, timeout=None) as client:
            reply = await send_request(
                client, method, url, headers=headers, content=body, timeout_seconds=seconds
            )
    except (httpx2.RequestError, TimeoutError) as fault:
        reason = reason_of(fault, seconds, redact)
        raise error(f"{texts[0]}: {shown}: {reason}", url=shown) from fault
    if reply.is_success:
        return reply
    reason = status_text(reply.status, reply.text, redact, limit)
    details = {"status": reply.status, "retry_after": reply.retry_after}
    raise error(f"{texts[1]}: {shown}: {reason}", url=shown, **details)


def reason_of(error: BaseException, seconds: float, redact: Redactor | None = None) -> str:
    """Describe why there was no reply."""
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"no answer in {seconds:g} s"
    text = (redact or Redactor()).excerpt(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def status_text(status: int, body: str, redact: Redactor | None = None, limit: int = 200) -> str:
    """Describe an HTTP error by its status and the start of its body."""
    detail = (redact or Redactor()).excerpt(body, limit)
    return f"HTTP {status}: {detail}" if detail else f"HTTP {status}"


def may_come_right(status: int) -> bool:
    """Return whether the same request may succeed later."""
    return status in _RETRYABLE or status in {401, 403, 404}


def is_refused(error: GatewayError) -> bool:
    """Return whether the gateway answered with a status that a retry does not change."""
    return error.status is not None and error.status not in _RETRYABLE
