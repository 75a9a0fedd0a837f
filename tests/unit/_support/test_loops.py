"""Calls into an event loop from other threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from plait._support.threads import calls_into, running_loop

pytestmark = pytest.mark.anyio


async def test_calls_of_another_thread_run_in_the_loop_in_order() -> None:
    loop, seen = asyncio.get_running_loop(), list[int]()
    done = asyncio.Event()

    def produce() -> None:
        for number in range(1000):
            calls_into(loop).call(lambda number=number: seen.append(number))
        calls_into(loop).call(done.set)

    thread = threading.Thread(target=produce)
    thread.start()
    await asyncio.wait_for(done.wait(), 5)
    thread.join()

    assert seen == list(range(1000))


async def test_calls_that_wait_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, wakes, done = asyncio.get_running_loop(), list[Any](), asyncio.Event()
    schedule = loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda *args: (wakes.append(args), schedule(*args))[1]
    )
    for _ in range(50):
        calls_into(loop).call(lambda: None)
    calls_into(loop).call(done.set)
    await asyncio.wait_for(done.wait(), 5)

    assert len(wakes) == 1


async def test_a_call_that_fails_does_not_stop_the_next() -> None:
    loop, done, reported = asyncio.get_running_loop(), asyncio.Event(), list[Any]()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    calls_into(loop).call(lambda: 1 // 0)
    calls_into(loop).call(done.set)
    await asyncio.wait_for(done.wait(), 5)
    loop.set_exception_handler(None)

    assert [type(error) for error in reported] == [ZeroDivisionError]


def test_a_loop_that_has_ended_ignores_calls() -> None:
    loop = asyncio.new_event_loop()
    calls = calls_into(loop)
    loop.close()
    for _ in range(3):
        calls.call(lambda: None)

    assert running_loop() is None
