"""Errors of SDKs and of LangChain, told apart by their names, and when a request is repeated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from plait import ModelConfig
from plait._support.redact import Redactor
from plait.agents import AgentMiddlewareConfig, ModelRetryConfig
from plait.agents.agent_run import retry_pause
from plait.agents.model_failures import CutAnswerError, failure_of_model
from plait.errors import AgentExecutionError
from plait.models.endpoints import WrongPageError

HEADERS = SimpleNamespace(headers={"retry-after": "7"})


def error(kind: str, **attributes: Any) -> Exception:
    """Make an error of a class with this name, as an SDK raises it."""
    made: Exception = type(kind, (Exception,), {})("it failed with canary-key")
    vars(made).update(attributes)
    return made


def caused(by: Exception, kind: str = "ModelAPIError") -> Exception:
    """Make an error of LangChain around one of an SDK."""
    made = error(kind)
    made.__cause__ = by
    return made


def fault(**entries: str) -> dict[str, Any]:
    return {"error": {"message": "no, canary-key", **entries}}


QUOTA, OVERLOADED = fault(code="insufficient_quota"), fault(type="overloaded_error")


@pytest.mark.parametrize(
    ("failed", "status", "retryable", "says"),
    [
        (error("APIStatusError", status_code=401, body=fault()), 401, False, "api_key"),
        (error("RateLimitError", status_code=429, response=HEADERS), 429, True, "max_retries"),
        (error("RateLimitError", status_code=429, body=QUOTA), 429, False, "quota"),
        (error("APIError", body=QUOTA), 429, False, "quota"),
        (error("APIStatusError", status_code=200, body=OVERLOADED), 529, True, "later"),
        (caused(error("APIError", body=OVERLOADED)), 529, True, "later"),
        (error("APIError"), None, True, "the run failed"),
        (error("ModelAPIError"), None, True, "the run failed"),
        (error("SomethingElse"), None, False, "the run failed"),
        (error("APITimeoutError"), None, True, "in 3 s: raise request_timeout"),
        (error("APIConnectionError"), None, True, "cannot be reached"),
        (TimeoutError("late"), None, True, "raise request_timeout"),
        (CutAnswerError("it ended"), None, True, "run it again"),
        (httpx2.ReadError("gone"), None, True, "run it again"),
        (caused(WrongPageError("http://h/", 200)), 200, False, "with a web page"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failure_has_its_status_and_may_be_retryable(
    failed: Exception, status: int | None, retryable: bool, says: str
) -> None:
    config = ModelConfig(id="m", model_name="m", model_provider="anthropic", request_timeout=3)

    failure = failure_of_model(failed, config, Redactor(["canary-key"]))

    assert (failure.status, failure.retryable) == (status, retryable)
    assert failure.retry == ("always" if retryable else "never")
    assert failure.retry_after == (7 if getattr(failed, "response", None) else None)
    assert says in str(failure)
    assert "canary" not in str(failure)


def test_causes_in_a_circle_are_followed_once() -> None:
    one, other = error("A"), error("B")
    one.__cause__, other.__cause__ = other, one

    assert not failure_of_model(one, ModelConfig(id="m", model_name="m"), Redactor()).retryable


RETRY = ModelRetryConfig(
    max_retries=2, initial_delay=1.0, backoff_factor=3.0, max_delay=2.0, jitter=False
)
CONFIG = ModelConfig(
    id="m", model_name="m", agent_middleware=AgentMiddlewareConfig(model_retry=RETRY)
)


def failure(*, retryable: bool = True, retry_after: float | None = None) -> AgentExecutionError:
    return AgentExecutionError("it failed", retryable=retryable, retry_after=retry_after)


def test_pauses_grow_up_to_the_longest_and_end_with_the_attempts() -> None:
    pauses = [retry_pause(CONFIG, failure(), attempt, None) for attempt in (1, 2, 3)]
    assert pauses == [1.0, 2.0, None]
    assert retry_pause(CONFIG, failure(retryable=False), 1, None) is None


@pytest.mark.parametrize(
    ("retry_after", "seconds_left", "pause"),
    [(None, 1.5, 1.0), (None, 1.0, None), (30.0, 31.0, 30.0), (30.0, 29.0, None)],
)
def test_no_pause_goes_beyond_the_deadline(
    retry_after: float | None, seconds_left: float, pause: float | None
) -> None:
    assert retry_pause(CONFIG, failure(retry_after=retry_after), 1, seconds_left) == pause


def test_a_run_without_a_deadline_waits_no_hour() -> None:
    assert retry_pause(CONFIG, failure(retry_after=59.0), 1, None) == 59.0
    assert retry_pause(CONFIG, failure(retry_after=3600.0), 1, None) is None
