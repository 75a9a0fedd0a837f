"""How a run of Claude's command line ended: its usage, and what failed in words that help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from claude_agent_sdk import CLINotFoundError, ResultMessage

from plait._support.redact import Redactor
from plait.agents.live_agent import Ending
from plait.agents.model_config import ModelConfig
from plait.errors import AgentExecutionError
from plait.traces.messages.usage import UsageMetadata

_COUNTS = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
)

_SAID_CHARACTERS = 400


def usage_from_result(result: ResultMessage) -> UsageMetadata | None:
    """Add up what all models of a run needed; `None` if nothing was counted."""
    models = cast("Mapping[str, Mapping[str, Any]]", result.model_usage or {})
    if not models:
        return None
    read, written, cache_read, cache_made = (
        sum(usage.get(name) or 0 for usage in models.values()) for name in _COUNTS
    )
    return UsageMetadata(
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        cost_usd=result.total_cost_usd,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_made,
    )


def ending_of(
    result: ResultMessage, config: ModelConfig, redact: Redactor, stderr: str | None
) -> Ending:
    """Say how the run ended.

    Raises:
        AgentExecutionError: It failed.
    """
    if result.subtype == "error_max_turns":
        return "limit"
    if result.subtype == "success" and not result.is_error:
        return "completed"
    said = result.result or "; ".join(result.errors or ()) or result.subtype
    text = f"claude_agent_sdk: {redact.excerpt(said, _SAID_CHARACTERS)}"
    status = result.api_error_status
    if result.subtype == "success":  # the command line went well, and the API did not
        text = f"{text}; {_advice(status, said, config)}"
    raise AgentExecutionError(text, stderr=stderr, status=status)


def execution_error(error: Exception, redact: Redactor, stderr: str | None) -> AgentExecutionError:
    """Say why the command line itself cannot be used."""
    last = (stderr or "").rpartition("\n")[2]
    said = redact.excerpt(str(error).partition("\nError output:")[0], _SAID_CHARACTERS)
    if isinstance(error, CLINotFoundError):
        said = "Claude's command line is not there: pip install 'plait[claude]'"
    elif last and last not in said:
        said = f"{said}: {redact.excerpt(last)}"
    return AgentExecutionError(f"claude_agent_sdk: {said}", stderr=stderr)


def _advice(status: int | None, said: str, config: ModelConfig) -> str:
    match status:
        case 401 | 403:
            return "check ANTHROPIC_API_KEY, or anthropic_api_key of the ModelConfig"
        case 404:
            return f"check model_name, which is {config.model_name!r}, and anthropic_base_url"
        case 413:
            return "give the agent less to read"
        case 429:
            return "wait, or raise max_retries"
        case int() if status >= 500:
            return "the provider is in trouble: try again later, or raise max_retries"
        case int():
            return "check the settings of the ModelConfig"
        case None:
            return _advice_without_status(said)


def _advice_without_status(said: str) -> str:
    if re.search(r"log(ged)? ?in\b", said, re.IGNORECASE):
        return "set ANTHROPIC_API_KEY, or anthropic_api_key of the ModelConfig"
    if "timed out" in said.lower():
        return "raise request_timeout, or look at the endpoint"
    return "check anthropic_base_url and the network, or raise max_retries"
