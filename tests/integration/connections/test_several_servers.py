"""One client, several servers: the good ones work, whatever the others do."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from plait import ConnectError, ConnectTimeoutError, PlaitError, Toolbox
from plait.testing import eventually, free_port
from plait.testing.fixtures import StartFaultServer
from tests.integration.connections.targets import reach
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_the_good_server_s_tools_arrive_within_the_connect_timeout(
    fault_server: StartFaultServer, blackhole_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    good = fault_server("http")
    servers = {
        "refuses": {"url": f"http://127.0.0.1:{free_port()}/mcp", "connect_timeout": 4},
        "silent": {"url": f"http://127.0.0.1:{blackhole_port}/mcp", "connect_timeout": 4},
        "fine": {"url": good.url, "connect_timeout": 4},
    }
    async with Toolbox(servers) as box:
        began = time.monotonic()
        tools = await box.tools()
        took = time.monotonic() - began

        assert {tool.server for tool in tools} == {"fine"}
        assert took < 6  # 4 s and what a busy machine adds
        # The caller's wait and the attempt to connect end at the same moment, in either order.
        await eventually(lambda: set(box.status().failures) == {"refuses", "silent"})
        failures = box.status().failures
        assert type(failures["refuses"]) is ConnectError
        assert type(failures["silent"]) is ConnectTimeoutError
        assert "refuses" in box.status().summary
        warned = [record for record in caplog.records if record.levelname == "WARNING"]
        assert len(warned) == 2

        await box.tools()
        assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 2


async def test_a_required_server_that_fails_fails_the_whole(fault_server: StartFaultServer) -> None:
    servers = {
        "needed": {"url": f"http://127.0.0.1:{free_port()}/mcp", "required": True},
        "fine": {"url": fault_server("http").url},
    }
    async with Toolbox(servers) as box:
        with pytest.raises(ConnectError) as caught:
            await box.tools()
        assert caught.value.server == "needed"
        with pytest.raises(ConnectError):
            await box.ready()


async def test_if_every_server_fails_one_error_names_all_of_them() -> None:
    servers = {name: {"command": f"no-such-program-{name}"} for name in ("a", "b")}
    async with Toolbox(servers) as box:
        with pytest.raises(ConnectError) as caught:
            await box.tools()
        assert "no-such-program-a" in str(caught.value)
        assert "no-such-program-b" in str(caught.value)


async def test_a_server_that_comes_up_late_is_found_without_anybody_asking(
    fault_server: StartFaultServer,
) -> None:
    late = fault_server("http")
    await asyncio.to_thread(late.kill)
    servers = {"late": {"url": late.url}, "fine": stdio_config()}
    async with Toolbox(servers) as box:
        assert {tool.server for tool in await box.tools()} == {"fine"}

        await asyncio.to_thread(late.start)
        await eventually(lambda: box.status()["late"].state == "ready", timeout_seconds=15)
        assert {tool.server for tool in await box.tools()} == {"late", "fine"}


async def test_two_hundred_parallel_calls_get_their_own_answers() -> None:
    async with Toolbox({"server": stdio_config()}) as box:
        await box.tools()
        results = await asyncio.gather(
            *(box.call("server", "echo", {"text": f"call {n}"}) for n in range(200))
        )
        assert [result.text for result in results] == [f"call {n}" for n in range(200)]
        assert box.status()["server"].sessions == 1


@pytest.mark.parametrize("transport", ["stdio", "http", "sse", "websocket"])
async def test_a_slow_call_does_not_hold_up_a_fast_one(
    transport: str, fault_server: StartFaultServer
) -> None:
    config, _ = reach(transport, fault_server)
    async with Toolbox({"server": config}) as box:
        await box.tools()
        slow = asyncio.create_task(box.call("server", "hang"))
        await eventually(lambda: box.status()["server"].in_flight == 1)
        async with asyncio.timeout(5):
            assert (await box.call("server", "echo", {"text": "fast"})).text == "fast"
        assert not slow.done()
        slow.cancel()


async def test_a_limit_on_parallel_calls_holds() -> None:
    async with Toolbox({"server": stdio_config() | {"max_concurrency": 2}}) as box:
        await box.tools()
        await asyncio.gather(*(box.call("server", "slow", {"seconds": 0.02}) for _ in range(20)))
        assert (await box.call("server", "max_parallel")).text == "2"


CRASHES_AFTER_HANDSHAKE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message.get("method") == "server/discover":
        print(json.dumps(answer | {"error": {"code": -32601, "message": "?"}}), flush=True)
    if message.get("method") == "initialize":
        info = {"name": "doomed", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
        print(json.dumps(answer | {"result": result}), flush=True)
        sys.exit("no licence")
"""


async def test_a_server_that_dies_right_after_the_handshake_is_not_started_in_a_tight_loop() -> (
    None
):
    servers = {
        "doomed": {"command": sys.executable, "args": ["-c", CRASHES_AFTER_HANDSHAKE]},
        "fine": stdio_config(),
    }
    async with Toolbox(servers) as box:
        with pytest.raises(PlaitError, match="no licence"):
            await box.call("doomed", "anything")
        started = box.status()["doomed"].sessions
        assert (await box.call("fine", "counter")).text == "1"
        await asyncio.sleep(1.5)
        assert box.status()["doomed"].sessions <= started + 8
