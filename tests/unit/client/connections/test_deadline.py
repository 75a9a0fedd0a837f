"""Time limits expire, progress extends them up to a cap, and their errors say which it was."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from plait.client.connections.deadline import Deadline
from plait.errors import CallTimeoutError, ListTimeoutError

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


async def _progress(deadline: Deadline, *, every: float, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(every)
        deadline.extend()
    await asyncio.sleep(10_000)


def test_a_block_that_takes_too_long_is_ended() -> None:
    deadline = Deadline(60)

    assert _run(lambda: _expires(deadline, lambda: asyncio.sleep(1000))) == (True, 60)


def test_a_block_that_ends_in_time_is_left_alone() -> None:
    deadline = Deadline(60)

    assert _run(lambda: _expires(deadline, lambda: asyncio.sleep(59))) == (False, 59)
    assert not deadline.expired


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


def test_progress_starts_the_limit_afresh() -> None:
    deadline = Deadline(60, cap_seconds=600)

    took = _run(lambda: _expires(deadline, lambda: _progress(deadline, every=50, times=3)))

    assert took == (True, 210)


def test_progress_extends_up_to_the_cap_only() -> None:
    deadline = Deadline(60, cap_seconds=200)

    took = _run(lambda: _expires(deadline, lambda: _progress(deadline, every=10, times=1000)))

    assert took == (True, 200)


def test_without_a_cap_progress_extends_nothing() -> None:
    deadline = Deadline(60)

    took = _run(lambda: _expires(deadline, lambda: _progress(deadline, every=10, times=100)))

    assert took == (True, 60)


def test_time_does_not_count_while_a_person_is_waited_for() -> None:
    deadline = Deadline(60, cap_seconds=100)

    async def block() -> None:
        await asyncio.sleep(50)
        with deadline.held():
            await asyncio.sleep(300)
            deadline.extend()
            with deadline.held():
                await asyncio.sleep(300)
        await _progress(deadline, every=5, times=100)

    assert _run(lambda: _expires(deadline, block)) == (True, 600 + 100)


def test_after_a_person_was_waited_for_the_rest_of_the_limit_counts() -> None:
    deadline = Deadline(60)

    async def block() -> None:
        await asyncio.sleep(50)
        with deadline.held():
            await asyncio.sleep(300)
        await asyncio.sleep(1000)

    assert _run(lambda: _expires(deadline, block)) == (True, 360)


def test_waiting_for_a_person_outside_a_block_changes_nothing() -> None:
    deadline = Deadline(60)

    async def work() -> bool:
        with deadline.held():
            await asyncio.sleep(1)
        return await _expires(deadline, lambda: asyncio.sleep(1000))

    assert _run(work) == (True, 61)


def test_a_cap_below_the_limit_does_not_shorten_it() -> None:
    deadline = Deadline(60, cap_seconds=5)

    assert _run(lambda: _expires(deadline, lambda: asyncio.sleep(1000))) == (True, 60)


def test_each_attempt_has_the_whole_time() -> None:
    deadline = Deadline(60, cap_seconds=100)

    async def work() -> list[bool]:
        first = await _expires(deadline, lambda: _progress(deadline, every=50, times=9))
        second = await _expires(deadline, lambda: asyncio.sleep(30))
        third = await _expires(deadline, lambda: asyncio.sleep(1000))
        return [first, second, third]

    assert _run(work) == ([True, False, True], 190)


def test_progress_before_a_run_does_nothing() -> None:
    async def work() -> None:
        Deadline(60).extend()

    _run(work)


def test_progress_that_comes_too_late_does_nothing() -> None:
    deadline = Deadline(60, cap_seconds=600)

    async def work() -> None:
        await _expires(deadline, lambda: asyncio.sleep(1))
        deadline.extend()
        await _expires(deadline, lambda: asyncio.sleep(1000))
        deadline.extend()

    _run(work)
    assert deadline.expired


def test_a_list_that_takes_too_long_names_its_server_limit_and_setting() -> None:
    error = Deadline(30, setting="list_timeout").error("files", None, sent=True)

    assert type(error) is ListTimeoutError
    assert (error.server, error.tool) == ("files", None)
    assert str(error) == "files: no answer within 30 s (list_timeout)"


def test_a_call_that_was_sent_may_have_taken_effect() -> None:
    error = Deadline(1.5).error("files", "write", sent=True)

    assert type(error) is CallTimeoutError
    assert (error.server, error.tool, error.retry) == ("files", "write", "if_idempotent")
    assert str(error) == (
        "files/write: no answer within 1.5 s (timeout); "
        "it may still take effect, so check before doing it again"
    )


def test_a_call_that_was_not_sent_says_so_and_may_be_made_again() -> None:
    error = Deadline(60).error("files", "write", sent=False)

    assert type(error) is CallTimeoutError
    assert str(error) == "files/write: no answer within 60 s (timeout); it was not sent"
    assert error.retry == "always"


def test_a_call_without_progress_does_not_speak_of_progress() -> None:
    deadline = Deadline(60, cap_seconds=600)
    _run(lambda: _expires(deadline, lambda: asyncio.sleep(1000)))

    assert "progress" not in str(deadline.error("files", "write", sent=True))


def test_a_call_that_progressed_up_to_the_cap_names_the_cap() -> None:
    deadline = Deadline(60, cap_seconds=600)
    _run(lambda: _expires(deadline, lambda: _progress(deadline, every=10, times=1000)))

    assert "600 s" in str(deadline.error("files", "write", sent=True))


async def _pauses(deadline: Deadline, *, after: float, seconds: float) -> None:
    await asyncio.sleep(after)
    with deadline.held():
        await asyncio.sleep(seconds)
    await asyncio.sleep(10_000)


def test_the_time_of_a_pause_does_not_count() -> None:
    deadline = Deadline(60)

    paused = _run(lambda: _expires(deadline, lambda: _pauses(deadline, after=20, seconds=500)))

    assert paused == (True, 560)


def test_progress_after_a_pause_still_has_the_cap_ahead() -> None:
    deadline = Deadline(60, cap_seconds=100)

    async def block() -> None:
        with deadline.held():
            await asyncio.sleep(500)
        await _progress(deadline, every=50, times=10)

    assert _run(lambda: _expires(deadline, block)) == (True, 600)
