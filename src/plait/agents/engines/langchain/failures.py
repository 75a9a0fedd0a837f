"""Translates failures of models to errors with advice."""

from __future__ import annotations

from langchain_core.exceptions import ModelConnectionError, ModelTimeoutError

from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait.agents.engines.langchain.chat_models import base_url_of, key_names
from plait.agents.model_config import ModelConfig
from plait.errors import AgentExecutionError
from plait.models.endpoints import origin_of

_UNAUTHORIZED = (401, 403)
_NOT_FOUND = 404
_TOO_MANY = 429
_SERVER_ERROR = 500


def failure_of_model(
    error: Exception, config: ModelConfig, redact: Redactor
) -> AgentExecutionError:
    """Create the redacted error that ends a run; raise it outside of the handler."""
    excerpt = redact.excerpt(str(error) or type(error).__name__)
    status = getattr(error, "status_code", None)
    advice = _advice(error, status if isinstance(status, int) else None, config)
    text = f"{config.interface}: {config.model_name}: {advice}: {type(error).__name__}: {excerpt}"
    failure = AgentExecutionError(text, status=status if isinstance(status, int) else None)
    failure.__cause__ = error
    without_secrets(failure, redact)
    return failure


def _advice(error: Exception, status: int | None, config: ModelConfig) -> str:
    where = _where(config)
    if status in _UNAUTHORIZED:
        return f"{where} rejects the key: check {key_names(config)}"
    if status == _NOT_FOUND:
        return f"{where} does not know the model, or the URL is wrong: check model_name"
    if status == _TOO_MANY:
        return f"{where} limits the rate, or the quota is used up: wait, or raise max_retries"
    if status is not None and status >= _SERVER_ERROR:
        return f"{where} failed: try again later"
    if status is not None:
        return f"{where} rejects the request"
    if isinstance(error, TimeoutError | ModelTimeoutError):
        return f"{where} did not answer in time: raise request_timeout"
    if isinstance(error, ConnectionError | ModelConnectionError):
        return f"no answer from {where}: check the URL, and whether it runs"
    return "the run failed"


def _where(config: ModelConfig) -> str:
    url = base_url_of(config)
    return "the provider" if url is None else origin_of(url)
