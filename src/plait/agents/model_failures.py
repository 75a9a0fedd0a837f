"""The provider of a configured model, and the errors of runs in which it fails."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import httpx2

from plait._support.causes import without_secrets
from plait._support.http_requests import seconds_from_retry_after
from plait._support.mappings import entries_of
from plait._support.redact import Redactor
from plait.agents.config import ModelConfig
from plait.errors import AgentExecutionError
from plait.models.endpoints import WrongPageError, is_transient, origin_of, with_version

KEYS: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}
"""The variables that hold the keys of providers."""

_ENDPOINTS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "anthropic": (("ANTHROPIC_BASE_URL",), "https://api.anthropic.com"),
    "openai": (("OPENAI_API_BASE", "OPENAI_BASE_URL"), "https://api.openai.com/v1"),
    "openrouter": ((), "https://openrouter.ai/api/v1"),
}
"""The variables that set the endpoints of providers, and their own endpoints."""

_ENGINE_PROVIDERS: Final[Mapping[str, str]] = {
    "claude_tool": "anthropic",
    "claude_agent_sdk": "anthropic",
    "openrouter": "openrouter",
    "openai_endpoint": "openai",
}
"""The providers of engines that have only one."""


def provider_and_name(config: ModelConfig, name: str | None = None) -> tuple[str | None, str]:
    """Return the provider of a model, and its name there; `name` replaces the configured one.

    A name may contain its provider: `provider:name`.
    """
    model = name or config.model_name or ""
    if (own := _ENGINE_PROVIDERS.get(config.interface)) is not None:
        return own, model
    if config.model_provider and name is None:
        return config.model_provider, model
    provider, colon, rest = model.partition(":")
    return (provider, rest) if colon else (config.model_provider, model)


def endpoint_of(config: ModelConfig) -> str | None:
    """Return the URL that requests go to, as far as it is known."""
    extra = config.extra_kwargs or {}
    settings = (extra.get("base_url"), config.endpoint_base_url, config.anthropic_base_url)
    variables, default = _ENDPOINTS.get(provider_and_name(config)[0] or "", ((), None))
    if config.interface == "openai_endpoint":  # whose key goes nowhere else
        variables, default = (), None
    url = next(filter(None, (*settings, *map(os.environ.get, variables), default)), None)
    is_openai = config.interface in ("openai_endpoint", "openrouter")
    return with_version(url) if url is not None and is_openai else url


def key_names(config: ModelConfig) -> str:
    """Name the settings that hold the key of a model."""
    if config.interface == "openai_endpoint":
        return "endpoint_api_key"
    provider = provider_and_name(config)[0] or ""
    variable = KEYS.get(provider, "the key of the provider")
    fields = {"anthropic": "anthropic_api_key or ", "openrouter": "endpoint_api_key or "}
    return fields.get(provider, "") + variable


def advice_for(status: int, config: ModelConfig) -> str:
    """Return what to do about an HTTP error of a provider."""
    key = f"check {key_names(config)}"
    advice = {
        401: key,
        403: key,
        404: f"check model_name, which is {config.model_name!r}, and the base URL",
        413: "shorten the input of the agent",
        429: "wait, raise max_retries, or look whether the quota is used up",
    }
    failed = "the provider failed: try again later, or raise max_retries"
    return advice.get(status, failed if status >= 500 else "check the settings of the ModelConfig")


class CutAnswerError(ConnectionError):
    """The answer of the model is incomplete."""


_STATUSES: Final[Mapping[str, int]] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
}
"""The HTTP status of errors in the middle of a stream, which has begun with 200."""


def failure_of_model(
    error: Exception, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Create the redacted error that ends a run; raise it outside of the handler.

    The errors of the SDKs, and LangChain's around them, are told apart by the names of their
    classes and by their attributes, which all of them share: no SDK needs to be installed.
    """
    failure = _translated(error, config, redact)
    failure.__cause__ = error
    without_secrets(failure, redact)
    return failure


def _translated(error: Exception, config: ModelConfig, redact: Redactor) -> AgentExecutionError:
    # The SDK of the provider wraps what the HTTP client raised, and causes may form a circle.
    page: BaseException | None = error
    seen: set[int] = set()
    while page is not None and not isinstance(page, WrongPageError):
        seen.add(id(page))
        page = page.__cause__ or page.__context__
        page = None if id(page) in seen else page
    if page is not None:
        text = f"{config.interface}: {redact(str(page))}"
        return AgentExecutionError(text, status=page.status)

    body = entries_of(getattr(error, "body", None) or getattr(error.__cause__, "body", None))
    if not body and error.args and hasattr(error.args[0], "model_dump"):
        body = error.args[0].model_dump()  # a response of OpenAI that failed
    fault: Mapping[str, Any] = entries_of(body.get("error")) or body
    status: int | None = getattr(error, "status_code", None)
    if not isinstance(status, int) or status < 400:
        kinds = (str(fault.get(name)) for name in ("type", "code"))
        status = next((_STATUSES[kind] for kind in kinds if kind in _STATUSES), None)

    reason = redact.excerpt(str(fault.get("message") or error) or type(error).__name__)
    url = endpoint_of(config)
    where = "the provider" if url is None else origin_of(url)
    names = {kind.__name__ for kind in type(error).__mro__}
    retryable = True
    if status is not None:
        retryable = is_transient(status) and fault.get("code") != "insufficient_quota"
        is_temperature = status == 400 and "temperature" in reason
        advice = "set temperature=None" if is_temperature else advice_for(status, config)
        text = f"{where} answered {status}: {reason}; {advice}"
    elif isinstance(error, CutAnswerError | httpx2.HTTPError):
        text = f"the answer of {where} is incomplete: {reason}; run it again"
    elif isinstance(error, TimeoutError) or names & {"APITimeoutError", "ModelTimeoutError"}:
        limit = config.request_timeout
        waited = "in time" if limit is None else f"in {limit:g} s"
        text = f"{where} did not answer {waited}: raise request_timeout, or look at the endpoint"
    elif names & {"APIConnectionError", "ModelConnectionError", "ConnectionError"}:
        cause = redact.excerpt(str(error.__cause__ or error)) or reason
        text = f"{where} cannot be reached: {cause}; check the URL, and whether it runs"
    else:
        # Without a status, a provider reports that it failed while it answered.
        retryable = bool(names & {"ModelAPIError", "APIStatusError"}) or (
            type(error).__name__ == "APIError"
        )
        text = f"the run failed: {type(error).__name__}: {reason}"
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    return AgentExecutionError(
        f"{config.interface}: {config.model_name}: {text}",
        status=status,
        retry_after=seconds_from_retry_after(headers.get("retry-after")),
        retryable=retryable,
        retry="always" if retryable else "never",
    )
