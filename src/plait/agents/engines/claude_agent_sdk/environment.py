"""The environment of Claude's command line: the key and limits, without a user's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plait.agents.anthropic_api import NO_KEY, anthropic_url
from plait.agents.model_config import ModelConfig
from plait.models.endpoints import is_loopback

_LONG_MS: Final = "86400000"
"""A day: the limits of the run and the toolbox apply instead."""

_LARGE: Final = "100000000"

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

_CLOUDS: Final = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
)
"""Select a cloud, whose tools keep its credentials in the home folder."""

_ALWAYS: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    # All tools are in the first request, without a search.
    "ENABLE_TOOL_SEARCH": "false",
    # Only the configured model answers, as a stream, which shows when an answer is complete.
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_MCP_TASK_BACKGROUND": "1",
    "MCP_TIMEOUT": _LONG_MS,
    "MCP_TOOL_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _LONG_MS,
    "MAX_MCP_OUTPUT_TOKENS": _LARGE,
    "CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH": _LARGE,
    # Programs that it starts do not get the key.
    "CLAUDE_CODE_MCP_ALLOWLIST_ENV": "1",
}


def environment_for(
    config: ModelConfig, folder: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of the command line; `folder` belongs to the run."""
    variables = {
        **_ALWAYS,
        "CLAUDE_CODE_MAX_RETRIES": str(config.max_retries),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(config.max_tokens),
        "CLAUDE_CODE_TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        **_credentials(config, environ),
    }
    if config.request_timeout is not None:
        variables["API_TIMEOUT_MS"] = str(max(1, round(config.request_timeout * 1000)))
    if needs_login(config, environ):
        return variables
    variables["CLAUDE_CONFIG_DIR"] = str(folder / "settings")
    if _is_configured(config) or not any(environ.get(name) for name in _CLOUDS):
        variables["HOME"] = variables["USERPROFILE"] = str(folder)
    return variables


def secrets_in(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys in the environment, for redaction."""
    return [secret for name in _KEYS if (secret := environ.get(name))]


def needs_login(config: ModelConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """Check whether only the user's own login can be used: there is no key and no URL."""
    return not _is_configured(config) and not any(environ.get(name) for name in (*_KEYS, *_CLOUDS))


def _is_configured(config: ModelConfig) -> bool:
    return config.anthropic_api_key is not None or config.anthropic_base_url is not None


def _credentials(config: ModelConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the configured credentials, and clear those of the environment.

    Raises:
        ConfigError: A key must not be sent to that URL.
    """
    anthropic_url(config, environ)
    url, key = config.anthropic_base_url, config.anthropic_api_key
    variables: dict[str, str] = {}
    if _is_configured(config):
        variables |= dict.fromkeys(_CLOUDS, "")
    if url is not None:
        variables["ANTHROPIC_BASE_URL"] = url
    if key is not None:
        variables |= dict.fromkeys(_KEYS, "")
        variables["ANTHROPIC_API_KEY"] = key.get_secret_value()
    elif url is not None:
        variables["CLAUDE_CODE_OAUTH_TOKEN"] = ""
        if is_loopback(url) and not any(environ.get(name) for name in _KEYS[:2]):
            variables["ANTHROPIC_API_KEY"] = NO_KEY
    return variables
