"""One HTTP API that speaks JSON: attempts, pauses, and errors of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httpx2

from plait._support.clock import Clock, SystemClock
from plait._support.redact import Redactor
from plait._support.retry_after import seconds_from_retry_after
from plait.errors import BackendError
from plait.models.endpoints import is_loopback, origin_of
from plait.reasoning.backends.port import Completion
from plait.reasoning.backends.retry import Patience, pause_before_next


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a success, or a refusal that the caller wants to see."""

    status: int

    body: Mapping[str, Any]


class JsonApi:
    """Sends JSON to one provider, and asks again when that may help.

    Only 429, 5xx, timeouts and failures of the network are tried again.
    """

    def __init__(
        self,
        backend: str,
        base_url: str,
        *,
        key: str | None = None,
        patience: Patience | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._backend = backend
        self._base_url = base_url.rstrip("/")
        self._patience = patience or Patience()
        self._clock = clock or SystemClock()
        self._redact = Redactor([key] if key else [])
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=None,  # each attempt as a whole has a deadline
            # Proxies are not for this machine.
            trust_env=not is_loopback(base_url),
        )

    async def post(
        self, path: str, body: Mapping[str, Any], *, also: Collection[int] = ()
    ) -> Answer:
        """Post an object; refusals with a status in `also` are returned like a success.

        Raises:
            BackendError: The last attempt failed too, or it is of no use to repeat the first.
        """
        return await self._send("POST", path, body, also)

    async def get(self, path: str) -> Answer:
        """Get an object.

        Raises:
            BackendError: The last attempt failed too, or it is of no use to repeat the first.
        """
        return await self._send("GET", path, None, ())

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    def unusable(self, answer: Answer) -> BackendError:
        """Make an error of an answer from which nothing can be taken."""
        said = _message_in(answer.body) or json.dumps(answer.body, ensure_ascii=False)
        return self._failure(
            f"answered HTTP {answer.status}: {self._redact.excerpt(said)}", status=answer.status
        )

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, also: Collection[int]
    ) -> Answer:
        """Make the attempts that patience allows."""
        for attempts, delay in enumerate([*self._patience.delays(), None], start=1):
            try:
                return await self._attempt(method, path, body, also)
            except BackendError as error:
                pause = pause_before_next(delay, error.retry_after) if error.retryable else None
                if pause is None:
                    raise _counted(error, attempts) from error.__cause__
            await self._clock.sleep(pause)
        raise AssertionError("unreachable: after the last delay the error is raised")

    async def _attempt(
        self, method: str, path: str, body: Mapping[str, Any] | None, also: Collection[int]
    ) -> Answer:
        seconds = self._patience.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.request(method, self._base_url + path, json=body)
        except TimeoutError as error:
            raise self._failure(f"gave no answer in {seconds:g} s", retryable=True) from error
        except httpx2.DecodingError as error:
            raise self._failure(f"sent what cannot be decoded: {error}") from error
        except httpx2.RequestError as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            where = origin_of(self._base_url)
            raise self._failure(
                f"could not be reached at {where}: {self._redact.excerpt(text)}", retryable=True
            ) from error
        return self._read(response, also)

    def _read(self, response: httpx2.Response, also: Collection[int]) -> Answer:
        status = response.status_code
        try:
            value: object = json.loads(response.content)
        except (ValueError, RecursionError):
            value = None
        body = cast("dict[str, Any]", value) if isinstance(value, dict) else None
        if status in also:
            return Answer(status, body or {})
        if not response.is_success:
            said = self._redact.excerpt(_message_in(body) or response.text)
            raise self._failure(
                f"answered HTTP {status}{f': {said}' if said else ''}",
                status=status,
                retryable=may_pass(status),
                retry_after=seconds_from_retry_after(response.headers.get("retry-after")),
            )
        if body is None:
            said = self._redact.excerpt(response.text) or "nothing"
            raise self._failure(
                f"answered HTTP {status}, but not with a JSON object: {said}", status=status
            )
        return Answer(status, body)

    def _failure(
        self,
        said: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> BackendError:
        return BackendError(
            f"{self._backend} {said}",
            backend=self._backend,
            status=status,
            retryable=retryable,
            retry="always" if retryable else "never",
            retry_after=retry_after,
        )


def may_pass(status: int) -> bool:
    """Say whether the same request may succeed later, from its HTTP status."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _counted(error: BackendError, attempts: int) -> BackendError:
    """Return the error with the number of attempts in its text."""
    if attempts == 1:
        return error
    return BackendError(
        f"{error.message} (after {attempts} attempts)",
        backend=error.backend,
        status=error.status,
        retryable=error.retryable,
        retry=error.retry,
        retry_after=error.retry_after,
    )


def _message_in(body: object) -> str | None:
    """Find what a refusal says, in the shapes that providers use."""
    match body:
        case {"error": {"message": str() as message}}:
            return message
        case {"error": str() as message} | {"message": str() as message}:
            return message
        case _:
            return None


def completion_with(text: str, facts: Mapping[str, Any]) -> Completion:
    """Make a completion of a text and of the `model` and `usage` that came with it."""
    model = facts.get("model")
    usage = facts.get("usage")
    counts = cast("Mapping[str, object]", usage if isinstance(usage, Mapping) else {})
    return Completion(
        text=text,
        model=model if isinstance(model, str) else None,
        input_tokens=_whole(counts.get("prompt_tokens")),
        output_tokens=_whole(counts.get("completion_tokens")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
