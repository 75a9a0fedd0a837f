"""Completers at a provider's JSON API: retries, and `BackendError` for every failure."""

from __future__ import annotations

import itertools
import json
import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import httpx2

from plait._support.clock import Clock, SystemClock
from plait._support.http import HttpReply, send_request, with_retries
from plait._support.redact import Redactor
from plait.errors import BackendError, PlaitError
from plait.models.endpoints import is_loopback, origin_of
from plait.reasoning.backends.port import Completer, Completion, fields

logger = logging.getLogger(__name__)

MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""A provider that asks for a longer pause is not tried again: the caller would time out first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The timeout and the retries of one request to a model."""

    timeout_seconds: float = 30.0
    """For each attempt."""
    max_retries: int = 3
    """Attempts after the first."""
    first_delay_seconds: float = 1.0
    """The pause before the second attempt; each further one is twice as long."""
    jitter: float = 0.3
    """Share of each pause left to chance, from 0 to 1."""

    def delays(self, draw: Callable[[], float] = random.random) -> Iterator[float]:
        """Yield the pause before each retry; `draw` returns a number in [0, 1)."""
        for retry in range(self.max_retries):
            yield self.first_delay_seconds * 2 ** min(retry, 32) * (1 - self.jitter * draw())


@dataclass(frozen=True, slots=True)
class JsonReply:
    """The status of a reply, and the JSON object in it."""

    status: int
    body: Mapping[str, Any]


class HttpCompleter(Completer):
    """Sends JSON to one provider; 429, 5xx, timeouts and network failures are retried."""

    def __init__(
        self,
        base_url: str,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._where = origin_of(base_url)
        self._base_url = base_url.rstrip("/")
        self._retry = retry or RetryPolicy()
        self._clock = clock or SystemClock()
        self._redact = Redactor([key] if key else [])
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=None,  # each attempt as a whole has a deadline
            trust_env=not is_loopback(base_url),  # no proxy to this machine
        )

    async def _send(
        self, path: str, body: Mapping[str, Any] | None = None, *, allowed: Collection[int] = ()
    ) -> JsonReply:
        """Post an object, or get one; a status in `allowed` is returned like a success."""
        count = itertools.count(1)

        async def attempt() -> JsonReply:
            facts: dict[str, object] = {"backend": self.name, "path": path, "attempt": next(count)}
            logger.debug(
                "request of attempt %(attempt)d to %(backend)s", facts, extra=fields(facts)
            )
            began = time.monotonic()
            try:
                reply = self._read(await self._attempt(path, body), allowed)
            except BackendError as error:
                facts |= {"status": error.status, "error": str(error)}
                logger.warning("attempt %(attempt)d failed: %(error)s", facts, extra=fields(facts))
                raise
            facts |= {"status": reply.status, "ms": round((time.monotonic() - began) * 1000)}
            logger.debug("response %(status)d in %(ms)d ms", facts, extra=fields(facts))
            return reply

        return await with_retries(
            attempt,
            delays=self._retry.delays(),
            clock=self._clock,
            give_up=self._with_attempts,
            max_retry_after_seconds=MAX_RETRY_AFTER_SECONDS,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    def _unusable(self, reply: JsonReply) -> BackendError:
        """Return the error for a reply that has no completion."""
        text = _message_in(reply.body) or json.dumps(reply.body, ensure_ascii=False)
        return self._error(
            f"answered HTTP {reply.status}: {self._redact.excerpt(text)}", status=reply.status
        )

    async def _attempt(self, path: str, body: Mapping[str, Any] | None) -> HttpReply:
        method, seconds = "GET" if body is None else "POST", self._retry.timeout_seconds
        try:
            return await send_request(
                self._http, method, self._base_url + path, json=body, timeout_seconds=seconds
            )
        except TimeoutError as error:
            raise self._error(f"gave no answer in {seconds:g} s", retryable=True) from error
        except httpx2.DecodingError as error:
            raise self._error(f"sent what cannot be decoded: {error}") from error
        except httpx2.RequestError as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise self._error(
                f"could not be reached at {self._where}: {self._redact.excerpt(text)}",
                retryable=True,
            ) from error

    def _read(self, reply: HttpReply, allowed: Collection[int]) -> JsonReply:
        status, body = reply.status, reply.json_object()
        if status in allowed:
            return JsonReply(status, body or {})
        if not reply.is_success:
            text = self._redact.excerpt(_message_in(body) or reply.text)
            raise self._error(
                f"answered HTTP {status}{f': {text}' if text else ''}",
                status=status,
                retryable=is_retryable(status),
                retry_after=reply.retry_after,
            )
        if body is None:
            text = self._redact.excerpt(reply.text) or "nothing"
            raise self._error(
                f"answered HTTP {status}, but not with a JSON object: {text}", status=status
            )
        return JsonReply(status, body)

    def _with_attempts(self, error: PlaitError, attempts: int) -> BackendError:
        return BackendError(
            f"{error.message} (after {attempts} attempts)",
            backend=self.name,
            status=error.status,
            retryable=error.retryable,
            retry_after=error.retry_after,
        )

    def _error(self, text: str, **details: Any) -> BackendError:
        return BackendError(f"{self.name} {text}", backend=self.name, **details)


def is_retryable(status: int) -> bool:
    """Return whether the same request may succeed after this HTTP status."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _message_in(body: object) -> str | None:
    """Return the error message of a reply, in the shapes that providers use."""
    match body:
        case {"error": {"message": str() as message}}:
            return message
        case {"error": str() as message} | {"message": str() as message}:
            return message
        case _:
            return None


def completion_with(text: str, reply: Mapping[str, Any]) -> Completion:
    """Return a completion with the `model` and `usage` of a provider's reply."""
    model = reply.get("model")
    usage = reply.get("usage")
    counts = cast("Mapping[str, object]", usage if isinstance(usage, Mapping) else {})
    return Completion(
        text=text,
        model=model if isinstance(model, str) else None,
        input_tokens=_int_or_none(counts.get("prompt_tokens")),
        output_tokens=_int_or_none(counts.get("completion_tokens")),
    )


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
