"""Blocking runs are bounded, cancelled properly, and in the context of the caller."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextvars import ContextVar

import pytest

from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError

_LATE = AgentTimeoutError("the run took longer than 0.01 s")
_WHO: ContextVar[str] = ContextVar("who", default="nobody")


def test_the_work_runs_in_the_context_of_the_caller() -> None:
    async def work() -> tuple[str, str]:
        return _WHO.get(), threading.current_thread().name

    token = _WHO.set("ann")
    try:
        assert run_blocking(work, seconds=30, timeout_error=_LATE) == ("ann", "plait")
    finally:
        _WHO.reset(token)


def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        run_blocking(work, seconds=30, timeout_error=_LATE)


def test_work_that_takes_too_long_is_cancelled() -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(AgentTimeoutError, match=r"longer than 0\.01 s"):
        run_blocking(work, seconds=0.01, timeout_error=_LATE)

    assert cancelled.is_set()


def test_work_that_ends_with_a_result_when_it_is_called_off_is_not_lost() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "partial"
        return "whole"

    assert run_blocking(work, seconds=0.01, timeout_error=_LATE) == "partial"


def test_work_that_cannot_be_stopped_is_left_behind() -> None:
    stuck = threading.Event()

    async def work() -> None:
        stuck.wait()  # a library that blocks the loop

    with pytest.raises(AgentTimeoutError):
        run_blocking(work, seconds=0.01, closing_seconds=0.01, timeout_error=_LATE)

    stuck.set()


def test_ctrl_c_cancels_the_work_and_goes_on_to_the_caller() -> None:
    cancelled = threading.Event()
    main = threading.get_ident()

    async def work() -> None:
        try:
            signal.pthread_kill(main, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        run_blocking(work, seconds=30, timeout_error=_LATE)

    assert cancelled.is_set()
