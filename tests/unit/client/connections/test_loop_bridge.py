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

import anyio
import pytest

from plait.client.connections.loop_bridge import LoopBridge
from plait.errors import BlockingCallError, ClientClosedError, PlaitError

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


def _in_thread(work: Callable[[], object]) -> object:
    """Run something in a plain thread, and return or raise what it did."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=5)


async def test_on_its_own_loop_work_is_awaited_directly(bridge: LoopBridge) -> None:
    bridge.use_current_loop()
    task = asyncio.current_task()

    async def work() -> bool:
        return asyncio.current_task() is task

    assert await bridge.run(work)
    assert bridge.started
    assert not _threads()


async def test_without_a_loop_of_its_own_work_runs_in_one_thread(bridge: LoopBridge) -> None:
    assert not bridge.started

    first, *_ = await bridge.run(_where)
    second, *_ = await bridge.run(_where)

    assert first is second is not asyncio.get_running_loop()
    assert len(_threads()) == 1
    assert _threads()[0].daemon


async def test_arguments_results_and_errors_pass(bridge: LoopBridge) -> None:
    assert (await bridge.run(_where, "a"))[2] == "a"
    assert (await bridge.run(_where, value="b"))[2] == "b"
    with pytest.raises(ValueError, match="no"):
        await bridge.run(_fail)


def test_two_loops_share_one_owner(bridge: LoopBridge) -> None:
    async def ask() -> asyncio.AbstractEventLoop:
        return (await bridge.run(_where))[0]

    owners = [asyncio.run(ask()), asyncio.run(ask())]

    assert owners[0] is owners[1]


async def test_another_loop_reaches_the_owning_one(bridge: LoopBridge) -> None:
    bridge.use_current_loop()

    async def ask() -> asyncio.AbstractEventLoop:
        return (await bridge.run(_where))[0]

    assert await asyncio.to_thread(lambda: asyncio.run(ask())) is asyncio.get_running_loop()


def test_a_plain_thread_may_block(bridge: LoopBridge) -> None:
    loop, _, value = bridge.run_blocking(_where, "a")

    assert value == "a"
    assert bridge.run_blocking(_where)[0] is loop
    with pytest.raises(ValueError, match="no"):
        bridge.run_blocking(_fail)


def test_many_threads_may_block_at_once_and_start_one_loop(bridge: LoopBridge) -> None:
    barrier = threading.Barrier(8)

    def ask() -> asyncio.AbstractEventLoop:
        barrier.wait(5)
        return bridge.run_blocking(_where)[0]

    with ThreadPoolExecutor(8) as pool:
        loops = {future.result(timeout=5) for future in [pool.submit(ask) for _ in range(8)]}

    assert len(loops) == 1
    assert len(_threads()) == 1


async def test_a_foreign_loop_may_be_blocked(bridge: LoopBridge) -> None:
    loop, *_ = bridge.run_blocking(_where)

    assert loop is not asyncio.get_running_loop()


async def test_blocking_the_owning_loop_is_refused_at_once(bridge: LoopBridge) -> None:
    bridge.use_current_loop()

    with pytest.raises(BlockingCallError, match=r"asyncio\.to_thread"):
        bridge.run_blocking(_where)


def test_blocking_inside_the_background_loop_is_refused_at_once(bridge: LoopBridge) -> None:
    async def work() -> None:
        bridge.run_blocking(_where)

    with pytest.raises(BlockingCallError):
        bridge.run_blocking(work)


async def test_a_worker_thread_may_block_while_the_owning_loop_runs(bridge: LoopBridge) -> None:
    bridge.use_current_loop()

    loop, *_ = await asyncio.to_thread(bridge.run_blocking, _where)

    assert loop is asyncio.get_running_loop()


def test_a_loop_that_is_not_running_is_refused_and_not_waited_for(bridge: LoopBridge) -> None:
    loop = asyncio.new_event_loop()

    async def adopt() -> None:
        bridge.use_current_loop()

    loop.run_until_complete(adopt())
    raised: list[PlaitError] = []

    def ask() -> None:
        try:
            bridge.run_blocking(_where)
        except (BlockingCallError, ClientClosedError) as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(0.3)
    was_waiting = asking.is_alive()
    for _ in range(5):  # whatever was handed over by mistake is let go
        loop.run_until_complete(asyncio.sleep(0))
    asking.join(5)
    loop.close()

    assert not was_waiting
    assert len(raised) == 1


def test_a_loop_that_was_closed_cannot_be_used(bridge: LoopBridge) -> None:
    async def adopt() -> None:
        bridge.use_current_loop()

    asyncio.run(adopt())

    with pytest.raises(ClientClosedError):
        bridge.run_blocking(_where)
    with pytest.raises(ClientClosedError):
        asyncio.run(bridge.run(_where))


async def test_context_variables_travel_from_a_loop(bridge: LoopBridge) -> None:
    who.set("caller")

    assert (await bridge.run(_where))[1] == "caller"


def test_context_variables_travel_from_a_thread(bridge: LoopBridge) -> None:
    def ask() -> str:
        who.set("worker")
        return bridge.run_blocking(_where)[1]

    assert _in_thread(ask) == "worker"
    assert bridge.run_blocking(_where)[1] == "nobody"


async def test_what_work_sets_stays_with_it_in_another_loop(bridge: LoopBridge) -> None:
    async def work() -> None:
        who.set("work")

    await bridge.run(work)

    assert who.get() == "nobody"


async def test_cancelling_the_caller_cancels_the_work(bridge: LoopBridge) -> None:
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    assert await asyncio.to_thread(work.started.wait, 5)

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await asyncio.to_thread(work.cancelled.wait, 5)


async def test_a_timeout_of_the_caller_cancels_the_work(bridge: LoopBridge) -> None:
    work = _Endless()

    with anyio.move_on_after(0) as scope:
        await bridge.run(work)

    assert scope.cancelled_caught
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_cancelling_on_the_owning_loop_cancels_the_work(bridge: LoopBridge) -> None:
    bridge.use_current_loop()
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    await asyncio.sleep(0)

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert work.cancelled.is_set()


class _Interrupted(BaseException):
    """What Ctrl-C would be."""


def test_an_interrupted_caller_cancels_the_work(bridge: LoopBridge) -> None:
    work = _Endless()
    main = threading.main_thread()
    if threading.current_thread() is not main or main.ident is None:
        pytest.skip("signals reach the main thread only")
    ident = main.ident

    async def interrupt() -> None:
        signal.pthread_kill(ident, signal.SIGUSR1)
        await work()

    def on_signal(signum: int, frame: object) -> None:
        del signum, frame
        raise _Interrupted

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        with pytest.raises(_Interrupted):
            bridge.run_blocking(interrupt)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert work.cancelled.wait(5)


def test_stopping_joins_the_thread(bridge: LoopBridge) -> None:
    bridge.run_blocking(_where)
    (thread,) = _threads()

    bridge.stop()

    assert not thread.is_alive()
    assert not bridge.started
    bridge.stop()


def test_after_a_stop_the_next_use_starts_another_loop(bridge: LoopBridge) -> None:
    first, *_ = bridge.run_blocking(_where)
    bridge.stop()

    second, *_ = bridge.run_blocking(_where)

    assert first is not second
    assert first.is_closed()


def test_stopping_ends_whatever_still_runs(bridge: LoopBridge) -> None:
    work = _Endless()

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(work())

    bridge.run_blocking(start)
    assert work.started.wait(5)

    bridge.stop()

    assert work.cancelled.is_set()


def test_a_blocked_caller_is_told_that_the_client_was_closed(bridge: LoopBridge) -> None:
    work = _Endless()
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(bridge.run_blocking, work)
        assert work.started.wait(5)

        bridge.stop()

        with pytest.raises(ClientClosedError, match="during the call"):
            calling.result(timeout=5)


async def test_a_waiting_caller_is_told_so_and_not_cancelled(bridge: LoopBridge) -> None:
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    assert await asyncio.to_thread(work.started.wait, 5)

    await asyncio.to_thread(bridge.stop)

    with pytest.raises(ClientClosedError, match="during the call"):
        await calling


def test_stopping_inside_the_background_loop_does_not_wait_for_itself(
    bridge: LoopBridge,
) -> None:
    async def stop() -> None:
        bridge.stop()

    with contextlib.suppress(ClientClosedError):
        bridge.run_blocking(stop)
    for thread in _threads():
        thread.join(5)

    assert _threads() == []


async def test_stopping_can_be_awaited(bridge: LoopBridge) -> None:
    await bridge.run(_where)
    (thread,) = _threads()

    with anyio.fail_after(5):
        await bridge.astop()
        await bridge.astop()
    thread.join(5)

    assert not thread.is_alive()
    assert not bridge.started


async def test_a_cancelled_stop_still_ends_the_thread(bridge: LoopBridge) -> None:
    work = _Endless()
    calling = asyncio.create_task(bridge.run(work))
    assert await asyncio.to_thread(work.started.wait, 5)
    (thread,) = _threads()

    stopping = asyncio.create_task(bridge.astop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait({stopping, calling})
    await asyncio.to_thread(thread.join, 5)

    assert not thread.is_alive()
    assert work.cancelled.is_set()
    assert isinstance(calling.exception(), ClientClosedError)


async def test_stopping_leaves_a_borrowed_loop_alone(bridge: LoopBridge) -> None:
    bridge.use_current_loop()

    bridge.stop()

    assert asyncio.get_running_loop().is_running()
    assert not bridge.started


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
