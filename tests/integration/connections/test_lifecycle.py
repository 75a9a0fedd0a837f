"""Opening, using and closing a client, from any task, in any order, leaving nothing behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import Counter

import psutil
import pytest

from plait import ClientClosedError, PlaitError, Toolbox, testing
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.integration.connections.targets import kill, pid_of, reach
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_a_client_is_opened_used_and_closed_by_three_different_tasks() -> None:
    box = Toolbox({"server": stdio_config()})

    async def opening() -> None:
        await box.__aenter__()
        await box.tools()

    await asyncio.create_task(opening())
    result = await asyncio.create_task(box.call("server", "echo", {"text": "from B"}))
    await asyncio.create_task(box.aclose())

    assert result.text == "from B"
    with pytest.raises(ClientClosedError):
        await box.call("server", "echo", {"text": "too late"})


async def test_clients_are_closed_in_the_order_they_were_opened() -> None:
    first, second = Toolbox({"server": stdio_config()}), Toolbox({"server": stdio_config()})
    async with asyncio.timeout(30):
        await first.__aenter__()
        await second.__aenter__()
        await asyncio.gather(first.tools(), second.tools())
        await first.aclose()
        assert (await second.call("server", "echo", {"text": "alive"})).text == "alive"
        await second.aclose()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_closing_during_calls_ends_them_with_an_error_that_says_so(
    transport: str, fault_server: StartFaultServer
) -> None:
    config, _ = reach(transport, fault_server)
    box = Toolbox({"server": config})
    async with box:
        await box.tools()
        calls = [asyncio.create_task(box.call("server", "hang")) for _ in range(5)]
        await eventually(lambda: box.status()["server"].in_flight == 5)

        async with asyncio.timeout(10):
            await box.aclose()

        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClientClosedError}


async def test_closing_during_a_handshake_does_not_wait_for_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Toolbox({"silent": {"command": "sleep", "args": ["600"]}}) as box:
        listing = asyncio.ensure_future(box.tools())
        await eventually(lambda: box.status()["silent"].pid is not None)
        child = psutil.Process(box.status()["silent"].pid)

    with pytest.raises(ClientClosedError):
        await listing
    assert not child.is_running()
    assert "did not close in time" not in caplog.text


@pytest.mark.parametrize("transport", ["stdio", "http", "sse", "websocket"])
async def test_reconnects_leave_no_task_thread_process_or_file_behind(
    transport: str, fault_server: StartFaultServer
) -> None:
    config, _ = reach(transport, fault_server)
    me = psutil.Process()
    async with Toolbox({"server": config}) as box:
        await box.call("server", "counter")
        before = _holdings(me)

        for _ in range(20):
            if transport == "stdio":
                kill(box)
            else:
                await box.reconnect("server")
            await box.call("server", "echo", {"text": "again"})

        assert box.status()["server"].sessions == 21
        await eventually(lambda: not _holdings(me) - before, timeout_seconds=30)


def _holdings(me: psutil.Process) -> Counter[str]:
    """Count what could leak: tasks, threads of plait, children, descriptors."""
    gc.collect()
    return Counter(
        tasks=len(asyncio.all_tasks()),
        threads=sum(thread.name.startswith("plait") for thread in threading.enumerate()),
        children=len(me.children(recursive=True)),
        descriptors=me.num_fds(),
    )


async def test_a_closed_client_leaves_nothing_at_all() -> None:
    me = psutil.Process()
    await eventually(lambda: not _loop_threads())  # those of earlier tests
    children, tasks = me.children(), asyncio.all_tasks()

    box = Toolbox({"server": testing.stdio_config()})
    assert (await box.call("server", "echo", {"text": "lazy"})).text == "lazy"
    assert len(_loop_threads()) == 1
    await box.aclose()

    assert set(me.children()) <= set(children)
    assert asyncio.all_tasks() == tasks
    await eventually(lambda: not _loop_threads())


def _loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "plait"]


async def test_a_client_that_nobody_closes_takes_its_server_along_when_it_is_collected() -> None:
    box = Toolbox({"server": testing.stdio_config()})
    await box.tools()
    pid = pid_of(box)

    del box
    gc.collect()

    await eventually(lambda: not psutil.pid_exists(pid), timeout_seconds=15)


async def test_dropping_a_client_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is collected anywhere, also in the loop of the user."""
    box = Toolbox({"server": stdio_config()})
    await box.tools()
    (own,) = _loop_threads()
    joined: list[threading.Thread] = []
    join = threading.Thread.join

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        joined.append(thread)
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", noted)
    del box
    gc.collect()

    assert own not in joined
    await eventually(lambda: not own.is_alive())


def test_a_client_of_a_loop_that_does_not_run_now_says_what_to_do() -> None:
    """As with a fixture of a whole session, and tests with loops of their own."""
    entered, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    box = Toolbox({"server": stdio_config()})
    entered.run_until_complete(box.__aenter__())

    with pytest.raises(ClientClosedError, match="do not enter it with `async with`"):
        other.run_until_complete(box.tools())

    entered.run_until_complete(box.aclose())
    for loop in (entered, other):
        loop.close()


def test_a_client_that_is_not_entered_works_in_one_loop_after_another() -> None:
    box = Toolbox({"server": stdio_config()})
    counts = [asyncio.run(_count(box)) for _ in range(3)]
    asyncio.run(box.aclose())

    assert counts == ["1", "2", "3"]


async def _count(box: Toolbox) -> str:
    return (await box.call("server", "counter")).text


PROGRAM = """
import asyncio, sys
from plait import Toolbox
from plait.testing import stdio_config

async def main():
    box = Toolbox({"server": stdio_config()})
    await box.tools()
    print(box.status()["server"].pid, flush=True)
    if sys.argv[1] == "dropped":
        del box
        return None
    return box

kept = asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["dropped", "kept"])
async def test_no_server_outlives_a_program_that_closes_nothing(way: str) -> None:
    run = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        way,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await run.communicate()

    assert (run.returncode, errors) == (0, b"")
    assert not psutil.pid_exists(int(printed))


async def test_entering_after_lazy_use_moves_the_connections_to_this_loop() -> None:
    box = Toolbox({"server": stdio_config()})
    assert (await box.call("server", "counter")).text == "1"
    async with box:
        assert (await box.call("server", "counter")).text == "1"  # another process
        await eventually(lambda: not _loop_threads())


async def test_an_idle_connection_is_closed_and_opened_again_on_the_next_call(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", legacy_only=True)
    async with Toolbox({"server": {"url": server.url, "idle_timeout": 0.2}}) as box:
        await box.call("server", "counter")
        await eventually(lambda: box.status()["server"].state == "idle")
        assert (await box.call("server", "counter")).text == "2"
        assert box.status()["server"].sessions == 2


async def test_with_reconnecting_switched_off_a_lost_connection_stays_failed() -> None:
    config = stdio_config() | {"restart": {"enabled": False}}
    async with Toolbox({"server": config}) as box:
        await box.call("server", "counter")
        kill(box)
        await eventually(lambda: box.status()["server"].state == "failed")
        with pytest.raises(PlaitError):
            await box.call("server", "counter")
        await box.reconnect("server")
        assert (await box.call("server", "counter")).text == "1"
