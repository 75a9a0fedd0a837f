"""One set of tasks that any task may open, use and close, and how many work at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import pytest

from plait.client.connections.connection import ConcurrencyLimit, TaskSet
from plait.errors import ClientClosedError

pytestmark = pytest.mark.anyio

who: ContextVar[str] = ContextVar("who", default="nobody")


class _Resident:
    """Something that lives in a task until it is cancelled, and may leave."""

    def __init__(self) -> None:
        self.running, self.ended, self.may_leave = (asyncio.Event() for _ in range(3))
        self.context = ""
        self.may_leave.set()

    async def __call__(self) -> None:
        self.context = who.get()
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self.may_leave.wait()
            self.ended.set()

    async def is_running(self) -> bool:
        with anyio.fail_after(5):
            await self.running.wait()
        return not self.ended.is_set()


async def _in_task(work: Callable[[], object]) -> None:
    """Do something in a task of its own."""

    async def run() -> None:
        result = work()
        if asyncio.iscoroutine(result):
            await result

    with anyio.fail_after(5):
        await asyncio.create_task(run())


async def test_it_is_opened_used_and_closed_by_three_tasks_again_and_again() -> None:
    before, tasks = asyncio.all_tasks(), TaskSet()
    await tasks.close()
    who.set("caller")
    for _ in range(2):
        first, second = _Resident(), _Resident()
        with pytest.raises(ClientClosedError):
            tasks.start(first, name="early")

        await _in_task(tasks.open)
        await _in_task(lambda first=first: tasks.start(first, name="first"))
        tasks.open()  # keeps what lives there
        tasks.start(second, name="second")
        assert await first.is_running()
        assert await second.is_running()
        assert first.context == "nobody"  # not that of whoever happened to start it
        await _in_task(tasks.close)

        assert first.ended.is_set()
        assert second.ended.is_set()
        assert asyncio.all_tasks() == before
        await tasks.close()


async def test_cancelling_whoever_opened_it_does_not_close_it() -> None:
    tasks, resident = TaskSet(), _Resident()

    async def open_and_wait() -> None:
        tasks.open()
        tasks.start(resident, name="resident")
        await asyncio.Event().wait()

    opener = asyncio.create_task(open_and_wait())
    assert await resident.is_running()
    opener.cancel()
    await asyncio.wait({opener})

    assert not resident.ended.is_set()
    await tasks.close()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_closing_waits_until_everyone_has_left_though_it_is_cancelled(
    cancelled: bool,
) -> None:
    tasks, resident = TaskSet(), _Resident()
    resident.may_leave.clear()
    tasks.open()
    tasks.start(resident, name="resident")
    assert await resident.is_running()

    closing = asyncio.create_task(tasks.close())
    for _ in range(3):
        await asyncio.sleep(0)
    if cancelled:
        closing.cancel()
        await asyncio.sleep(0)
    assert not closing.done()
    resident.may_leave.set()
    with anyio.fail_after(5):
        await asyncio.wait({closing})

    assert resident.ended.is_set()
    assert closing.cancelled() is cancelled


async def most_at_once(limit: ConcurrencyLimit, tasks: int) -> int:
    now = most = 0

    async def work() -> None:
        nonlocal now, most
        async with limit.slot():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(work() for _ in range(tasks)))
    return most


@pytest.mark.parametrize(("limit", "most"), [(None, 9), (1, 1), (3, 3)])
async def test_no_more_than_the_limit_work_at_once(limit: int | None, most: int) -> None:
    assert await most_at_once(ConcurrencyLimit(limit), 9) == most


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_task_that_lends_its_slot_lets_another_in_and_waits_to_come_back(
    cancelled: bool,
) -> None:
    limit = ConcurrencyLimit(1)
    told: list[str] = []
    lent, other_in, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with limit.slot():
            async with limit.released(asyncio.current_task()):
                lent.set()
                await other_in.wait()
                told.append("first wants back")
            told.append("first is back")

    async def second() -> None:
        async with limit.slot():
            other_in.set()
            await go.wait()
            told.append("second leaves")

    lending = asyncio.create_task(first())
    await lent.wait()
    if cancelled:
        lending.cancel()
        await asyncio.wait({lending})
        assert lending.cancelled()
    working = asyncio.create_task(second())
    await other_in.wait()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait({lending, working})

    back = [] if cancelled else ["first wants back"]
    assert told == [*back, "second leaves", *(["first is back"] if back else [])]
    assert await most_at_once(limit, 3) == 1
