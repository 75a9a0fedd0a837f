"""The chat models of a run, created from a `ModelConfig`, and their failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import httpx2
from langchain.chat_models import init_chat_model
from langchain_core.exceptions import ModelAPIError, ModelConnectionError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from plait._support.causes import without_secrets
from plait._support.http import seconds_from_retry_after
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait.agents.agent_run import CutAnswerError
from plait.agents.anthropic_api import anthropic_url
from plait.agents.config import ModelConfig
from plait.agents.engines.langchain.local_model import local_model
from plait.agents.engines.langchain.scripted_model import scripted_model
from plait.errors import AgentExecutionError, ConfigError, EngineUnavailableError
from plait.langchain.library_internals import replace_http_client
from plait.models.endpoints import (
    WrongPageError,
    endpoint_fault,
    is_loopback,
    is_transient,
    origin_of,
    sdk_client,
    with_version,
)

OPENROUTER_URL = "https://openrouter.ai/api/v1"

_KEYS: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}

_PACKAGES = ("anthropic", "openai")
"""The providers whose packages come with `plait[models]`."""

_SDK_SECONDS = 600.0
"""The timeout of a request without `request_timeout`, as in the SDKs of providers."""

_NO_KEY = "none"
"""Sent to endpoints on this machine that need no key: the SDKs require one."""


def provider_and_name(config: ModelConfig, name: str | None = None) -> tuple[str | None, str]:
    """Return the provider of a model, and its name there; `name` replaces the configured one.

    A name may contain its provider: `provider:name`.
    """
    model = name or config.model_name or ""
    if config.interface != "langchain":
        return "openai", model
    if config.model_provider and name is None:
        return config.model_provider, model
    provider, colon, rest = model.partition(":")
    return (provider, rest) if colon else (config.model_provider, model)


def import_provider(config: ModelConfig) -> None:
    """Import the package of the provider, which may take seconds."""
    provider = provider_and_name(config)[0]
    if provider == "local" and find_spec("xllamacpp") is None:
        text = "a local model needs a package: pip install 'plait[local]'"
        raise EngineUnavailableError(text, "local_model", "openai_endpoint")
    if provider in _PACKAGES:
        try:
            import_module(f"langchain_{provider}")
        except ImportError as error:
            raise _missing(provider, error) from error


def key_names(config: ModelConfig) -> str:
    """Name the settings that hold the key of a model."""
    if config.interface == "openrouter":
        return f"endpoint_api_key or {_KEYS['openrouter']}"
    if config.interface == "openai_endpoint":
        return "endpoint_api_key"
    provider = provider_and_name(config)[0] or ""
    variable = _KEYS.get(provider, "the key of the provider")
    return f"anthropic_api_key or {variable}" if provider == "anthropic" else variable


def base_url_of(config: ModelConfig) -> str | None:
    """Return the URL of the provider, if it is configured."""
    match config.interface:
        case "openai_endpoint":
            return with_version(config.endpoint_base_url or "")
        case "openrouter":
            return with_version(config.endpoint_base_url or OPENROUTER_URL)
        case _:
            return config.anthropic_base_url


class ChatModels:
    """Creates chat models with their own HTTP connections.

    LangChain shares connections in the process; they belong to the event loop that first used
    them, and fail in the next one.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._clients: list[httpx2.AsyncClient] = []

    def make(self, name: str | None = None) -> BaseChatModel:
        """Create the configured model, or the one named; may read files."""
        provider, model = provider_and_name(self._config, name)
        if provider == "scripted":
            return scripted_model(model)
        if provider == "local":
            return local_model(model)
        settings = self._settings(provider)
        if provider == "openai":
            settings.setdefault("stream_usage", True)
            if "http_async_client" not in settings:
                settings["http_async_client"] = self._client(base_url_of(self._config))
        try:
            if provider == "openai":
                # Maybe not installed.
                from plait.agents.engines.langchain.openai_model import (  # noqa: PLC0415
                    EndpointChatModel,
                )

                return EndpointChatModel(model=model, **settings)
            init = cast("Callable[..., BaseChatModel]", init_chat_model)
            chat_model = init(model, model_provider=provider, **settings)
        except ImportError as error:
            raise _missing(provider, error) from error
        if provider == "anthropic":
            replace_http_client(chat_model, self._client)
        return chat_model

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()

    def _settings(self, provider: str | None) -> dict[str, Any]:
        config = self._config
        settings: dict[str, Any] = {
            "max_retries": 0,  # the run itself retries, also in the middle of an answer
            "timeout": config.request_timeout or _SDK_SECONDS,
        }
        if config.temperature is not None:
            settings["temperature"] = config.temperature
        if config.interface == "langchain":
            settings["max_tokens"] = config.max_tokens
            settings |= self._credentials(provider)
            return settings | (config.extra_kwargs or {})
        settings |= self._endpoint() | (config.extra_kwargs or {})
        # The name that all endpoints support: LangChain sends a newer one of OpenAI.
        body: dict[str, Any] = settings.get("extra_body") or {}
        return {**settings, "extra_body": {"max_tokens": config.max_tokens, **body}}

    def _credentials(self, provider: str | None) -> dict[str, Any]:
        credentials: dict[str, Any] = {}
        config = self._config
        if provider == "anthropic":
            anthropic_url(config)  # checks the variable that LangChain reads, too
            if config.anthropic_base_url is not None:
                credentials["base_url"] = config.anthropic_base_url
            if config.anthropic_api_key is not None:
                credentials["api_key"] = config.anthropic_api_key
        variable = _KEYS.get(provider or "")
        if variable is None or "api_key" in {**credentials, **(config.extra_kwargs or {})}:
            return credentials
        if not os.environ.get(variable):
            url = credentials.get("base_url")
            if url is None or not is_loopback(url):
                raise self._missing_key()
            credentials["api_key"] = SecretStr(_NO_KEY)
        return credentials

    def _endpoint(self) -> dict[str, Any]:
        config = self._config
        url = base_url_of(config) or ""
        key = config.endpoint_api_key
        if key is None and config.interface == "openrouter":
            key = SecretStr(os.environ.get(_KEYS["openrouter"], ""))
        if not key and not is_loopback(url):
            raise self._missing_key()
        if (fault := endpoint_fault(url, secret=key is not None)) is not None:
            raise ConfigError(f"endpoint_base_url cannot be used: {fault}")
        # Without a key, LangChain would send OpenAI's key to the endpoint.
        return {"base_url": url, "api_key": key or SecretStr(_NO_KEY)}

    def _missing_key(self) -> EngineUnavailableError:
        config, keys = self._config, key_names(self._config)
        text = f"{config.interface}: there is no key for {config.model_name}: set {keys}"
        return EngineUnavailableError(text, "missing_api_key")

    def _client(self, base_url: str | None) -> httpx2.AsyncClient:
        self._clients.append(sdk_client(base_url))
        return self._clients[-1]


