"""Imports in threads see whole modules, and calls reach event loops of other threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from plait._support.threads import calls_into, import_once, running_loop

_MODULE = """
import threading, sys
shared = sys.modules["shared_state"]
shared.running.append(__name__)
shared.most = max(shared.most, len(shared.running))
shared.turn.wait(0.2)
shared.running.remove(__name__)
"""


class _Shared:
    running: list[str]
    most = 0
    turn: threading.Event


def test_only_one_thread_imports_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _Shared()
    shared.running, shared.turn = [], threading.Event()
    monkeypatch.setitem(sys.modules, "shared_state", shared)  # pyright: ignore[reportArgumentType]
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"imported_by_thread_{number}" for number in range(3)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(_MODULE)

    threads = [threading.Thread(target=import_once, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {*names} <= {*sys.modules}
    assert shared.most == 1
    for name in names:
        del sys.modules[name]


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
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
