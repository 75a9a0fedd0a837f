"""Callbacks run in the loop and the context of whoever gave them, and cannot hurt the work."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

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

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, asyncio.AbstractEventLoop]] = []
        self.event = asyncio.Event()

    def note(self, value: str) -> None:
        self.calls.append((value, who.get(), asyncio.get_running_loop()))
        self.event.set()


async def _tell(told: Callable[[str], None], value: str) -> None:
    told(value)


async def test_a_callback_runs_in_the_callers_loop_and_context(bridge: LoopBridge) -> None:
    heard = _Heard()
    who.set("caller")
    told = bridge.bind_callback(heard.note)
    who.set("somebody else")

    await bridge.run(_tell, told, "progress")

    with anyio.fail_after(5):
        await heard.event.wait()
    assert heard.calls == [("progress", "caller", asyncio.get_running_loop())]


async def test_an_async_callback_runs_there_too(bridge: LoopBridge) -> None:
    heard = _Heard()

    async def note(value: str) -> None:
        await asyncio.sleep(0)
        heard.note(value)

    who.set("caller")
    await bridge.run(_tell, bridge.bind_callback(note), "progress")

    with anyio.fail_after(5):
        await heard.event.wait()
    assert heard.calls == [("progress", "caller", asyncio.get_running_loop())]


async def test_callbacks_keep_their_order(bridge: LoopBridge) -> None:
    heard: list[int] = []
    last = asyncio.Event()

    def note(number: int) -> None:
        heard.append(number)
        if number == 99:
            last.set()

    told = bridge.bind_callback(note)

    async def tell() -> None:
        for number in range(100):
            told(number)

    await bridge.run(tell)
    with anyio.fail_after(5):
        await last.wait()

    assert heard == list(range(100))


async def test_what_a_callback_sets_does_not_reach_the_next(bridge: LoopBridge) -> None:
    seen: list[str] = []
    done = asyncio.Event()

    def note(value: str) -> None:
        seen.append(who.get())
        who.set(value)
        if len(seen) == 2:
            done.set()

    told = bridge.bind_callback(note)
    await bridge.run(_tell, told, "one")
    await bridge.run(_tell, told, "two")

    with anyio.fail_after(5):
        await done.wait()
    assert seen == ["nobody", "nobody"]


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
    release = asyncio.Event()
    ended = asyncio.Event()

    async def slow(value: str) -> None:
        del value
        await release.wait()
        ended.set()

    with anyio.fail_after(5):
        await bridge.run(_tell, bridge.bind_callback(slow), "x")
        assert not ended.is_set()
        release.set()
        await ended.wait()


def test_without_a_loop_a_callback_runs_in_the_owning_one(bridge: LoopBridge) -> None:
    ran = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def note(value: str) -> None:
        del value
        loops.append(asyncio.get_running_loop())
        ran.set()

    async def owner() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    bridge.run_blocking(_tell, bridge.bind_callback(note), "x")

    assert ran.wait(5)
    assert loops == [bridge.run_blocking(owner)]


async def test_on_the_owning_loop_a_callback_does_not_run_inside_the_work(
    bridge: LoopBridge,
) -> None:
    bridge.use_current_loop()
    heard = _Heard()

    await bridge.run(_tell, bridge.bind_callback(heard.note), "x")

    with anyio.fail_after(5):
        await heard.event.wait()
    assert heard.calls[0][0] == "x"


def test_a_callback_whose_loop_is_gone_is_dropped(bridge: LoopBridge) -> None:
    calls: list[str] = []

    async def wrap() -> Callable[[str], None]:
        return bridge.bind_callback(calls.append)

    told = asyncio.run(wrap())

    bridge.run_blocking(_tell, told, "late")

    assert calls == []


def test_a_callback_that_outlasts_its_loop_runs_in_the_owning_one(bridge: LoopBridge) -> None:
    ran = threading.Event()
    threads: list[str] = []

    def note(text: str) -> None:
        threads.append(f"{text}: {threading.current_thread().name}")
        ran.set()

    async def wrap() -> Callable[[str], None]:
        return bridge.bind_callback(note, outlasting=True)

    told = asyncio.run(wrap())
    bridge.run_blocking(_tell, told, "late")

    assert ran.wait(5)
    assert threads == ["late: plait"]


async def test_who_answers_does_so_in_the_loop_and_context_the_callback_came_from() -> None:
    mark: ContextVar[str] = ContextVar("mark", default="")
    bridge = LoopBridge()
    here = asyncio.get_running_loop()
    mark.set("mine")

    async def answer(question: str) -> tuple[str, str, bool]:
        return question, mark.get(), asyncio.get_running_loop() is here

    ask = bridge.bind_handler(answer)
    try:
        assert await bridge.run(ask, "why?") == ("why?", "mine", True)
        assert await ask("here?") == ("here?", "mine", True)
    finally:
        await bridge.astop()


def test_where_there_is_no_loop_the_owning_one_answers() -> None:
    bridge = LoopBridge()

    async def answer() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    ask = bridge.bind_handler(answer)
    try:
        assert bridge.run_blocking(ask) is bridge.run_blocking(answer)
    finally:
        bridge.stop()


async def test_an_answer_that_fails_fails_the_question() -> None:
    bridge = LoopBridge()

    async def answer() -> None:
        raise ValueError("no idea")

    ask = bridge.bind_handler(answer)
    try:
        with pytest.raises(ValueError, match="no idea"):
            await bridge.run(ask)
    finally:
        await bridge.astop()


async def test_of_calls_that_do_not_end_only_so_many_run_and_the_rest_is_dropped(
    bridge: LoopBridge,
) -> None:
    released, began = asyncio.Event(), 0

    async def wait() -> None:
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
