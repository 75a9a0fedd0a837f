"""What goes wrong with the Messages API, in words that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anthropic
import httpx2

from plait._support.redact import Redactor
from plait._support.retry_after import seconds_from_retry_after
from plait.agents.model_config import ModelConfig
from plait.errors import AgentExecutionError
from plait.models.endpoints import origin_of

FAILURES = (anthropic.APIError, httpx2.HTTPError)
"""What the SDK raises when the API cannot be used, or stops in the middle of an answer."""


def execution_error(
    error: Exception, *, base_url: str, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Say what failed, and what to do about it."""
    where = origin_of(base_url)
    if isinstance(error, anthropic.APIStatusError):
        said = redact.excerpt(_said(error))
        status = error.status_code
        advice = _advice(status, said, config)
        return AgentExecutionError(
            f"{where} answered {status}: {said}; {advice}",
            status=status,
            retry_after=seconds_from_retry_after(error.response.headers.get("retry-after")),
        )
    if isinstance(error, anthropic.APITimeoutError):
        limit = config.request_timeout
        waited = "in time" if limit is None else f"in {limit:g} s"
        return AgentExecutionError(
            f"{where} gave no answer {waited}: raise request_timeout, or look at the endpoint"
        )
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    said = redact.excerpt(str(cause or error)) or type(cause or error).__name__
    if isinstance(error, anthropic.APIConnectionError):
        advice = "check anthropic_base_url and the network"
        return AgentExecutionError(f"{where} cannot be reached: {said}; {advice}")
    return AgentExecutionError(f"the answer of {where} broke off: {said}; run it again")


def _said(error: anthropic.APIStatusError) -> str:
    """Find the provider's own words in its answer."""
    body = cast("Any", error.body)
    inner: object = cast("Any", body).get("error") if isinstance(body, Mapping) else None
    if isinstance(inner, Mapping):
        return str(cast("Mapping[str, Any]", inner).get("message") or error.message)
    return error.message


def _advice(status: int, said: str, config: ModelConfig) -> str:
    match status:
        case 401 | 403:
            return "check ANTHROPIC_API_KEY, or anthropic_api_key of the ModelConfig"
        case 404:
            return f"check model_name, which is {config.model_name!r}, and anthropic_base_url"
        case 429:
            return "wait, or raise max_retries"
        case 400 if "temperature" in said:
            return "set temperature=None"
        case 413:
            return "give the agent less to read"
        case _ if status >= 500:
            return "the provider is in trouble: try again later, or raise max_retries"
        case _:
            return "check the settings of the ModelConfig"
