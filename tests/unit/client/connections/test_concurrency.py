"""A limited number of tasks gets in at a time."""

from __future__ import annotations

import asyncio

import pytest

from plait.client.connections.connection import ConcurrencyLimit

pytestmark = pytest.mark.anyio


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
async def test_no_more_than_the_limit_are_in_at_once(limit: int | None, most: int) -> None:
    assert await most_at_once(ConcurrencyLimit(limit), 9) == most


async def test_a_task_that_lends_its_slot_lets_another_in_and_waits_to_come_back() -> None:
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
        await lent.wait()
        async with limit.slot():
            other_in.set()
            await go.wait()
            told.append("second leaves")

    running = asyncio.gather(first(), second())
    await other_in.wait()
    await asyncio.sleep(0)
    go.set()
    await running

    assert told == ["first wants back", "second leaves", "first is back"]
    assert await most_at_once(limit, 3) == 1


async def test_a_task_cancelled_while_it_lends_its_slot_gives_it_back_once() -> None:
    limit = ConcurrencyLimit(1)
    lent = asyncio.Event()

    async def first() -> None:
        async with limit.slot(), limit.released(asyncio.current_task()):
            lent.set()
            await asyncio.Event().wait()

    running = asyncio.ensure_future(first())
    await lent.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await most_at_once(limit, 3) == 1
