"""The endpoint of Anthropic's Messages API: its URL, its key and its failures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

from plait._support.http import seconds_from_retry_after
from plait._support.redact import Redactor
from plait.agents.anthropic_api import NO_KEY, advice_for, anthropic_url
from plait.agents.model_config import ModelConfig
from plait.errors import AgentExecutionError
from plait.models.endpoints import certificates, is_loopback, origin_of

OFFICIAL: Final = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicEndpoint:
    """A URL, with its credentials."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, model_config: ModelConfig, environment: Mapping[str, str] = os.environ
    ) -> AnthropicEndpoint:
        """Read the configuration, or else the environment.

        Raises:
            AgentExecutionError: There is no key.
            ConfigError: A key must not be sent to that URL.
        """
        base_url = anthropic_url(model_config, environment) or OFFICIAL
        configured = model_config.anthropic_api_key
        if configured is not None and configured.get_secret_value():
            return cls(base_url=base_url, api_key=configured.get_secret_value())
        if key := environment.get("ANTHROPIC_API_KEY"):
            return cls(base_url=base_url, api_key=key)
        if token := environment.get("ANTHROPIC_AUTH_TOKEN"):
            return cls(base_url=base_url, auth_token=token)
        if is_loopback(base_url):
            return cls(base_url=base_url, api_key=NO_KEY)
        raise AgentExecutionError(
            "there is no key for Anthropic's API: set ANTHROPIC_API_KEY, or anthropic_api_key of "
            "the ModelConfig"
        )

    @property
    def is_official(self) -> bool:
        """Whether it is Anthropic's own API, which stores threads of messages."""
        return urlsplit(self.base_url).hostname == urlsplit(OFFICIAL).hostname

    @property
    def secrets(self) -> list[str]:
        """The credentials, for redaction."""
        return [secret for secret in (self.api_key, self.auth_token) if secret]

    def client(self, config: ModelConfig) -> AsyncAnthropic:
        """Create a client; the caller closes it."""
        uses_proxies = not is_loopback(self.base_url)
        timeout = config.request_timeout
        client = AsyncAnthropic(
            api_key=self.api_key,
            auth_token=self.auth_token,
            base_url=self.base_url,
            max_retries=config.max_retries,
            http_client=DefaultAsyncHttpxClient(verify=certificates(), trust_env=uses_proxies),
        )
        return client if timeout is None else client.with_options(timeout=timeout)


FAILURES = (anthropic.APIError, httpx2.HTTPError)
"""The exceptions of the SDK, also in the middle of an answer."""


def execution_error(
    error: Exception, *, base_url: str, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Translate a failure of the API to an error with advice."""
    where = origin_of(base_url)
    if isinstance(error, anthropic.APIStatusError):
        reason = redact.excerpt(_message_of(error))
        status = error.status_code
        advice = _advice(status, reason, config)
        return AgentExecutionError(
            f"{where} answered {status}: {reason}; {advice}",
            status=status,
            retry_after=seconds_from_retry_after(error.response.headers.get("retry-after")),
        )
    if isinstance(error, anthropic.APITimeoutError):
        limit = config.request_timeout
        waited = "in time" if limit is None else f"in {limit:g} s"
        return AgentExecutionError(
            f"{where} did not answer {waited}: raise request_timeout, or look at the endpoint"
        )
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    reason = redact.excerpt(str(cause or error)) or type(cause or error).__name__
    if isinstance(error, anthropic.APIConnectionError):
        advice = "check anthropic_base_url and the network"
        return AgentExecutionError(f"{where} cannot be reached: {reason}; {advice}")
    return AgentExecutionError(f"the answer of {where} is incomplete: {reason}; run it again")


def _message_of(error: anthropic.APIStatusError) -> str:
    """Return the error message of the provider."""
    body = cast("Any", error.body)
    inner: object = cast("Any", body).get("error") if isinstance(body, Mapping) else None
    if isinstance(inner, Mapping):
        return str(cast("Mapping[str, Any]", inner).get("message") or error.message)
    return error.message


def _advice(status: int, reason: str, config: ModelConfig) -> str:
    is_temperature = status == 400 and "temperature" in reason
    return "set temperature=None" if is_temperature else advice_for(status, config)
