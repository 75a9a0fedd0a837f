"""Work reaches the loop that owns it, from wherever it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest

from plait.client.connections.loop_bridge import LoopBridge, run_blocking
from plait.errors import AgentTimeoutError, BlockingCallError, ClientClosedError

pytestmark = pytest.mark.anyio

who: ContextVar[str] = ContextVar("who", default="nobody")

_others: set[threading.Thread] = set()
"""Threads of clients that other tests left to be collected."""


def _threads() -> list[threading.Thread]:
    running = [thread for thread in threading.enumerate() if thread.name == "plait"]
    return [thread for thread in running if thread not in _others]


@pytest.fixture
def bridge() -> Iterator[LoopBridge]:
    _others.update(_threads())
    made = LoopBridge()
    yield made
    made.stop()
    assert _threads() == []


async def _where(value: str = "") -> tuple[asyncio.AbstractEventLoop, str, str]:
    """Tell on which loop this runs, for whom, and with which argument."""
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), who.get(), value


async def _fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


class _Endless:
    """Work that never ends by itself."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    async def __call__(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def is_started(self) -> bool:
        return await asyncio.to_thread(self.started.wait, 5)


async def _use_current_loop(bridge: LoopBridge) -> None:
    bridge.use_current_loop()


async def test_on_its_own_loop_work_is_awaited_directly(bridge: LoopBridge) -> None:
    bridge.use_current_loop()
    task = asyncio.current_task()

    async def work() -> bool:
        return asyncio.current_task() is task

    assert await bridge.run(work)
    assert bridge.started
    assert not _threads()
    bridge.stop()  # which leaves a borrowed loop alone
    assert asyncio.get_running_loop().is_running()
    assert not bridge.started


async def test_without_a_loop_of_its_own_work_runs_in_one_thread(bridge: LoopBridge) -> None:
    assert not bridge.started

    owners = {(await bridge.run(_where))[0], (await bridge.run(_where))[0]}
    owners.add(bridge.run_blocking(_where)[0])  # a foreign loop may be blocked

    assert len(owners) == 1
    assert asyncio.get_running_loop() not in owners
    assert [thread.daemon for thread in _threads()] == [True]


@pytest.mark.parametrize("blocks", [False, True])
def test_arguments_results_errors_and_contexts_pass(bridge: LoopBridge, blocks: bool) -> None:
    def run(work: Callable[..., Any], *args: str, **kwargs: str) -> Any:
        if blocks:
            return bridge.run_blocking(work, *args, **kwargs)
        return asyncio.run(bridge.run(work, *args, **kwargs))

    async def change() -> None:
        who.set("work")

    def ask() -> tuple[str, str]:
        who.set("caller")
        run(change)
        return who.get(), run(_where)[1]

    assert run(_where, "a")[2] == "a"
    assert run(_where, value="b")[2] == "b"
    with pytest.raises(ValueError, match="no"):
        run(_fail)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask).result(timeout=5) == ("caller", "caller")
    assert run(_where)[1] == "nobody"
    assert run(_where)[0] is run(_where)[0]  # two loops share one owner


async def test_another_loop_and_worker_threads_reach_the_owning_one(bridge: LoopBridge) -> None:
    bridge.use_current_loop()

    async def ask() -> asyncio.AbstractEventLoop:
        return (await bridge.run(_where))[0]

    here = asyncio.get_running_loop()
    assert await asyncio.to_thread(lambda: asyncio.run(ask())) is here
    assert (await asyncio.to_thread(bridge.run_blocking, _where))[0] is here


def test_many_threads_may_block_at_once_and_start_one_loop(bridge: LoopBridge) -> None:
    barrier = threading.Barrier(8)

    def ask() -> asyncio.AbstractEventLoop:
        barrier.wait(5)
        return bridge.run_blocking(_where)[0]

    with ThreadPoolExecutor(8) as pool:
        loops = {future.result(timeout=5) for future in [pool.submit(ask) for _ in range(8)]}

    assert len(loops) == 1
    assert len(_threads()) == 1


@pytest.mark.parametrize("borrowed", [False, True])
def test_blocking_the_owning_loop_is_refused_at_once(bridge: LoopBridge, borrowed: bool) -> None:
    async def work() -> None:
        if borrowed:
            bridge.use_current_loop()
        bridge.run_blocking(_where)

    with pytest.raises(BlockingCallError, match=r"asyncio\.to_thread"):
        asyncio.run(work()) if borrowed else bridge.run_blocking(work)


@pytest.mark.parametrize("closed", [False, True])
def test_a_loop_that_does_not_run_is_refused_and_not_waited_for(
    bridge: LoopBridge, closed: bool
) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_use_current_loop(bridge))
    if closed:
        loop.close()

    with pytest.raises(ClientClosedError):
        bridge.run_blocking(_where)
    with pytest.raises(ClientClosedError):
        asyncio.run(bridge.run(_where))
    loop.close()


@pytest.mark.parametrize("borrowed", [False, True])
async def test_cancelling_the_caller_cancels_the_work(bridge: LoopBridge, borrowed: bool) -> None:
    if borrowed:
        bridge.use_current_loop()
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    assert await work.is_started()

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await asyncio.to_thread(work.cancelled.wait, 5)


