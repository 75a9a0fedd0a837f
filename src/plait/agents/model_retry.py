"""Repeats requests to a model that failed in passing, within the deadline of the run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from plait.agents.agent_run import AgentRun
from plait.agents.config import ModelConfig
from plait.errors import PlaitError

T = TypeVar("T")

_chance = random.Random()  # independent of the seed that a program sets

_LONGEST_SECONDS: Final = 60.0
"""The longest pause of a run without a deadline; a provider may request hours."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504, 529})


class CutAnswerError(ConnectionError):
    """The answer of the model is incomplete."""


def is_transient(status: int) -> bool:
    """Check whether a request may succeed later, by its HTTP status."""
    return status in _TRANSIENT


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """How often a request is repeated, and after which pauses."""

    max_retries: int = 2
    first_delay: float = 0.5
    factor: float = 2.0
    longest_delay: float = 8.0
    jitter: bool = True

    @classmethod
    def of(cls, config: ModelConfig) -> RetryPlan:
        """Read the configuration of a model, or of its middleware."""
        if config.agent_middleware is None:
            return cls(max_retries=config.max_retries)
        retry = config.agent_middleware.model_retry
        return cls(
            max_retries=retry.max_retries,
            first_delay=retry.initial_delay,
            factor=retry.backoff_factor,
            longest_delay=retry.max_delay,
            jitter=retry.jitter,
        )

    def pause(self, error: PlaitError, attempt: int, seconds_left: float | None) -> float | None:
        """Return the seconds before the next attempt; `None` if there must be none."""
        if not error.retryable or attempt > self.max_retries:
            return None
        delay = min(self.longest_delay, self.first_delay * self.factor ** (attempt - 1))
        if self.jitter:
            delay *= _chance.uniform(0.75, 1.25)
        if error.retry_after is not None:
            delay = error.retry_after
        longest = _LONGEST_SECONDS if seconds_left is None else seconds_left
        return delay if delay < longest else None


async def with_retries(
    run: AgentRun,
    request: Callable[[dict[str, Any] | None], Awaitable[T]],
    failure_of: Callable[[Exception], PlaitError],
    *,
    passes: tuple[type[Exception], ...] = (),
) -> T:
    """Make a request to the model, and repeat it while its failure is `retryable`.

    `request` passes its argument to `describe_answer`. `failure_of` translates a failure;
    exceptions in `passes` are raised as they are.

    Raises:
        PlaitError: The last failure, which says whether a later attempt may succeed.
    """
    plan = RetryPlan.of(run.model_config)
    attempt = 1
    while True:
        try:
            with run.chat_span() as span:
                return await request(span)
        except passes:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: providers may raise anything
            failure = error if isinstance(error, PlaitError) else failure_of(error)
            failure.attempts = attempt
        pause = plan.pause(failure, attempt, run.seconds_left())
        if pause is None:
            # Outside of the handler: otherwise the original error, with secrets, is its context.
            raise failure
        attempt += 1
        run.model_retry(attempt, str(failure), pause, failure.status)
        await asyncio.sleep(pause)
