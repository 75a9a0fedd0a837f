"""What Claude's command line finds in its environment: the key, limits, and nobody's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plait.agents.model_config import ModelConfig, anthropic_url
from plait.models.endpoints import is_loopback

_LONG_MS: Final = "86400000"
"""A day: the run and the toolbox have limits of their own, and theirs shall hold."""

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
"""Set, a cloud is asked, with the credentials that its own tools keep in the home folder."""

_NO_KEY: Final = "none"
"""Sent to this machine, where nobody asks for a key."""

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
    # Tools are sent with the first request, and not found by a search.
    "ENABLE_TOOL_SEARCH": "false",
    # The model that was chosen answers, and as a stream, which tells when an answer is complete.
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
    # Programs that it starts are not told the key.
    "CLAUDE_CODE_MCP_ALLOWLIST_ENV": "1",
}


def environment_for(
    config: ModelConfig, folder: Path, given: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Make the variables of the command line; `folder` is one of the run's own."""
    made = {
        **_ALWAYS,
        "CLAUDE_CODE_MAX_RETRIES": str(config.max_retries),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(config.max_tokens),
        "CLAUDE_CODE_TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        **_credentials(config, given),
    }
    if config.request_timeout is not None:
        made["API_TIMEOUT_MS"] = str(max(1, round(config.request_timeout * 1000)))
    if needs_login(config, given):
        return made
    made["CLAUDE_CONFIG_DIR"] = str(folder / "settings")
    if not _uses_cloud(config, given):
        made["HOME"] = made["USERPROFILE"] = str(folder)
    return made


def secrets_in(given: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys in the environment, which must not be shown."""
    return [secret for name in _KEYS if (secret := given.get(name))]


def needs_login(config: ModelConfig, given: Mapping[str, str] = os.environ) -> bool:
    """Say whether the person's own login is the only way: there is no key, and no other URL."""
    if config.anthropic_api_key is not None or config.anthropic_base_url is not None:
        return False
    return not any(given.get(name) for name in (*_KEYS, *_CLOUDS))


def _uses_cloud(config: ModelConfig, given: Mapping[str, str]) -> bool:
    if config.anthropic_api_key is not None or config.anthropic_base_url is not None:
        return False
    return any(given.get(name) for name in _CLOUDS)


def _credentials(config: ModelConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return what the configuration gives; other credentials then do not count.

    Raises:
        ConfigError: The URL is none that a key may be sent to.
    """
    anthropic_url(config, given)
    url, key = config.anthropic_base_url, config.anthropic_api_key
    made: dict[str, str] = {}
    if url is not None or key is not None:
        made |= dict.fromkeys(_CLOUDS, "")
    if url is not None:
        made["ANTHROPIC_BASE_URL"] = url
    if key is not None:
        made |= dict.fromkeys(_KEYS, "")
        made["ANTHROPIC_API_KEY"] = key.get_secret_value()
    elif url is not None:
        made["CLAUDE_CODE_OAUTH_TOKEN"] = ""
        if is_loopback(url) and not any(given.get(name) for name in _KEYS[:2]):
            made["ANTHROPIC_API_KEY"] = _NO_KEY
    return made