def _missing(provider: str | None, error: ImportError) -> EngineUnavailableError:
    hint = f"langchain-{provider} is not installed: pip install 'plait[models]'"
    return EngineUnavailableError(hint if provider in _PACKAGES else str(error), "missing_package")


def failure_of_model(
    error: Exception, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Create the redacted error that ends a run; raise it outside of the handler."""
    # The SDK of the provider wraps what the HTTP client raised, and causes may form a circle.
    page: BaseException | None = error
    seen: set[int] = set()
    while page is not None and not isinstance(page, WrongPageError):
        seen.add(id(page))
        page = page.__cause__ or page.__context__
        page = None if id(page) in seen else page
    if page is not None:
        text = f"{config.interface}: {redact(str(page))}"
        failure = AgentExecutionError(text, status=page.status)
        failure.__cause__ = error
        without_secrets(failure, redact)
        return failure
    excerpt = redact.excerpt(str(error) or type(error).__name__)
    status, fault = _status_of(error), _fault_of(error)
    advice = _advice(error, status, config)
    if fault.get("code") == "insufficient_quota":
        retryable = False
    elif status is not None:
        retryable = is_transient(status)
    else:
        # Without a status, a provider reports that it failed while it answered.
        retryable = isinstance(error, _PASSING) or type(error).__name__ == "APIError"
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    failure = AgentExecutionError(
        f"{config.interface}: {config.model_name}: {advice}: {type(error).__name__}: {excerpt}",
        status=status,
        retry_after=seconds_from_retry_after(headers.get("retry-after")),
        retryable=retryable,
        retry="always" if retryable else "never",
    )
    failure.__cause__ = error
    without_secrets(failure, redact)
    return failure


_PASSING = (
    *(ModelAPIError, ModelConnectionError, ModelTimeoutError),
    *(ConnectionError, TimeoutError, httpx2.TransportError),
)
"""Failures of a provider that may pass, if they have no status."""

_STATUSES: Mapping[str, int] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
}
"""The HTTP status of errors in the middle of a stream, which has begun with 200."""


def _status_of(error: Exception) -> int | None:
    code = getattr(error, "status_code", None)
    if isinstance(code, int) and code >= 400:
        return code
    fault = _fault_of(error)
    kinds = (str(fault.get(name)) for name in ("type", "code"))
    return next((_STATUSES[kind] for kind in kinds if kind in _STATUSES), None)


def _fault_of(error: Exception) -> Mapping[str, Any]:
    """Return the body of an error of a provider."""
    body = entries_of(getattr(error, "body", None) or getattr(error.__cause__, "body", None))
    if not body and error.args and hasattr(error.args[0], "model_dump"):
        return error.args[0].model_dump()  # a response of OpenAI that failed
    return entries_of(body.get("error")) or body


def _advice(error: Exception, status: int | None, config: ModelConfig) -> str:
    url = base_url_of(config)
    where = "the provider" if url is None else origin_of(url)
    match status:
        case 401 | 403:
            return f"{where} rejects the key: check {key_names(config)}"
        case 404:
            return f"{where} does not know the model, or the URL is wrong: check model_name"
        case 429:
            return f"{where} limits the rate, or the quota is used up: wait, or raise max_retries"
        case int() if status >= 500:
            return f"{where} failed: try again later"
        case int():
            return f"{where} rejects the request"
        case None:
            pass
    if isinstance(error, CutAnswerError | httpx2.RemoteProtocolError):
        return f"the answer of {where} is incomplete: run it again"
    if isinstance(error, TimeoutError | ModelTimeoutError):
        return f"{where} did not answer in time: raise request_timeout"
    if isinstance(error, ConnectionError | ModelConnectionError):
        return f"no answer from {where}: check the URL, and whether it runs"
    return "the run failed"
