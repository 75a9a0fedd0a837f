"""Several things at the same time, of which the first failure ends the others."""

from __future__ import annotations

import asyncio

import pytest

from plait._support.gather import gather_or_cancel

pytestmark = pytest.mark.anyio


async def test_results_stand_in_order_and_a_failure_cancels_the_others() -> None:
    ended: list[str] = []

    async def endless() -> str:
        try:
            return await asyncio.Event().wait() and ""
        finally:
            ended.append("endless")

    async def fails() -> str:
        raise ValueError("one") from KeyError("cause")

    async def says(word: str) -> str:
        await asyncio.sleep(0)
        return word

    assert await gather_or_cancel(says(word) for word in ("one", "two")) == ["one", "two"]
    with pytest.raises(ValueError, match="one") as caught:
        await gather_or_cancel([endless(), fails()])
    assert isinstance(caught.value.__cause__, KeyError)
    assert ended == ["endless"]


@pytest.mark.parametrize("order", ["first", "last"])
async def test_a_failure_does_not_leave_the_caller_cancelled(order: str) -> None:
    async def fails(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise ValueError

    async def stops_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    work = [fails(1), stops_slowly(), fails(2)]
    with pytest.raises(ValueError, match=r"^$"):
        await gather_or_cancel(work if order == "first" else work[::-1])
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    await asyncio.sleep(0)
