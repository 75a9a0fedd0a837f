"""Places are never more than the cap, which shrinks by refusals and grows with success."""

from __future__ import annotations

import asyncio

import pytest

from plait.verification.run_case import AdaptiveCap

pytestmark = pytest.mark.anyio


async def test_a_refusal_halves_the_places_and_success_brings_them_back() -> None:
    cap = AdaptiveCap(8)
    async with cap.place(), cap.place():
        cap.refused()
        cap.refused()  # it was under way when the first was refused
        assert cap.size == 4
        cap.refused()
        assert cap.size == 2
    for _ in range(40):
        cap.succeeded()
    assert cap.size == 8
    for _ in range(20):
        cap.refused()
    assert cap.size == 1


async def test_waiting_runs_get_places_in_turn_and_none_is_lost_by_a_cancellation() -> None:
    cap = AdaptiveCap(2)
    order: list[int] = []
    inside: list[int] = []

    async def use(number: int) -> None:
        async with cap.place():
            order.append(number)
            inside.append(number)
            assert len(inside) <= 2
            await asyncio.sleep(0)
            inside.remove(number)

    tasks = [asyncio.create_task(use(number)) for number in range(10)]
    await asyncio.sleep(0)
    tasks[4].cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert order == [0, 1, 2, 3, 5, 6, 7, 8, 9]


async def test_a_cancelled_run_passes_on_the_place_it_was_promised() -> None:
    cap = AdaptiveCap(1)

    async def use() -> None:
        async with cap.place():
            pass

    async with cap.place():
        first, second = asyncio.create_task(use()), asyncio.create_task(use())
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 5)
