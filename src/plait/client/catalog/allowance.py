"""Bounds the CPU time of work with the schemas of servers, whose parts can multiply without end.

Such work takes steps; each looks at the CPU time of its thread, which other threads do not change.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from plait._support.threads import in_thread

T = TypeVar("T")

QUICK_SECONDS = 0.02
"""How long a validation may take in an event loop; it starts again in a thread then."""
_MOST_SECONDS = 0.5
"""How long it may take there."""
_STEPS_PER_SECOND = 10_000
"""Even slow steps are as fast as this."""


class TooMuchWorkError(Exception):
    """Work with a schema takes too long, so that its outcome stays unknown."""


class _Allowance(threading.local):
    until: float | None = None
    """CPU time of this thread at which the running work ends; `None` outside of one."""
    steps: int = 0
    """How many steps it may take whatever the time: a garbage collection is not its fault."""
    of_test: bool = False
    """Whether a fast test has set it, for itself."""


_allowance = _Allowance()


@contextmanager
def allowed_seconds(seconds: float = _MOST_SECONDS) -> Generator[None]:
    """Bound the CPU time of the block, unless a bound is set already."""
    if _allowance.until is not None:
        yield
        return
    _start(seconds)
    try:
        yield
    finally:
        _allowance.until = None


def _start(seconds: float) -> None:
    _allowance.until = time.thread_time() + seconds
    _allowance.steps = int(seconds * _STEPS_PER_SECOND)


def take_step(weight: int = 1) -> None:
    """Raise `TooMuchWorkError` if the work of this thread has taken too long."""
    if _allowance.until is not None:
        _allowance.steps -= weight
        if _allowance.steps < 0 and time.thread_time() > _allowance.until:
            raise TooMuchWorkError("that takes too long")


def take_step_of_test() -> None:
    """Do what `take_step` does, in a fast test, which has a bound of its own if it needs one."""
    if _allowance.until is None:
        _start(QUICK_SECONDS)
        _allowance.of_test = True
    take_step()


def run_test(test: Callable[[Any], bool], value: object) -> bool:
    """Run a fast test; if it takes too long by its own bound, it does not accept the value."""
    try:
        return test(value)
    except TooMuchWorkError:
        if not _allowance.of_test:
            raise
        return False
    finally:
        if _allowance.of_test:
            _allowance.until, _allowance.of_test = None, False


async def in_bounded_time(work: Callable[[], T], seconds: float = math.inf) -> T:
    """Run work that validates: here if it is quick, else once more in a thread.

    It ends after `seconds` at the latest, however busy threads and machine are.

    Raises:
        TooMuchWorkError: It takes too long there as well.
    """
    try:
        with allowed_seconds(QUICK_SECONDS):
            return work()
    except TooMuchWorkError:
        pass

    def in_own_thread() -> T:
        with allowed_seconds(min(seconds, _MOST_SECONDS)):
            return work()

    try:
        async with asyncio.timeout(seconds if math.isfinite(seconds) else None):
            return await in_thread(in_own_thread)
    except TimeoutError:
        raise TooMuchWorkError("there is no time left") from None
