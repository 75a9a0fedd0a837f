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
from langchain_core.messages import HumanMessage, SystemMessage

from plait._support.redact import Redactor
from plait.errors import BackendError, ConfigError
from plait.models.endpoints import is_transient
from plait.reasoning.backends.http import RetryPolicy
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
        self._make = make
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
        key, name = (temperature, max_tokens), self._source
        if key in self._made:
            return self._made[key]
        settings: dict[str, Any] = {"max_tokens": max_tokens, **self._key}
        if temperature is not None:
            settings["temperature"] = temperature
        make = self._make
        try:
            if make is None:
                # `langchain` is slow to import and not needed for a model object.
                from langchain.chat_models import init_chat_model  # noqa: PLC0415

                make = cast("MakeChatModel", init_chat_model)
            model = make(name, **settings)
        except ImportError as error:
            package = (error.name or "").replace("_", "-")
            hint = self._redact.excerpt(str(error)) or f"{package} is not installed"
            raise ConfigError(f"the model {name!r} cannot be used: {hint}") from error
        except Exception as error:  # boundary: providers check their settings in their own ways
            text = self._redact.excerpt(str(error))
            raise ConfigError(f"the model {name!r} cannot be used: {text}") from error
        self._made[key] = model
        return model

    async def _ask(self, model: BaseChatModel, prompt: Prompt) -> Completion:
        messages = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                answer = await model.ainvoke(messages)
        except Exception as error:  # boundary: every provider has errors of its own
            # The HTTP status is in the provider's error, or in LangChain's class for it.
            known = (code for kind, code in _STATUS.items() if isinstance(error, kind))
            own: object = getattr(error, "status_code", None)
            status = own if isinstance(own, int) else next(known, None)
            retryable = isinstance(error, TimeoutError | ConnectionError)
            text = f"failed: {self._redact.excerpt(f'{type(error).__name__}: {error}')}"
            if isinstance(error, TimeoutError) and limit.expired():
                status, text = None, f"gave no answer in {self._seconds:g} s"
            elif isinstance(error, ModelError):
                retryable = error.is_retryable
            elif status is not None:
                retryable = is_transient(status)
            message = f"{self.describe()} {text}"
            raise BackendError(
                message, backend=self.name, status=status, retryable=retryable
            ) from error
        usage, metadata = answer.usage_metadata, answer.response_metadata
        name = metadata.get("model_name") or metadata.get("model")
        return Completion(
            text=str(answer.text),
            model=name if isinstance(name, str) else None,
            input_tokens=usage["input_tokens"] if usage else None,
            output_tokens=usage["output_tokens"] if usage else None,
        )
