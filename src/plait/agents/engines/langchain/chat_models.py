"""The chat models of a run, created from a `ModelConfig`."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import httpx2
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from plait.agents.anthropic_api import NO_KEY, anthropic_url
from plait.agents.config import ModelConfig
from plait.agents.engines.langchain.local_model import local_model
from plait.agents.engines.langchain.scripted_model import scripted_model
from plait.agents.model_failures import KEYS, endpoint_of, key_names, provider_and_name
from plait.errors import ConfigError, EngineUnavailableError
from plait.langchain.library_internals import replace_http_client
from plait.models.endpoints import (
    endpoint_fault,
    is_loopback,
    sdk_client,
)

_PACKAGES = ("anthropic", "openai")
"""The providers whose packages come with `plait[models]`."""

_SDK_SECONDS = 600.0
"""The timeout of a request without `request_timeout`, as in the SDKs of providers."""


def import_provider(config: ModelConfig) -> None:
    """Import the package of the provider, which may take seconds."""
    provider = provider_and_name(config)[0]
    if provider == "local" and find_spec("xllamacpp") is None:
        text = "a local model needs a package: pip install 'plait[local]'"
        raise EngineUnavailableError(text, "local_model", "openai_endpoint")
    if (package := _package_of(provider)) in _PACKAGES:
        try:
            import_module(f"langchain_{package}")
        except ImportError as error:
            raise _missing(provider, error) from error


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
        try:
            if _package_of(provider) == "openai":
                settings.setdefault("stream_usage", True)
                if "http_async_client" not in settings:
                    settings["http_async_client"] = self._client(endpoint_of(self._config))
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
        variable = KEYS.get(provider or "")
        if variable is None or "api_key" in {**credentials, **(config.extra_kwargs or {})}:
            return credentials
        if not os.environ.get(variable):
            url = credentials.get("base_url")
            if url is None or not is_loopback(url):
                raise self._missing_key()
            credentials["api_key"] = SecretStr(NO_KEY)
        return credentials

    def _endpoint(self) -> dict[str, Any]:
        config = self._config
        url = endpoint_of(config) or ""
        key = config.endpoint_api_key
        if key is None and config.interface == "openrouter":
            key = SecretStr(os.environ.get(KEYS["openrouter"], ""))
        if not key and not is_loopback(url):
            raise self._missing_key()
        if (fault := endpoint_fault(url, secret=key is not None)) is not None:
            raise ConfigError(f"endpoint_base_url cannot be used: {fault}")
        # Without a key, LangChain would send OpenAI's key to the endpoint.
        return {"base_url": url, "api_key": key or SecretStr(NO_KEY)}

    def _missing_key(self) -> EngineUnavailableError:
        config, keys = self._config, key_names(self._config)
        text = f"{config.interface}: there is no key for {config.model_name}: set {keys}"
        return EngineUnavailableError(text, "missing_api_key")

    def _client(self, base_url: str | None) -> httpx2.AsyncClient:
        self._clients.append(sdk_client(base_url))
        return self._clients[-1]


def _package_of(provider: str | None) -> str | None:
    """Return whose package of LangChain speaks the protocol of a provider."""
    return "openai" if provider == "openrouter" else provider


def _missing(provider: str | None, error: ImportError) -> EngineUnavailableError:
    package = _package_of(provider)
    hint = f"langchain-{package} is not installed: pip install 'plait[models]'"
    return EngineUnavailableError(hint if package in _PACKAGES else str(error), "missing_package")


def init_chat_model_unified(
    model: str, provider: str | None = None, interface: str = "langchain", **settings: Any
) -> BaseChatModel:
    """Create the chat model with which the langchain engine would run a model.

    `settings` are fields of `ModelConfig`; others are passed to the chat model.

    Raises:
        EngineUnavailableError: A package or a key is missing.
    """
    own = {name: settings.pop(name) for name in list(settings) if name in ModelConfig.model_fields}
    config = ModelConfig(
        id=model,
        model_name=model,
        model_provider=provider,
        interface=interface,
        extra_kwargs=settings or None,
        **own,
    )
    return ChatModels(config).make()
