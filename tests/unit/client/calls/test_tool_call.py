"""The limits of one call and of the whole run."""

from __future__ import annotations

import asyncio
import time

import pytest

from plait.client import run_deadline
from plait.client.calls.tool_call import ToolCall, call_deadline, within_run
from plait.client.config.servers import Timeouts
from plait.errors import RunDeadlineError

CALL = ToolCall(server="s", tool="slow")


@pytest.mark.parametrize(
    ("own", "timeouts", "default", "expected"),
    [
        (1, Timeouts(tool_seconds={"slow": 2}, call_seconds=3), 4, 1),
        (None, Timeouts(tool_seconds={"slow": 2}, call_seconds=3), 4, 2),
        (None, Timeouts(tool_seconds={"s/slow": 5, "slow": 2}), 4, 5),
        (None, Timeouts(tool_seconds={"*": 9, "slow": 2}), 4, 2),
        (None, Timeouts(tool_seconds={"s/*": 6}), 4, 6),
        (None, Timeouts(tool_seconds={"other/*": 6, "s*w": 7}), 4, 7),
        (None, Timeouts(tool_seconds={"fast": 2}, call_seconds=3), 4, 3),
        (None, Timeouts(), 4, 4),
        (0, Timeouts(), None, 60),
        (None, Timeouts(), None, 60),
    ],
)
def test_the_nearest_limit_counts(
    own: float | None, timeouts: Timeouts, default: float | None, expected: float
) -> None:
    call = ToolCall(server="s", tool="slow", timeout_seconds=own)

    assert call_deadline(call, timeouts, default).seconds == expected


def test_a_run_has_all_the_time_unless_somebody_says_otherwise() -> None:
    assert CALL.run_seconds_left() is None


def test_of_two_run_deadlines_the_nearer_counts() -> None:
    with run_deadline(10):
        with run_deadline(1000):
            assert 9 < (CALL.run_seconds_left() or 0) <= 10
        with run_deadline(5):
            assert 4 < (CALL.run_seconds_left() or 0) <= 5
        assert 9 < (CALL.run_seconds_left() or 0) <= 10
    assert CALL.run_seconds_left() is None


def test_a_call_may_bring_its_own_run_deadline() -> None:
    call = ToolCall(server="s", tool="slow", ends_at=time.monotonic() + 3)

    with run_deadline(10):
        assert (call.run_seconds_left() or 0) <= 3


@pytest.mark.anyio
async def test_a_run_deadline_reaches_tasks_that_are_started_in_it() -> None:
    async def left() -> float | None:
        return CALL.run_seconds_left()

    with run_deadline(10):
        task = asyncio.create_task(left())
        threaded = await asyncio.to_thread(CALL.run_seconds_left)

    assert await task is not None
    assert threaded is not None


@pytest.mark.anyio
async def test_work_ends_with_the_run() -> None:
    with run_deadline(0.01), pytest.raises(RunDeadlineError, match="s/slow") as caught:
        async with within_run(CALL):
            await asyncio.Event().wait()

    assert isinstance(caught.value, TimeoutError)
    assert not caught.value.retryable
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.anyio
async def test_nothing_is_begun_after_the_run() -> None:
    begun = False
    with run_deadline(-1), pytest.raises(RunDeadlineError, match="not sent"):
        async with within_run(CALL):
            begun = True

    assert not begun


@pytest.mark.anyio
async def test_another_timeout_is_not_taken_for_the_end_of_the_run() -> None:
    with run_deadline(1000), pytest.raises(TimeoutError) as caught:
        async with within_run(CALL):
            raise TimeoutError("somebody else's")

    assert not isinstance(caught.value, RunDeadlineError)
