"""Servers that stay down for a while: callers with time left wait until they are back."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from plait import ConnectError, MultiServerMCPClient, Toolbox
from plait.testing import ServerProcess, eventually
from plait.testing.fixtures import StartFaultServer
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def _refusals(box: Toolbox) -> int:
    return sum(event.kind == "refused" for event in box.status().events)


async def _down_for(box: Toolbox, server: ServerProcess, attempts: int) -> list[float]:
    """Start a server again after so many failed attempts; return the pauses between them."""
    before, pauses = _refusals(box), [0.0]

    def waited_long_enough() -> bool:
        pauses.append(box.status()["server"].next_try_seconds or 0.0)
        return _refusals(box) >= before + attempts

    await eventually(waited_long_enough, timeout_seconds=30)
    await asyncio.to_thread(server.start)
    return pauses


@pytest.mark.parametrize("limit", [{"default_tool_timeout": 30}, {"connect_timeout": 30}])
async def test_reads_with_time_left_wait_for_a_server_that_is_down(
    fault_server: StartFaultServer, limit: dict[str, object]
) -> None:
    server = fault_server("http", legacy_only=True)
    async with Toolbox({"server": {"url": server.url, **limit}}) as box:
        await box.tools()
        await asyncio.to_thread(server.kill)
        began = time.monotonic()

        async def read(number: int) -> str:
            return (await box.call("server", "echo", {"text": f"{number}"})).text

        early = [asyncio.create_task(read(number)) for number in range(10)]
        await eventually(lambda: _refusals(box) >= 4, timeout_seconds=30)
        late = [asyncio.create_task(read(number)) for number in range(10, 20)]
        pauses = await _down_for(box, server, 2)
        refusals, seconds = _refusals(box), time.monotonic() - began

        assert await asyncio.gather(*early, *late) == [f"{number}" for number in range(20)]
        # Twice a second while callers wait: neither a storm of attempts nor growing pauses.
        assert refusals < 4 * seconds + 2
        assert 0 < max(pauses) < 1
        assert _refusals(box) <= refusals + 1  # one attempt was under way when it was back


async def test_a_pause_that_grew_while_no_caller_waited_refuses_none(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("sse")
    config = {
        "url": server.url,
        "transport": "sse",
        "connect_timeout": 15,
        "reconnect": {"delay_ms": 60_000},
    }
    async with Toolbox({"server": config}) as box:
        await box.tools()
        await asyncio.to_thread(server.kill)
        await eventually(lambda: _refusals(box) == 1, timeout_seconds=30)
        assert (box.status()["server"].next_try_seconds or 0) > 30
        await asyncio.to_thread(server.start)

        assert (await box.call("server", "echo", {"text": "hello"})).text == "hello"


async def test_a_call_waits_for_a_server_that_was_never_there(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http")
    await asyncio.to_thread(server.kill)
    async with Toolbox({"server": {"url": server.url}}) as box:
        call = asyncio.create_task(box.call("server", "echo", {"text": "hello"}))
        await _down_for(box, server, 4)

        assert (await call).text == "hello"


async def test_a_program_starts_without_a_server_that_is_not_there(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http")
    await asyncio.to_thread(server.kill)
    async with Toolbox({"down": {"url": server.url}, "fine": stdio_config()}) as box:
        began = time.monotonic()
        tools = await box.tools()

        assert {tool.server for tool in tools} == {"fine"}
        assert time.monotonic() - began < 10


async def test_few_attempts_are_made_before_a_fallback_is_called(
    fault_server: StartFaultServer,
) -> None:
    primary, backup = fault_server("http"), fault_server("http")
    servers = {"east": {"url": primary.url}, "west": {"url": backup.url}}
    async with MultiServerMCPClient(servers, fallbacks={"east": "west"}) as client:
        echo = next(tool for tool in await client.get_tools() if tool.name == "echo")
        await asyncio.to_thread(primary.kill)

        began = time.monotonic()
        assert await echo.ainvoke({"text": "one"}) == "one"
        assert time.monotonic() - began < 10
        began = time.monotonic()
        assert await echo.ainvoke({"text": "two"}) == "two"
        assert time.monotonic() - began < 1


async def test_a_policy_may_let_callers_wait_for_a_few_attempts_only(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", legacy_only=True)
    config = {"url": server.url, "reconnect": {"max_attempts": 2, "delay": 0.05}}
    async with Toolbox({"server": config}) as box:
        await box.tools()
        await asyncio.to_thread(server.kill)
        with pytest.raises(ConnectError):
            await box.call("server", "echo", {"text": "one"})

        assert box.status()["server"].breaker != "closed"
        for _ in range(20):
            began = time.monotonic()
            with pytest.raises(ConnectError):
                await box.call("server", "echo", {"text": "more"})
            assert time.monotonic() - began < 0.5


async def test_what_waiting_does_not_cure_is_looked_at_again_for_the_next_caller(
    tmp_path: Path,
) -> None:
    config = stdio_config()
    command = tmp_path / "program"
    reconnect = {"delay": 0.2, "jitter": 0}
    async with Toolbox(
        {"server": {**config, "command": str(command), "reconnect": reconnect}}
    ) as box:
        with pytest.raises(ConnectError) as caught:
            await box.call("server", "echo", {"text": "one"})
        assert caught.value.retry == "never"
        await eventually(lambda: _refusals(box) >= 5, timeout_seconds=30)
        command.symlink_to(str(config["command"]))  # a person has installed it
        await eventually(lambda: 1 < (box.status()["server"].next_try_seconds or 0) < 2.9)

        began = time.monotonic()
        assert (await box.call("server", "echo", {"text": "two"})).text == "two"
        assert time.monotonic() - began < 3


_EXITS = """
import os, pathlib, runpy, sys
starts, codes, *program = sys.argv[1:]
with open(starts, "a") as file:
    file.write("started ")
number = len(pathlib.Path(starts).read_text().split())
codes = codes.split(",")
if number <= len(codes) and codes[number - 1]:
    print("no license for start", number, file=sys.stderr)
    sys.exit(int(codes[number - 1]))
os.execv(program[0], program)
"""
"""Ends with one exit code after another, and is a server then."""


def _exiting(starts: Path, codes: str) -> dict[str, object]:
    config = stdio_config()
    args = ["-I", "-S", "-c", _EXITS, str(starts), codes, str(config["command"])]
    more = {"reconnect": {"delay": 0.01}, "connect_timeout": 50}
    return {**config, **more, "command": sys.executable, "args": [*args, *_words(config["args"])]}


def _words(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(word) for word in value]


async def test_a_program_that_exits_at_once_fails_its_callers_with_its_last_words(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "starts"
    async with Toolbox({"server": _exiting(starts, ",".join(["3"] * 1000))}) as box:
        with pytest.raises(ConnectError, match=r"no license for start 3$"):
            await box.call("server", "echo", {"text": "one"})


async def test_a_program_whose_ends_differ_is_waited_for(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with Toolbox({"server": _exiting(starts, "3,3,4,3,3")}) as box:
        assert (await box.call("server", "echo", {"text": "one"})).text == "one"

    assert len(starts.read_text().split()) == 6
