"""The end of a run of Claude's command line: its usage, or its failure with advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from claude_agent_sdk import CLINotFoundError, ResultMessage

from plait._support.redact import Redactor
from plait.agents.anthropic_api import advice_for
from plait.agents.live_agent import Ending
from plait.agents.model_config import ModelConfig
from plait.errors import AgentExecutionError
from plait.traces.messages.usage import UsageMetadata

_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

_EXCERPT_CHARACTERS = 400


def usage_from_result(result: ResultMessage) -> UsageMetadata | None:
    """Add up the usage of all models of a run; `None` if none is reported."""
    models = cast("Mapping[str, Mapping[str, Any]]", result.model_usage or {})
    if not models:
        return None
    inputs, outputs, cache_read, cache_written = (
        sum(usage.get(name) or 0 for usage in models.values()) for name in _COUNTS
    )
    return UsageMetadata(
        input_tokens=inputs,
        output_tokens=outputs,
        total_tokens=inputs + outputs,
        cost_usd=result.total_cost_usd,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_written,
    )


def ending_of(
    result: ResultMessage, config: ModelConfig, redact: Redactor, stderr: str | None
) -> Ending:
    """Return how the run ended.

    Raises:
        AgentExecutionError: The run failed.
    """
    if result.subtype == "error_max_turns":
        return "limit"
    if result.subtype == "success" and not result.is_error:
        return "completed"
    reason = result.result or "; ".join(result.errors or ()) or result.subtype
    text = f"claude_agent_sdk: {redact.excerpt(reason, _EXCERPT_CHARACTERS)}"
    status = result.api_error_status
    if result.subtype == "success":  # the API failed, not the command line
        advice = _advice(reason) if status is None else advice_for(status, config)
        text = f"{text}; {advice}"
    raise AgentExecutionError(text, stderr=stderr, status=status)


def execution_error(error: Exception, redact: Redactor, stderr: str | None) -> AgentExecutionError:
    """Translate a failure of the command line itself."""
    last_line = (stderr or "").rpartition("\n")[2]
    reason = redact.excerpt(str(error).partition("\nError output:")[0], _EXCERPT_CHARACTERS)
    if isinstance(error, CLINotFoundError):
        reason = "Claude's command line is not installed: pip install 'plait[claude]'"
    elif last_line and last_line not in reason:
        reason = f"{reason}: {redact.excerpt(last_line)}"
    return AgentExecutionError(f"claude_agent_sdk: {reason}", stderr=stderr)


def _advice(reason: str) -> str:
    if re.search(r"log(ged)? ?in\b", reason, re.IGNORECASE):
        return "set ANTHROPIC_API_KEY, or anthropic_api_key of the ModelConfig"
    if "timed out" in reason.lower():
        return "raise request_timeout, or look at the endpoint"
    return "check anthropic_base_url and the network, or raise max_retries"
