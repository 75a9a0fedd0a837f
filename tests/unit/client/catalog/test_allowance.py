"""Work with schemas ends with the time that it has."""

from __future__ import annotations

import threading

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
