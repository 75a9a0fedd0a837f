"""Callbacks run in the loop and the context of whoever gave them, and cannot hurt the work."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from plait.client.connections.loop_bridge import LoopBridge

pytestmark = pytest.mark.anyio

who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture
def bridge() -> Iterator[LoopBridge]:
    made = LoopBridge()
    yield made
    made.stop()


class _Heard:
    """Collects what a callback was told, and where it ran."""

    def __init__(self, last: str = "") -> None:
        self.calls: list[tuple[str, str, asyncio.AbstractEventLoop]] = []
        self.last = last
        self.ended = threading.Event()

    def note(self, value: str) -> None:
        self.calls.append((value, who.get(), asyncio.get_running_loop()))
        who.set(value)
        if value.endswith(self.last):
            self.ended.set()

    async def note_later(self, value: str) -> None:
        await asyncio.sleep(0)
        self.note(value)

    async def end(self) -> None:
        assert await asyncio.to_thread(self.ended.wait, 5)


async def _tell(told: Callable[[str], None], *values: str) -> None:
    for value in values:
        told(value)


async def _owner() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("borrowed", [False, True])
async def test_a_callback_runs_in_the_callers_loop_and_context(
    bridge: LoopBridge, later: bool, borrowed: bool
) -> None:
    if borrowed:
        bridge.use_current_loop()
    heard = _Heard(last="99")
    who.set("caller")
    told = bridge.bind_callback(heard.note_later if later else heard.note)
    who.set("somebody else")
    values = [str(number) for number in range(100)]

    await bridge.run(_tell, told, *values)

    await heard.end()
    # In their order, and what one sets does not reach the next.
    here = asyncio.get_running_loop()
    assert heard.calls == [(value, "caller", here) for value in values]


async def test_a_callback_that_fails_is_only_logged(
    bridge: LoopBridge, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(value: str) -> None:
        raise ValueError(value)

    async def fail_later(value: str) -> None:
        failing.set()
        raise KeyError(value)

    failing = asyncio.Event()
    with caplog.at_level(logging.ERROR, logger="plait.client.connections"):
        await bridge.run(_tell, bridge.bind_callback(fail), "sync")
        await bridge.run(_tell, bridge.bind_callback(fail_later), "async")
        with anyio.fail_after(5):
            await failing.wait()
        for _ in range(3):  # until the failed task is noticed
            await asyncio.sleep(0)

    assert [record.getMessage() for record in caplog.records] == ["a callback failed"] * 2
    errors = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert errors == [ValueError, KeyError]


async def test_a_slow_callback_does_not_hold_up_the_work(bridge: LoopBridge) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def slow(value: str) -> None:
        await release.wait()
        ended.set()

    with anyio.fail_after(5):
        await bridge.run(_tell, bridge.bind_callback(slow), "x")
        assert not ended.is_set()
        release.set()
        await ended.wait()


@pytest.mark.parametrize(
    ("with_loop", "outlasting", "runs"),
    [(False, False, True), (True, False, False), (True, True, True)],
    ids=["no loop", "a loop that is gone", "outlasting its loop"],
)
def test_without_the_callers_loop_a_callback_is_dropped_or_runs_in_the_owning_one(
    bridge: LoopBridge, with_loop: bool, outlasting: bool, runs: bool
) -> None:
    heard = _Heard()

    async def bind() -> Callable[[str], None]:
        return bridge.bind_callback(heard.note, outlasting=outlasting)

    told = asyncio.run(bind()) if with_loop else bridge.bind_callback(heard.note)
    bridge.run_blocking(_tell, told, "late")

    owner = bridge.run_blocking(_owner)
    assert heard.calls == ([("late", "nobody", owner)] if runs else [])


async def test_who_answers_does_so_in_the_loop_and_context_the_callback_came_from(
    bridge: LoopBridge,
) -> None:
    here = asyncio.get_running_loop()
    who.set("mine")

    async def answer(question: str) -> tuple[str, str, bool]:
        if not question:
            raise ValueError("no idea")
        return question, who.get(), asyncio.get_running_loop() is here

    ask = bridge.bind_handler(answer)
    assert await bridge.run(ask, "why?") == ("why?", "mine", True)
    assert await ask("here?") == ("here?", "mine", True)
    with pytest.raises(ValueError, match="no idea"):
        await bridge.run(ask, "")


def test_where_there_is_no_loop_the_owning_one_answers(bridge: LoopBridge) -> None:
    ask = bridge.bind_handler(_owner)

    assert bridge.run_blocking(ask) is bridge.run_blocking(_owner)


async def test_of_calls_that_do_not_end_only_so_many_run_and_the_rest_is_dropped(
    bridge: LoopBridge,
) -> None:
    released, began = asyncio.Event(), 0

    async def wait(*_: Any) -> None:
        nonlocal began
        began += 1
        await released.wait()

    call = bridge.bind_callback(wait)
    for _ in range(10_100):
        call()
    await asyncio.sleep(0)
    assert began == 10_000

    released.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # they end, and their ends are noted
    call()
    await asyncio.sleep(0)
    assert began == 10_001
