"""One caller finds out, the others wait; what was found out holds for a while."""

from __future__ import annotations

import asyncio

import pytest

from plait.gateway.configuration import SharedCache
from tests.clock import FakeClock

pytestmark = pytest.mark.anyio


async def test_many_who_ask_at_once_cause_one_search() -> None:
    memory = SharedCache[int](10, FakeClock())
    asked: list[int] = []

    async def find() -> int:
        asked.append(1)
        await asyncio.sleep(0)
        return len(asked)

    assert await asyncio.gather(*(memory.get("key", find) for _ in range(50))) == [1] * 50


async def test_what_was_found_is_asked_again_when_its_time_is_over() -> None:
    clock = FakeClock()
    memory = SharedCache[int](10, clock)
    asked: list[int] = []

    async def find() -> int:
        asked.append(1)
        return len(asked)

    assert await memory.get("key", find) == 1
    clock.seconds = 9.9
    assert await memory.get("key", find) == 1
    clock.seconds = 10
    assert await memory.get("key", find) == 2
    assert await memory.get("other", find) == 3


async def test_after_a_failure_the_next_one_tries() -> None:
    memory = SharedCache[int](10, FakeClock())
    begun = asyncio.Event()
    fail = asyncio.Event()

    async def failing() -> int:
        begun.set()
        await fail.wait()
        raise ValueError("no")

    async def fine() -> int:
        return 7

    first = asyncio.create_task(memory.get("key", failing))
    await begun.wait()
    second = asyncio.create_task(memory.get("key", fine))
    await asyncio.sleep(0)
    fail.set()

    with pytest.raises(ValueError, match="no"):
        await first
    assert await second == 7


async def test_one_who_is_cancelled_lets_another_take_over() -> None:
    memory = SharedCache[int](10, FakeClock())
    begun = asyncio.Event()

    async def endless() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    async def fine() -> int:
        return 7

    first = asyncio.create_task(memory.get("key", endless))
    await begun.wait()
    second = asyncio.create_task(memory.get("key", fine))
    await asyncio.sleep(0)
    first.cancel()

    assert await asyncio.wait_for(second, 5) == 7
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_the_longest_unused_is_forgotten_first() -> None:
    memory = SharedCache[str](10, FakeClock(), max_entries=2)

    async def find() -> str:
        return "found"

    for key in ("a", "b", "a", "c"):
        await memory.get(key, find)

    assert [memory.stale(key, 1) for key in ("a", "b", "c")] == ["found", None, "found"]
