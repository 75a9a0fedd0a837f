"""Work with schemas ends with the time that it has."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from plait.client.catalog.allowance import TooMuchWorkError, in_bounded_time, take_step

pytestmark = pytest.mark.anyio


async def test_work_in_a_thread_is_given_up_when_the_time_of_its_call_is_over() -> None:
    over = threading.Event()

    def work() -> None:
        if threading.current_thread() is not threading.main_thread():
            over.wait(30)  # as if the machine had no time for it
        while True:
            take_step()

    try:
        with pytest.raises(TooMuchWorkError, match="no time left"):
            await in_bounded_time(work, 0.01)
    finally:
        over.set()


async def test_work_in_a_thread_ends_itself_when_the_time_of_its_call_is_over() -> None:
    ended = threading.Event()
    used: list[float] = []

    def work() -> None:
        began = time.thread_time()
        try:
            while True:
                take_step()
        except TooMuchWorkError:
            used.append(time.thread_time() - began)
            if len(used) == 2:
                ended.set()
            raise

    with pytest.raises(TooMuchWorkError):
        await in_bounded_time(work, 0.05)
    await asyncio.to_thread(ended.wait, 30)

    assert used[1] < 0.3
