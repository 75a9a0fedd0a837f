"""The backend that uses a chat model of LangChain, by name or as an object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from langchain_core.exceptions import (
    ModelAuthenticationError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from plait._support.redact import Redactor
from plait.errors import BackendError, ConfigError
from plait.reasoning.backends.http import RetryPolicy, is_retryable
from plait.reasoning.backends.port import Completion, Prompt

_STATUS: dict[type[ModelError], HTTPStatus] = {
    ModelAuthenticationError: HTTPStatus.UNAUTHORIZED,
    ModelPermissionDeniedError: HTTPStatus.FORBIDDEN,
    ModelNotFoundError: HTTPStatus.NOT_FOUND,
    ModelInvalidRequestError: HTTPStatus.BAD_REQUEST,
    ModelRateLimitError: HTTPStatus.TOO_MANY_REQUESTS,
}


MakeChatModel: TypeAlias = Callable[..., BaseChatModel]
"""Creates a chat model from its name and settings, as LangChain's `init_chat_model` does."""


class LangChainCompleter:
    """Completes prompts with a chat model.

    A model name is instantiated once for each temperature and length, with `key` or the key that
    LangChain finds. A model object is used unchanged. The model itself retries failed requests,
    by its `max_retries`.
    """

    name = "model"

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        make: MakeChatModel | None = None,
    ) -> None:
        self._source = model
        self._make = make or _init_chat_model
        self._seconds = (retry or RetryPolicy()).timeout_seconds
        self._key = {"api_key": key} if key else {}
        self._redact = Redactor(self._key.values())
        self._made: dict[tuple[float | None, int], BaseChatModel] = {}
        self._takes_temperature = True

    def describe(self) -> str:
        """Return the name of the model."""
        if isinstance(self._source, str):
            return f"langchain model {self._source}"
        return f"langchain model {type(self._source).__name__}"

    async def open(self) -> None:
        """Check that the model can be created; no request is sent."""
        self._model(None, 1)

    async def complete(self, prompt: Prompt) -> Completion:
        """Send the prompt; a temperature that the model rejects is omitted from then on."""
        if not self._takes_temperature or not isinstance(self._source, str):
            return await self._ask(self._model(None, prompt.max_tokens), prompt)
        try:
            return await self._ask(self._model(prompt.temperature, prompt.max_tokens), prompt)
        except BackendError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
        completion = await self._ask(self._model(None, prompt.max_tokens), prompt)
        self._takes_temperature = False
        return completion

    async def aclose(self) -> None:
        """Drop the models; they close their connections when they are collected."""
        self._made.clear()

    def _model(self, temperature: float | None, max_tokens: int) -> BaseChatModel:
        if not isinstance(self._source, str):
            return self._source
        key = (temperature, max_tokens)
        if key not in self._made:
            settings: dict[str, Any] = {"max_tokens": max_tokens, **self._key}
            if temperature is not None:
                settings["temperature"] = temperature
            self._made[key] = self._named(self._source, **settings)
        return self._made[key]

    def _named(self, name: str, **settings: Any) -> BaseChatModel:
        try:
            return self._make(name, **settings)
        except ImportError as error:
            package = (error.name or "").replace("_", "-")
            hint = self._redact.excerpt(str(error)) or f"{package} is not installed"
            raise ConfigError(f"the model {name!r} cannot be used: {hint}") from error
        except Exception as error:  # boundary: providers check their settings in their own ways
            text = self._redact.excerpt(str(error))
            raise ConfigError(f"the model {name!r} cannot be used: {text}") from error

    async def _ask(self, model: BaseChatModel, prompt: Prompt) -> Completion:
        messages = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                answer = await model.ainvoke(messages)
        except Exception as error:  # boundary: every provider has errors of its own
            if isinstance(error, TimeoutError) and limit.expired():
                text = f"gave no answer in {self._seconds:g} s"
                raise self._failure(text, None, retryable=True) from error
            raise self._failed(error) from error
        return _completion_from(answer)

    def _failed(self, error: Exception) -> BackendError:
        status = _status_of(error)
        text = self._redact.excerpt(f"{type(error).__name__}: {error}")
        return self._failure(f"failed: {text}", status, retryable=_is_retryable(error, status))

    def _failure(self, text: str, status: int | None, *, retryable: bool) -> BackendError:
        message = f"{self.describe()} {text}"
        return BackendError(message, backend=self.name, status=status, retryable=retryable)


def _init_chat_model(model: str, /, **settings: Any) -> BaseChatModel:
    # `langchain` is slow to import and not needed for a model object.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    return cast("MakeChatModel", init_chat_model)(model, **settings)


def _completion_from(answer: AIMessage) -> Completion:
    usage = answer.usage_metadata
    model = answer.response_metadata.get("model_name") or answer.response_metadata.get("model")
    return Completion(
        text=str(answer.text),
        model=model if isinstance(model, str) else None,
        input_tokens=usage["input_tokens"] if usage else None,
        output_tokens=usage["output_tokens"] if usage else None,
    )


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status of a provider's error, or of LangChain's class for it."""
    status: object = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    return next((int(known) for kind, known in _STATUS.items() if isinstance(error, kind)), None)


def _is_retryable(error: Exception, status: int | None) -> bool:
    if isinstance(error, ModelError):
        return error.is_retryable
    if status is not None:
        return is_retryable(status)
    return isinstance(error, (TimeoutError, ConnectionError))
