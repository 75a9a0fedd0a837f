"""When a request to a model is repeated, and after which pause."""

from __future__ import annotations

import pytest

from plait import ModelConfig
from plait.agents import AgentMiddlewareConfig, ModelRetryConfig
from plait.agents.agent_run import retry_pause
from plait.errors import AgentExecutionError

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
