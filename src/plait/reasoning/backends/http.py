"""Backends at the JSON API of a provider: OpenAI's protocol, a local model, and Langbase."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, cast

import httpx2

from plait._support.clock import Clock, SystemClock
from plait._support.http_requests import send_request, with_retries
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait.errors import BackendError, PlaitError
from plait.models.endpoints import (
    is_transient,
    origin_of,
    provider_client,
    texts_at,
    with_version,
    writing_models,
)
from plait.models.weights import LocalModel
from plait.reasoning.backends.port import Completer, Completion, Prompt, fields
from plait.reasoning.prompts import PROMPTS

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
        self._http = provider_client(
            base_url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            follow_redirects=False,
        )

    async def _send(
        self, path: str, body: Mapping[str, Any] | None = None, *, allowed: Collection[int] = ()
    ) -> tuple[int, Mapping[str, Any]]:
        """Post an object, or get one; return the status and the object of the reply.

        A status in `allowed` is returned like a success.
        """
        count = itertools.count(1)
        method, seconds = "GET" if body is None else "POST", self._retry.timeout_seconds

        async def attempt() -> tuple[int, Mapping[str, Any]]:
            try:
                reply = await send_request(
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
            status, answer = reply.status, reply.json_object()
            if status in allowed:
                return status, answer or {}
            if not reply.is_success:
                text = self._redact.excerpt(_message_in(answer) or reply.text)
                raise self._error(
                    f"answered HTTP {status}{f': {text}' if text else ''}",
                    status=status,
                    retryable=is_transient(status),
                    retry_after=reply.retry_after,
                )
            if answer is None:
                text = self._redact.excerpt(reply.text) or "nothing"
                raise self._error(
                    f"answered HTTP {status}, but not with a JSON object: {text}", status=status
                )
            return status, answer

        async def logged_attempt() -> tuple[int, Mapping[str, Any]]:
            facts: dict[str, object] = {"backend": self.name, "path": path, "attempt": next(count)}
            logger.debug(
                "request of attempt %(attempt)d to %(backend)s", facts, extra=fields(facts)
            )
            began = time.monotonic()
            try:
                status, answer = await attempt()
            except BackendError as error:
                facts |= {"status": error.status, "error": str(error)}
                logger.warning("attempt %(attempt)d failed: %(error)s", facts, extra=fields(facts))
                raise
            facts |= {"status": status, "ms": round((time.monotonic() - began) * 1000)}
            logger.debug("response %(status)d in %(ms)d ms", facts, extra=fields(facts))
            return status, answer

        def give_up(error: PlaitError, attempts: int) -> BackendError:
            return BackendError(
                f"{error.message} (after {attempts} attempts)",
                backend=self.name,
                status=error.status,
                retryable=error.retryable,
                retry_after=error.retry_after,
            )

        return await with_retries(
            logged_attempt,
            delays=self._retry.delays(),
            clock=self._clock,
            give_up=give_up,
            max_retry_after_seconds=MAX_RETRY_AFTER_SECONDS,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    def _unusable(self, status: int, body: Mapping[str, Any]) -> BackendError:
        """Return the error for a reply that has no completion."""
        text = _message_in(body) or json.dumps(body, ensure_ascii=False)
        return self._error(f"answered HTTP {status}: {self._redact.excerpt(text)}", status=status)

    def _error(self, text: str, **details: Any) -> BackendError:
        return BackendError(f"{self.name} {text}", backend=self.name, **details)


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
    counts = entries_of(reply.get("usage"))
    read, written = counts.get("prompt_tokens"), counts.get("completion_tokens")
    return Completion(
        text=text,
        model=model if isinstance(model, str) else None,
        input_tokens=read if type(read) is int else None,
        output_tokens=written if type(written) is int else None,
    )


_REJECTED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """The request settings that an endpoint supports; all of them until it rejects one."""

    json_mode: bool = True
    by_schema: bool = False
    """Whether the JSON mode is sent the schema of the reply."""
    temperature: bool = True
    length_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def without(self, param: str | None) -> RequestSettings | None:
        """Return the settings without a rejected one; `None` if nothing is left to omit.

        Endpoints that do not name the rejected setting mostly mean the JSON mode.
        """
        match param:
            case "max_tokens" if self.length_key == "max_tokens":
                return replace(self, length_key="max_completion_tokens")
            case "temperature" if self.temperature:
                return replace(self, temperature=False)
            case _ if self.json_mode:
                return replace(self, json_mode=False)
            case _:
                return None


class OpenAICompatibleCompleter(HttpCompleter):
    """Completes prompts at one endpoint; without a model name, with its first model.

    `name` is what the endpoint is: `openai`, or `ollama`.
    `options` are those of `HttpCompleter`.
    """

    name = "openai"

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        name: str = "openai",
        by_schema: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(with_version(base_url), **options)
        self.name = name
        self._model = model
        self._settings = RequestSettings(by_schema=by_schema)

    def describe(self) -> str:
        """Return the model and the endpoint."""
        return f"{self._model or 'the first model'} at {self._where}"

    async def open(self) -> None:
        """Choose the first model of the endpoint, if none is named."""
        if self._model is not None:
            return
        _, reply = await self._send("/models")
        models = writing_models(texts_at(reply.get("data"), "id"))
        if not models:
            raise BackendError(
                f"{self.name} has no model at {self._where}", backend=self.name, status=200
            )
        self._model = models[0]

    async def complete(self, prompt: Prompt) -> Completion:
        """Send the prompt; a setting that the endpoint rejects is omitted from then on."""
        await self.open()
        settings: RequestSettings | None = self._settings
        while True:
            body = chat_body(prompt, self._model or "", settings)
            status, reply = await self._send("/chat/completions", body, allowed=_REJECTED)
            if status not in _REJECTED:
                self._settings = settings
                if (completion := completion_from_chat(reply)) is None:
                    raise self._unusable(status, reply)
                return completion
            settings = settings.without(entries_of(reply.get("error")).get("param"))
            if settings is None or chat_body(prompt, self._model or "", settings) == body:
                raise self._unusable(status, reply)


def chat_body(prompt: Prompt, model: str, settings: RequestSettings) -> dict[str, Any]:
    """Return the request for a prompt, with the settings that the endpoint supports."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ],
        "stream": False,
        settings.length_key: prompt.max_tokens,
    }
    if settings.temperature:
        body["temperature"] = prompt.temperature
    if settings.json_mode and prompt.json:
        body["response_format"] = {"type": "json_object"}
        if settings.by_schema and prompt.schema is not None:
            shape = {"name": "reply", "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return body


def completion_from_chat(body: Mapping[str, Any]) -> Completion | None:
    """Return the completion of a chat; `None` if there is none. A refusal is an empty text."""
    match body.get("choices"):
        case [{"message": {"content": str() as text}}, *_]:
            return completion_with(text, body)
        case [{"message": {"content": None}}, *_]:
            return completion_with("", body)
        case [{"message": {"content": [*parts]}}, *_]:
            return completion_with("".join(texts_at(parts, "text")), body)
        case _:
            return None


MAX_LOCAL_TOKENS: Final = 1600
"""Room for a problem of some fifty rules; a model that writes more has lost the thread."""


class LocalCompleter(Completer):
    """Completes prompts with a local model, whose answers are held to the requested JSON.

    `at_once` is how many prompts it works on together.
    """

    name = "local"

    def __init__(self, path: Path, *, model: str, retry: RetryPolicy, at_once: int = 1) -> None:
        self._model = LocalModel(path, at_once=at_once)
        self._name = model
        self._retry = replace(retry, max_retries=0)
        self._inner: OpenAICompatibleCompleter | None = None
        self._url: str | None = None

    def describe(self) -> str:
        """Return the model."""
        return f"{self._name} on this machine"

    async def complete(self, prompt: Prompt) -> Completion:
        """Start the model if it does not run, and send it the prompt."""
        url = await self._model.base_url()
        if self._inner is None or url != self._url:
            await self._close_inner()
            self._url = url
            self._inner = OpenAICompatibleCompleter(
                url, model=self._name, name=self.name, retry=self._retry, by_schema=True
            )
        return await self._inner.complete(
            replace(prompt, max_tokens=min(prompt.max_tokens, MAX_LOCAL_TOKENS))
        )

    async def _close_inner(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()

    async def aclose(self) -> None:
        """End the model."""
        await self._close_inner()
        await self._model.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeNames:
    """The pipe of each mode."""

    linear: str = "linear-reasoning-v1"
    tree: str = "tree-reasoning-v1"
    divergent: str = "divergent-reasoning-v1"
    reflection: str = "reflection-v1"
    auto: str = "mode-router-v1"
    backtracking: str = "backtracking-reasoning-v1"
    got_generate: str = "got-generate-v1"
    got_score: str = "got-score-v1"
    got_aggregate: str = "got-aggregate-v1"
    got_refine: str = "got-refine-v1"
    solve: str = "problem-statement-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeSettings:
    """The model settings of a pipe."""

    temperature: float
    max_tokens: int


PIPE_SETTINGS: Final[Mapping[str, PipeSettings]] = {
    "linear": PipeSettings(temperature=0.7, max_tokens=2000),
    "tree": PipeSettings(temperature=0.8, max_tokens=3000),
    "divergent": PipeSettings(temperature=0.9, max_tokens=3000),
    "reflection": PipeSettings(temperature=0.6, max_tokens=2500),
    "auto": PipeSettings(temperature=0.5, max_tokens=1000),
    "backtracking": PipeSettings(temperature=0.7, max_tokens=2000),
    "got_generate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_score": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_aggregate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_refine": PipeSettings(temperature=0.7, max_tokens=2500),
    # What a question says is copied: there is one right statement.
    "solve": PipeSettings(temperature=0.0, max_tokens=3000),
}
"""By the fields of `PipeNames`; other backends use the same values."""


BASE_URL: Final = "https://api.langbase.com"

PIPE_MODEL: Final = "openai:gpt-4o-mini"
"""The model of a new pipe."""

MAX_PIPE_REQUESTS: Final = 4


class LangbaseCompleter(HttpCompleter):
    """Runs a pipe for each prompt; `open` creates the pipes.

    Langbase keeps no conversations: each prompt is complete. `options` are those of
    `HttpCompleter`.
    """

    name = "langbase"

    def __init__(
        self,
        key: str,
        *,
        base_url: str = BASE_URL,
        pipes: PipeNames | None = None,
        **options: Any,
    ) -> None:
        super().__init__(base_url, key=key, **options)
        self._pipes = pipes
        self._has_pipes = pipes is None
        self._making_pipes = asyncio.Lock()

    def describe(self) -> str:
        """Return where the pipes run."""
        return f"Langbase pipes at {self._where}"

    async def open(self) -> None:
        """Create or update the pipes of all modes, with their prompts.

        A pipe that modes share has no prompt of its own, and the settings of the first mode; every
        request has a prompt anyway.
        """
        async with self._making_pipes:
            if not self._has_pipes:
                await self._make_pipes(asdict(self._pipes) if self._pipes else {})
            self._has_pipes = True

    async def _make_pipes(self, names: Mapping[str, str]) -> None:
        limit = asyncio.Semaphore(MAX_PIPE_REQUESTS)
        modes: dict[str, list[str]] = {}
        for mode, name in names.items():
            modes.setdefault(name, []).append(mode)

        async def ensure(name: str) -> None:
            mode, *others = modes[name]
            body: dict[str, Any] = {
                "name": name,
                "status": "private",
                "model": PIPE_MODEL,
                "upsert": True,
                "stream": False,
                "json": True,
                "store": False,
                **asdict(PIPE_SETTINGS[mode]),
            }
            if not others:
                body["messages"] = [{"role": "system", "content": PROMPTS[mode]}]
            async with limit:
                # A pipe that exists and may not be changed can be used.
                await self._send("/v1/pipes", body, allowed=(HTTPStatus.CONFLICT,))

        # All of them are awaited: a connection that is being opened would be left open.
        for outcome in await asyncio.gather(*map(ensure, modes), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def complete(self, prompt: Prompt) -> Completion:
        """Run the pipe of the prompt; the pipes are made first if that has not succeeded yet."""
        await self.open()
        body: dict[str, Any] = {
            "name": prompt.pipe,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            # Pipes stream by default.
            "stream": False,
        }
        if prompt.variables:
            body["variables"] = [
                {"name": name, "value": value} for name, value in prompt.variables.items()
            ]
        status, reply = await self._send("/v1/pipes/run", body)
        text: object = reply.get("completion")
        if reply.get("success") is False or not isinstance(text, str):
            raise self._unusable(status, reply)
        # Model and usage are beside the completion, or in `raw`.
        raw = reply.get("raw")
        details = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else reply
        return completion_with(text, details)
