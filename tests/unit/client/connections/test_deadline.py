"""Time limits expire, progress extends them up to a cap, and their errors say which it was."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest

from plait.client.connections.deadline import Deadline
from plait.errors import CallTimeoutError, ListTimeoutError, PlaitError

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Lets time pass at once instead of waiting for it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock runs only while nothing else does."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def _run(work: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """Run something in virtual time; return what it returned and how long it took."""

    async def main() -> tuple[T, float]:
        return await work(), asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main())


async def _expires(deadline: Deadline, block: Callable[[], Awaitable[Any]]) -> bool:
    """Run a block under the deadline, and say whether the limit ended it."""
    try:
        async with deadline:
            await block()
    except TimeoutError:
        return deadline.expired
    return False


MAY_HAVE_RUN = "; it may still take effect, so check before doing it again"

Steps = list[Any]
"""Seconds to sleep, `PROGRESS`, and lists of steps during which a person is waited for."""
PROGRESS = "progress"


async def _take(deadline: Deadline, steps: Steps) -> None:
    for step in steps:
        if step == PROGRESS:
            deadline.extend()
        elif isinstance(step, list):
            with deadline.held():
                await _take(deadline, cast("Steps", step))
        else:
            await asyncio.sleep(step)


def _progress(every: float, times: int) -> Steps:
    return [every, PROGRESS] * times + [10_000]


@pytest.mark.parametrize(
    ("cap", "steps", "outcome"),
    [
        pytest.param(None, [1000], (True, 60), id="a block that takes too long is ended"),
        pytest.param(None, [59], (False, 59), id="one that ends in time is left alone"),
        pytest.param(600, _progress(50, 3), (True, 210), id="progress starts the limit afresh"),
        pytest.param(200, _progress(10, 1000), (True, 200), id="up to the cap only"),
        pytest.param(None, _progress(10, 100), (True, 60), id="which is the limit by default"),
        pytest.param(5, [1000], (True, 60), id="a cap below the limit does not shorten it"),
        pytest.param(None, [20, [500], 10_000], (True, 560), id="a pause does not count"),
        pytest.param(None, [50, [300], 1000], (True, 360), id="the rest counts after a pause"),
        pytest.param(
            100, [[500], *_progress(50, 10)], (True, 600), id="the cap is ahead after a pause"
        ),
        pytest.param(
            100, [50, [300, PROGRESS, [300]], *_progress(5, 100)], (True, 700), id="pauses nest"
        ),
    ],
)
def test_a_limit_of_a_minute(cap: float | None, steps: Steps, outcome: tuple[bool, float]) -> None:
    deadline = Deadline(60, cap_seconds=cap)

    assert _run(lambda: _expires(deadline, lambda: _take(deadline, steps))) == outcome
    assert deadline.expired is outcome[0]


def test_a_limit_of_zero_ends_a_block_at_once() -> None:
    assert _run(lambda: _expires(Deadline(0), lambda: asyncio.sleep(1))) == (True, 0)


def test_a_timeout_of_the_block_itself_is_no_expiry() -> None:
    deadline = Deadline(60)

    async def block() -> None:
        raise TimeoutError

    assert _run(lambda: _expires(deadline, block)) == (False, 0)
    assert not deadline.expired


def test_the_callers_own_cancellation_is_no_expiry() -> None:
    deadline = Deadline(60)

    async def work() -> bool:
        task = asyncio.create_task(_expires(deadline, lambda: asyncio.sleep(1000)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert _run(work) == (True, 1)
    assert not deadline.expired


def test_each_attempt_has_the_whole_time_and_nothing_counts_between_them() -> None:
    deadline = Deadline(60, cap_seconds=100)

    async def work() -> list[bool]:
        deadline.extend()
        await _take(deadline, [[1]])
        first = await _expires(deadline, lambda: _take(deadline, _progress(50, 9)))
        deadline.extend()
        second = await _expires(deadline, lambda: asyncio.sleep(30))
        deadline.extend()
        third = await _expires(deadline, lambda: asyncio.sleep(1000))
        deadline.extend()
        return [first, second, third]

    assert _run(work) == ([True, False, True], 191)


@pytest.mark.parametrize(
    ("tool", "sent", "kind", "retry", "end"),
    [
        (None, True, ListTimeoutError, "if_idempotent", ""),
        ("/write", True, CallTimeoutError, "if_idempotent", MAY_HAVE_RUN),
        ("/write", False, CallTimeoutError, "always", "; it was not sent"),
    ],
)
def test_an_error_names_server_limit_and_setting_and_whether_the_call_was_sent(
    tool: str | None, sent: bool, kind: type[PlaitError], retry: str, end: str
) -> None:
    name = tool and tool.removeprefix("/")

    error = Deadline(1.5, setting="limit").error("files", name, sent=sent)

    assert (type(error), error.server, error.tool, error.retry) == (kind, "files", name, retry)
    assert str(error) == f"files{tool or ''}: no answer within 1.5 s (limit){end}"


@pytest.mark.parametrize(("steps", "named"), [([1000], False), (_progress(10, 1000), True)])
def test_a_call_that_progressed_up_to_the_cap_names_the_cap(steps: Steps, named: bool) -> None:
    deadline = Deadline(60, cap_seconds=600)
    _run(lambda: _expires(deadline, lambda: _take(deadline, steps)))

    text = str(deadline.error("files", "write", sent=True))

    assert ("within 600 s while it showed progress" in text) is named
