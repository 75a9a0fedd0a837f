"""A trace tells of servers that were gone and came back, and of calls that were repeated."""

from __future__ import annotations

import asyncio
import os
import signal
from contextvars import copy_context

import pytest

from plait.agents.live_agent import RunObserver
from plait.client.toolbox import Toolbox
from plait.errors import ConnectionLostError
from plait.telemetry.observer import CallTool
from plait.testing import eventually, server_stdio_config
from plait.traces.events import Healed, Retried
from plait.traces.recorder import Recorder
from tests.nursery import fault_server


@pytest.mark.anyio
async def test_a_server_that_was_killed_is_healed_in_the_trace() -> None:
    observer, recorder = RunObserver(), Recorder()
    async with Toolbox({"calc": server_stdio_config()}, observers=[observer]) as toolbox:
        observer.watch(toolbox, recorder)
        await toolbox.call("calc", "add_numbers", {"a": 1, "b": 2})
        assert recorder.trace.events == ()
        pid = toolbox.status()["calc"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        called = recorder.tool_called("c1", "add", {}, server="calc", tool="add_numbers")
        result = await toolbox.call("calc", "add_numbers", {"a": 20, "b": 22})

    assert result.text == "42"
    (healed,) = [one for one in recorder.trace.events if isinstance(one, Healed)]
    assert (healed.server, healed.parent) == ("calc", called.id)
    assert healed.seconds is not None
    assert healed.seconds >= 0
    assert healed.reason


@pytest.mark.anyio
async def test_a_repeated_call_says_why_it_is_repeated() -> None:
    observer, recorder = RunObserver(), Recorder()
    async with Toolbox({"calc": server_stdio_config()}) as toolbox:
        observer.watch(toolbox, recorder)
        with (
            pytest.raises(ConnectionLostError),
            observer.around(CallTool(server="calc", tool="add", attempt=1)),
        ):
            raise ConnectionLostError("calc: it went away")
        with observer.around(CallTool(server="calc", tool="add", attempt=2)):
            pass

    (retried,) = recorder.trace.events
    assert isinstance(retried, Retried)
    assert (retried.attempt, retried.reason) == (2, "calc: it went away")


@pytest.mark.anyio
async def test_a_call_that_may_be_repeated_is_not_said_to_be_uncertain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observer, recorder = RunObserver(), Recorder()
    caplog.set_level("INFO", "plait")
    with fault_server("http", cut_sse=1) as server:
        async with Toolbox({"faults": {"url": server.url}}, observers=[observer]) as toolbox:
            observer.watch(toolbox, recorder)
            await toolbox.tools()
            result = await toolbox.call("faults", "echo", {"text": "x"})

    (retried,) = [one for one in recorder.trace.events if isinstance(one, Retried)]
    assert result.attempts == 2
    assert (retried.reason or "").startswith("faults/echo: the answer was lost")
    assert "took effect" not in f"{retried.reason} {caplog.text}"


@pytest.mark.anyio
async def test_runs_that_share_a_server_each_record_that_it_was_healed() -> None:
    observer = RunObserver()
    recorders = [Recorder(), Recorder()]
    contexts = [copy_context(), copy_context()]
    async with Toolbox({"calc": server_stdio_config()}, observers=[observer]) as toolbox:

        async def call(run: int) -> None:
            calling = toolbox.call("calc", "add_numbers", {"a": 1, "b": 2})
            await asyncio.create_task(calling, context=contexts[run])

        contexts[0].run(observer.watch, toolbox, recorders[0])
        await call(0)
        pid = toolbox.status()["calc"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: any(event.kind == "lost" for event in toolbox.events()))
        contexts[1].run(observer.watch, toolbox, recorders[1])
        for run in (1, 0, 1, 0):
            await call(run)

    for recorder in recorders:
        assert [event.kind for event in recorder.trace.events] == ["heal"]
