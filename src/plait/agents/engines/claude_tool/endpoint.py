"""Where the Messages API is, and the key for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

from plait.agents.model_config import ModelConfig, anthropic_url
from plait.errors import AgentExecutionError
from plait.models.connections import certificates
from plait.models.endpoints import is_loopback

OFFICIAL: Final = "https://api.anthropic.com"

_NO_KEY: Final = "none"
"""Sent to this machine, where nobody asks for a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicEndpoint:
    """A URL, and what opens it."""

    base_url: str

    api_key: str | None = field(default=None, repr=False)

    auth_token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, model_config: ModelConfig, environment: Mapping[str, str] = os.environ
    ) -> AnthropicEndpoint:
        """Take it from the configuration, or else from the environment.

        Raises:
            AgentExecutionError: There is no key.
            ConfigError: The URL is none that a key may be sent to.
        """
        base_url = anthropic_url(model_config, environment) or OFFICIAL
        given = model_config.anthropic_api_key
        if given is not None and given.get_secret_value():
            return cls(base_url=base_url, api_key=given.get_secret_value())
        if key := environment.get("ANTHROPIC_API_KEY"):
            return cls(base_url=base_url, api_key=key)
        if token := environment.get("ANTHROPIC_AUTH_TOKEN"):
            return cls(base_url=base_url, auth_token=token)
        if is_loopback(base_url):
            return cls(base_url=base_url, api_key=_NO_KEY)
        raise AgentExecutionError(
            "there is no key for Anthropic's API: set ANTHROPIC_API_KEY, or anthropic_api_key of "
            "the ModelConfig"
        )

    @property
    def is_official(self) -> bool:
        """Whether it is Anthropic's own, which keeps threads of messages."""
        return urlsplit(self.base_url).hostname == urlsplit(OFFICIAL).hostname

    @property
    def secrets(self) -> list[str]:
        """What must not be shown."""
        return [secret for secret in (self.api_key, self.auth_token) if secret]

    def client(self, *, max_retries: int, request_timeout: float | None) -> AsyncAnthropic:
        """Make a client; whoever asked for it closes it."""
        # Proxies are not for this machine.
        outside = not is_loopback(self.base_url)
        client = AsyncAnthropic(
            api_key=self.api_key,
            auth_token=self.auth_token,
            base_url=self.base_url,
            max_retries=max_retries,
            http_client=DefaultAsyncHttpxClient(verify=certificates(), trust_env=outside),
        )
        return client if request_timeout is None else client.with_options(timeout=request_timeout)
