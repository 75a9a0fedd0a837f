"""One task group that any task may open, use and close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import pytest

from plait.client.connections.connection import TaskSet
from plait.errors import ClientClosedError

pytestmark = pytest.mark.anyio

who: ContextVar[str] = ContextVar("who", default="nobody")


class _Resident:
    """Something that lives in a tasks until it is cancelled."""

    def __init__(self, *, until: asyncio.Event | None = None) -> None:
        self.running = asyncio.Event()
        self.ended = asyncio.Event()
        self._until = until

    async def __call__(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            if self._until is not None:
                with anyio.CancelScope(shield=True):
                    await self._until.wait()
            self.ended.set()


async def _in_task(work: Callable[[], object]) -> None:
    """Do something in a task of its own."""

    async def run() -> None:
        result = work()
        if asyncio.iscoroutine(result):
            await result

    with anyio.fail_after(5):
        await asyncio.create_task(run())


async def test_it_is_opened_used_and_closed_by_three_tasks() -> None:
    tasks, resident = TaskSet(), _Resident()

    await _in_task(tasks.open)
    await _in_task(lambda: tasks.start(resident, name="resident"))
    with anyio.fail_after(5):
        await resident.running.wait()
    await _in_task(tasks.close)

    assert resident.ended.is_set()


async def test_nothing_can_be_started_before_it_is_open_or_after_it_is_closed() -> None:
    tasks = TaskSet()

    with pytest.raises(ClientClosedError):
        tasks.start(_Resident(), name="early")
    tasks.open()
    await tasks.close()
    with pytest.raises(ClientClosedError):
        tasks.start(_Resident(), name="late")


async def test_closing_twice_or_unopened_does_nothing() -> None:
    tasks = TaskSet()

    await tasks.close()
    tasks.open()
    await tasks.close()
    await tasks.close()


async def test_opening_twice_keeps_what_lives_there() -> None:
    tasks, resident = TaskSet(), _Resident()
    tasks.open()
    tasks.start(resident, name="resident")

    tasks.open()

    with anyio.fail_after(5):
        await resident.running.wait()
    assert not resident.ended.is_set()
    await tasks.close()


async def test_whoever_opens_it_at_the_same_time_may_use_it_at_once() -> None:
    tasks, first, second = TaskSet(), _Resident(), _Resident()

    async def move_in(resident: _Resident) -> None:
        tasks.open()
        tasks.start(resident, name="resident")

    try:
        with anyio.fail_after(5):
            await asyncio.gather(move_in(first), move_in(second))
            await first.running.wait()
            await second.running.wait()
    finally:
        await tasks.close()


async def test_it_can_be_opened_again() -> None:
    tasks, resident = TaskSet(), _Resident()
    tasks.open()
    await tasks.close()

    tasks.open()
    tasks.start(resident, name="resident")
    with anyio.fail_after(5):
        await resident.running.wait()
    await tasks.close()

    assert resident.ended.is_set()


async def test_closing_waits_until_everyone_has_left() -> None:
    may_leave = asyncio.Event()
    tasks, resident = TaskSet(), _Resident(until=may_leave)
    tasks.open()
    tasks.start(resident, name="resident")
    await resident.running.wait()

    closing = asyncio.create_task(tasks.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_leave.set()
    with anyio.fail_after(5):
        await closing

    assert resident.ended.is_set()


async def _cancelled_while_closing() -> tuple[asyncio.Task[None], _Resident, asyncio.Event]:
    may_leave = asyncio.Event()
    tasks, resident = TaskSet(), _Resident(until=may_leave)
    tasks.open()
    tasks.start(resident, name="resident")
    await resident.running.wait()
    closing = asyncio.create_task(tasks.close())
    for _ in range(3):
        await asyncio.sleep(0)
    closing.cancel()
    return closing, resident, may_leave


async def test_a_cancelled_close_still_closes_everything() -> None:
    closing, resident, may_leave = await _cancelled_while_closing()

    may_leave.set()
    await asyncio.wait({closing})

    with anyio.fail_after(5):
        await resident.ended.wait()


async def test_whoever_is_cancelled_while_closing_stays_cancelled() -> None:
    closing, resident, may_leave = await _cancelled_while_closing()
    may_leave.set()

    await asyncio.wait({closing})

    assert closing.cancelled()
    assert resident.ended.is_set()


async def test_what_lives_there_does_not_inherit_the_context_of_its_caller() -> None:
    tasks = TaskSet()
    seen: list[str] = []
    done = asyncio.Event()

    async def look() -> None:
        seen.append(who.get())
        done.set()

    who.set("caller")
    tasks.open()
    tasks.start(look, name="look")
    with anyio.fail_after(5):
        await done.wait()
    await tasks.close()

    assert seen == ["nobody"]


async def test_cancelling_whoever_opened_it_does_not_close_it() -> None:
    tasks, resident = TaskSet(), _Resident()

    async def open_and_wait() -> None:
        tasks.open()
        tasks.start(resident, name="resident")
        await asyncio.Event().wait()

    opener = asyncio.create_task(open_and_wait())
    with anyio.fail_after(5):
        await resident.running.wait()
    opener.cancel()
    await asyncio.wait({opener})

    assert not resident.ended.is_set()
    await tasks.close()


async def test_no_task_is_left_after_closing() -> None:
    before = asyncio.all_tasks()
    tasks, resident = TaskSet(), _Resident()
    tasks.open()
    tasks.start(resident, name="resident")

    await tasks.close()

    assert asyncio.all_tasks() == before
