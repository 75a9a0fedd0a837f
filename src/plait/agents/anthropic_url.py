"""Where Anthropic's API is, for the engines that ask it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from plait.agents.model_config import ModelConfig
from plait.errors import ConfigError
from plait.models.endpoints import endpoint_fault

_VARIABLE = "ANTHROPIC_BASE_URL"


def anthropic_url(config: ModelConfig, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the URL of the configuration, else of the environment; `None` for Anthropic's own.

    Raises:
        ConfigError: It is none that a key may be sent to.
    """
    name, url = "anthropic_base_url", config.anthropic_base_url
    if url is None:
        name, url = _VARIABLE, environment.get(_VARIABLE)
    if not url:
        return None
    if (fault := endpoint_fault(url, secret=True)) is not None:
        raise ConfigError(f"{name} cannot be used: {fault}")
    return url
