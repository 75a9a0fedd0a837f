"""A server goes away during a call: what the caller is told, and what is run again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.server import MCPServer

from plait import OutcomeUnknownError, PlaitError, ProtocolError, Toolbox, testing
from plait.testing import StateDir, eventually
from plait.testing.fixtures import StartFaultServer
from tests.integration.connections.targets import pid_of, reach
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


@pytest.fixture(params=["stdio", "http modern", "http legacy", "sse", "websocket"])
def ledger(
    request: pytest.FixtureRequest, fault_server: StartFaultServer, tmp_path: Path
) -> tuple[dict[str, Any], StateDir]:
    """A server that commits and dies, over every transport."""
    if request.param == "stdio":
        return stdio_config(state_dir=tmp_path), StateDir(tmp_path)
    # The process stays, only the connection is cut: so the server is there for a replay.
    config, server = reach(request.param, fault_server, die_by="drop")
    assert server is not None
    return config, server.state


async def test_a_payment_whose_answer_was_lost_is_never_made_twice(ledger: Any) -> None:
    config, state = ledger
    async with Toolbox({"bank": config}) as box:
        await box.tools()

        with pytest.raises(OutcomeUnknownError) as caught:
            await box.call("bank", "pay_and_die", {"amount": 7})

        assert state.ledger() == ["7"]
        assert (caught.value.server, caught.value.tool) == ("bank", "pay_and_die")
        assert "check before" in str(caught.value)
        assert (await box.call("bank", "pay", {"amount": 8})).text == "paid 8"
        assert state.ledger() == ["7", "8"]


async def test_a_read_whose_answer_was_lost_is_made_again(ledger: Any) -> None:
    config, state = ledger
    async with Toolbox({"bank": config}) as box:
        result = await box.call("bank", "get_and_die", {"key": "balance"})

        assert result.text == "value of balance"
        assert result.attempts == 2
        assert state.reads() == ["balance", "balance"]


async def test_a_request_that_a_stopped_server_never_read_is_made_again(tmp_path: Path) -> None:
    async with Toolbox({"bank": testing.stdio_config(state_dir=tmp_path)}) as box:
        await box.tools()
        pid = pid_of(box, "bank")
        os.kill(pid, signal.SIGSTOP)
        await eventually(lambda: _states_of_threads(pid) == {"T"})
        paying = asyncio.create_task(box.call("bank", "pay", {"amount": 5}))
        await eventually(lambda: box.status()["bank"].in_flight == 1)
        os.kill(pid, signal.SIGKILL)

        assert (await paying).text == "paid 5"
        assert StateDir(tmp_path).ledger() == ["5"]


def _states_of_threads(pid: int) -> set[str]:
    """Say what the threads of a process do: one that is not stopped may still take a request."""
    stats = (each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat"))
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


@pytest.mark.parametrize("kind", ["http modern", "http legacy", "sse", "websocket"])
async def test_a_call_during_which_the_server_dies_fails_soon_and_alone(
    kind: str, fault_server: StartFaultServer
) -> None:
    entry, server = reach(kind, fault_server)
    assert server is not None
    async with Toolbox({"server": {**entry, "connect_timeout": 2}}) as box:
        sibling = asyncio.create_task(asyncio.sleep(30))
        calling = asyncio.create_task(box.call("server", "counter"))
        await calling
        calling = asyncio.create_task(box.call("server", "hang"))
        await eventually(lambda: box.status()["server"].in_flight == 1)

        await asyncio.to_thread(server.kill)
        with pytest.raises(PlaitError) as caught:
            async with asyncio.timeout(15):
                await calling

        assert "TaskGroup" not in str(caught.value)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert not sibling.done()
        await asyncio.to_thread(server.start)
        await eventually(lambda: _answers(box), timeout_seconds=15)
        sibling.cancel()


async def _answers(box: Toolbox) -> bool:
    try:
        return (await box.call("server", "counter")).text != ""
    except PlaitError:
        return False


@pytest.mark.parametrize("kind", ["stdio", "http modern", "http legacy", "sse", "websocket"])
async def test_a_caller_that_is_cancelled_stays_cancelled_and_the_server_hears_of_it(
    kind: str, fault_server: StartFaultServer
) -> None:
    entry, _ = reach(kind, fault_server)
    async with Toolbox({"server": entry}) as box:
        await box.tools()
        calling = asyncio.create_task(box.call("server", "hang"))
        await eventually(lambda: box.status()["server"].in_flight == 1)
        await box.call("server", "echo", {"text": "after hang was sent"})

        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        async def heard() -> bool:
            return (await box.call("server", "cancelled_calls")).text == "1"

        await eventually(heard)
        assert box.status()["server"].sessions == 1


async def test_a_call_that_takes_too_long_says_which_limit_it_reached() -> None:
    async with Toolbox({"server": stdio_config()}) as box:
        await box.tools()

        with pytest.raises(TimeoutError) as caught:
            await box.call("server", "hang", timeout_seconds=0.3)

        assert "0.3 s (timeout)" in str(caught.value)
        assert (await box.call("server", "cancelled_calls")).text == "1"


async def test_progress_keeps_a_call_alive_up_to_a_cap() -> None:
    config = stdio_config() | {"max_call_seconds": 2}
    async with Toolbox({"server": config}) as box:
        await box.tools()
        seen: list[float] = []

        result = await box.call(
            "server",
            "sleep_progress",
            {"steps": 8, "delay": 0.15},
            timeout_seconds=0.6,
            on_progress=lambda progress, total, message: seen.append(progress),
        )
        assert result.text == "took 8 steps"
        assert seen == [1, 2, 3, 4, 5, 6, 7, 8]

        with pytest.raises(TimeoutError):
            await box.call(
                "server", "sleep_progress", {"steps": 100, "delay": 0.1}, timeout_seconds=0.6
            )


@pytest.mark.parametrize("kind", ["stdio", "http legacy"])
async def test_a_server_that_is_stopped_in_its_tracks_is_given_up_and_replaced(
    kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "stdio":
        config: dict[str, Any] = testing.stdio_config()
    else:
        server = testing.fault_server("http", legacy_only=True).start()
        request.addfinalizer(server.close)
        config = {"url": server.url}
    async with Toolbox({"server": config | {"connect_timeout": 6}}) as box:
        await box.tools()
        stopped = box.status()["server"].pid if kind == "stdio" else server.pid  # pyright: ignore[reportPossiblyUnboundVariable]
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)

        with pytest.raises(TimeoutError):
            await box.call("server", "counter", timeout_seconds=0.3)
        await eventually(lambda: box.status()["server"].state != "ready", timeout_seconds=15)
        if kind != "stdio":
            os.kill(stopped, signal.SIGCONT)

        await eventually(lambda: _answers(box), timeout_seconds=20)
        assert box.status()["server"].sessions == 2


async def test_a_busy_server_is_not_taken_for_a_dead_one() -> None:
    async with Toolbox({"server": stdio_config()}) as box:
        await box.tools()
        with pytest.raises(TimeoutError):
            await box.call("server", "hang", timeout_seconds=0.2)
        await asyncio.sleep(0.5)
        assert (await box.call("server", "counter")).text == "1"
        assert box.status()["server"].sessions == 1


async def test_an_error_of_a_server_in_this_process_is_its_answer_and_no_lost_connection() -> None:
    server = MCPServer("bank", log_level="ERROR")
    runs: list[int] = []

    @server.tool()
    def pay(amount: int) -> str:
        """Pay, or not."""
        runs.append(amount)
        raise MCPError(-32000, "overdrawn")

    for protocol in ("legacy", "2026-07-28"):
        async with Toolbox({"bank": {"server": server, "protocol": protocol}}) as box:
            with pytest.raises(ProtocolError, match="overdrawn"):
                await box.call("bank", "pay", {"amount": 3})
            assert box.status()["bank"].sessions == 1
    assert runs == [3, 3]


COUNTER = """
import json, sys
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
    "serverInfo": {"name": "counter", "version": "1"}}
count = 0
for line in sys.stdin:
    message = json.loads(line)
    method, number = message["method"], message.get("id")
    result = {"tools": [{"name": "counter", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        count += 1
        result = {"content": [{"type": "text", "text": str(count)}]}
    reply = {"jsonrpc": "2.0", "id": number, "result": INFO if method == "initialize" else result}
    if method == "server/discover":
        del reply["result"]
        reply["error"] = {"code": -32601, "message": "unknown"}
    if number is not None:
        print(json.dumps(reply), flush=True)
"""
"""Starts in a moment: a test that starts it often does not depend on the load of the machine."""


async def test_a_call_right_behind_a_kill_is_never_in_doubt() -> None:
    config = {"command": sys.executable, "args": ["-I", "-S", "-c", COUNTER]}
    async with Toolbox({"server": config}) as box:
        await box.tools()
        for _ in range(8):
            os.kill(pid_of(box), signal.SIGKILL)  # and not waited for: it may not be dead yet
            assert (await box.call("server", "counter")).text == "1"