async def test_a_timeout_of_the_caller_cancels_the_work(bridge: LoopBridge) -> None:
    with anyio.move_on_after(0) as scope:
        await bridge.run(_Endless())

    assert scope.cancelled_caught
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


class _Interrupted(BaseException):
    """What Ctrl-C would be."""


@pytest.mark.parametrize("alone", [False, True])
def test_an_interrupted_caller_cancels_the_work(bridge: LoopBridge, alone: bool) -> None:
    work, main, interrupted = _Endless(), threading.get_ident(), threading.Event()

    def interrupt() -> None:
        assert work.started.wait(5)
        signal.pthread_kill(main, signal.SIGUSR1)
        while not interrupted.wait(0.1):  # a signal just before a thread blocks does not wake it
            signal.pthread_kill(main, signal.SIGUSR1)

    def on_signal(signum: int, frame: object) -> None:
        interrupted.set()
        raise _Interrupted(signum, frame)

    run = bridge.run_blocking
    if alone:
        run = partial(run_blocking, seconds=30, timeout_error=_LATE)
    before = signal.signal(signal.SIGUSR1, on_signal)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(_Interrupted):
            run(work)
    finally:
        interrupting.join()
        signal.signal(signal.SIGUSR1, before)

    assert work.cancelled.wait(5)


def test_after_a_stop_the_next_use_starts_another_loop(bridge: LoopBridge) -> None:
    first, *_ = bridge.run_blocking(_where)
    (thread,) = _threads()

    bridge.stop()
    bridge.stop()

    assert not thread.is_alive()
    assert not bridge.started
    assert first.is_closed()
    assert bridge.run_blocking(_where)[0] is not first


def test_stopping_ends_whatever_still_runs_and_tells_callers_so(bridge: LoopBridge) -> None:
    called, left = _Endless(), _Endless()

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(left())

    # A task that nobody holds may be collected, and then it is never cancelled.
    held = bridge.run_blocking(start)
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(bridge.run_blocking, called)
        assert called.started.wait(5)

        bridge.stop()

        with pytest.raises(ClientClosedError, match="during the call"):
            calling.result(timeout=5)
    assert left.cancelled.is_set()
    assert held.cancelled()


def test_stopping_inside_the_background_loop_does_not_wait_for_itself(bridge: LoopBridge) -> None:
    async def stop() -> None:
        bridge.stop()

    with contextlib.suppress(ClientClosedError):
        bridge.run_blocking(stop)
    for thread in _threads():
        thread.join(5)

    assert _threads() == []


@pytest.mark.parametrize("cancelled", [False, True])
async def test_stopping_can_be_awaited_and_ends_the_thread_though_it_is_cancelled(
    bridge: LoopBridge, cancelled: bool
) -> None:
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    assert await work.is_started()
    (thread,) = _threads()

    stopping = asyncio.create_task(bridge.astop())
    await asyncio.sleep(0)
    if cancelled:
        stopping.cancel()
    with anyio.fail_after(5):
        await asyncio.wait({stopping, calling})
        await bridge.astop()
    await asyncio.to_thread(thread.join, 5)

    assert not thread.is_alive()
    assert not bridge.started
    assert work.cancelled.is_set()
    assert isinstance(calling.exception(), ClientClosedError)


FORGOTTEN = """
import asyncio
from plait.client.connections.loop_bridge import LoopBridge

bridge, ending = LoopBridge(), []

async def work():
    try:
        await asyncio.sleep(60)
    finally:
        ending.append(True)
        await asyncio.sleep(0.3)
        print("ended")

async def start():
    ending.append(asyncio.ensure_future(work()))
    await asyncio.sleep(0)

bridge.run_blocking(start)
bridge.forget()
while len(ending) < 2:
    pass
"""


async def test_the_end_of_the_program_waits_for_a_loop_that_is_ending() -> None:
    run = await anyio.run_process([sys.executable, "-c", FORGOTTEN], check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, b"ended\n", b"")


_LATE = AgentTimeoutError("the run took longer than 0.01 s")


def test_a_run_of_its_own_has_the_context_of_the_caller_and_its_errors_pass() -> None:
    async def work() -> tuple[str, str]:
        return who.get(), threading.current_thread().name

    token = who.set("ann")
    try:
        assert run_blocking(work, seconds=30, timeout_error=_LATE) == ("ann", "plait")
    finally:
        who.reset(token)
    with pytest.raises(ValueError, match="no"):
        run_blocking(_fail, seconds=30, timeout_error=_LATE)


def test_a_run_that_takes_too_long_is_cancelled() -> None:
    work = _Endless()

    with pytest.raises(AgentTimeoutError, match=r"longer than 0\.01 s"):
        run_blocking(work, seconds=0.01, timeout_error=_LATE)

    assert work.cancelled.is_set()


def test_a_run_that_ends_with_a_result_when_it_is_called_off_is_not_lost() -> None:
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "partial"

    assert run_blocking(work, seconds=0.01, timeout_error=_LATE) == "partial"


def test_a_run_that_cannot_be_stopped_is_left_behind() -> None:
    stuck = threading.Event()

    async def work() -> None:
        stuck.wait()  # a library that blocks the loop

    with pytest.raises(AgentTimeoutError):
        run_blocking(work, seconds=0.01, closing_seconds=0.01, timeout_error=_LATE)

    stuck.set()
