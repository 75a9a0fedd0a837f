"""Child processes: their noise, their last words, and that none is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from plait import ConnectError, Toolbox
from plait._support.redact import Redactor
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer
from plait.client.connections.opening import enter_session
from plait.client.connections.session_keeper import ServerMemory, SessionOptions
from plait.client.transports.process import start_process
from plait.client.transports.wire_log import make_wire
from plait.errors import McpVersionError
from plait.testing import eventually, stdio_config
from plait.testing.faults.fault_options import NoiseKind
from tests import nursery
from tests.integration.connections.targets import pid_of
from tests.nursery import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

NOISE: tuple[NoiseKind, ...] = ("banner", "crlf", "bom", "half", "split", "utf8", "biglines")


def _server_of(program: str, protocol: str) -> StdioServer:
    """Return the configuration of a server that is a program of Python."""
    config = {"command": sys.executable, "args": ["-S", "-c", program], "protocol": protocol}
    server = read_config({"servers": {"shop": config}}).servers["shop"]
    assert isinstance(server, StdioServer)
    return server


@pytest.mark.parametrize("kind", NOISE)
async def test_noise_on_standard_output_is_survived(kind: NoiseKind) -> None:
    async with Toolbox({"server": nursery.stdio_config(noise=[kind])}) as box:
        async with asyncio.timeout(30):
            for n in range(5):
                assert (await box.call("server", "echo", {"text": f"{n}"})).text == f"{n}"
        assert box.status()["server"].sessions == 1


async def test_noise_is_counted_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Toolbox({"server": nursery.stdio_config(noise=["banner", "biglines"])}) as box:
        for _ in range(3):
            await box.call("server", "counter")
        assert box.status()["server"].noise_lines > 1
    warned = [r for r in caplog.records if "what is not MCP" in r.getMessage()]
    assert len(warned) == 1


async def test_a_result_of_twenty_megabytes_arrives() -> None:
    async with Toolbox({"server": nursery.stdio_config()}) as box:
        result = await box.call("server", "big", {"size_bytes": 20_000_000})
        assert len(result.text) == 20_000_000


async def test_the_last_words_of_a_server_that_cannot_start_are_in_the_error() -> None:
    config = nursery.stdio_config(stderr_line="no database at postgres", exit_after=0, exit_code=3)
    async with Toolbox({"server": config | {"restart": {"max_attempts": 1}}}) as box:
        with pytest.raises(ConnectError) as caught:
            await box.tools()
        assert "exited (3)" in str(caught.value)
        assert "no database at postgres" in str(caught.value)
        assert "no database at postgres" in box.status()["server"].stderr_tail


async def test_only_the_last_fifty_lines_of_standard_error_are_kept() -> None:
    lines = [f"line {n}" for n in range(80)]
    async with Toolbox({"server": nursery.stdio_config(stderr_line=lines)}) as box:
        await box.call("server", "counter")
        await eventually(lambda: "line 79" in box.status()["server"].stderr_tail)
        assert len(box.status()["server"].stderr_tail) == 50


async def test_secrets_in_the_environment_stay_out_of_every_error() -> None:
    canary = "canary-51c0ffee"
    config = nursery.stdio_config(stderr_line=f"login failed for {canary}", exit_after=0) | {
        "env": {"SERVICE_PASSPHRASE": canary},
        "restart": {"max_attempts": 1},
    }
    async with Toolbox({"server": config}) as box:
        with pytest.raises(ConnectError) as caught:
            await box.tools()
        seen = f"{caught.value} {caught.value.to_dict()} {box.status().to_dict()} {box.config!r}"
        assert canary not in seen
        assert "login failed for" in seen


async def test_a_command_that_does_not_exist_is_named_at_once() -> None:
    async with Toolbox({"server": {"command": "no-such-program-here"}}) as box:
        async with asyncio.timeout(2):
            with pytest.raises(ConnectError, match="no-such-program-here"):
                await box.tools()


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    config = {"command": sys.executable, "cwd": str(tmp_path / "missing")}
    async with Toolbox({"server": config}) as box:
        with pytest.raises(ConnectError, match="missing"):
            await box.tools()


async def test_a_server_that_ignores_everything_is_killed_on_close(tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(
        textwrap.dedent("""
        import signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
        """)
    )
    config = {"command": sys.executable, "args": [str(script)], "connect_timeout": 1}
    before = psutil.Process().children()
    async with Toolbox({"server": config}) as box:
        with pytest.raises(ConnectError):
            await box.tools()
    assert psutil.Process().children() == before


async def test_grandchildren_of_a_wrapper_are_gone_after_close() -> None:
    inner = stdio_config()
    command = " ".join([str(inner["command"]), *map(str, inner["args"])])  # pyright: ignore[reportArgumentType]
    config = {"command": "bash", "args": ["-c", f"sleep 1000 & {command}; true"]}
    async with Toolbox({"server": config}) as box:
        await box.call("server", "counter")
        wrapper = psutil.Process(pid_of(box))
        family = [wrapper, *wrapper.children(recursive=True)]
        assert len(family) >= 3
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


PARENT = """
import asyncio, json, sys, threading
from plait import Toolbox

config = json.loads(sys.argv[1])

async def main():
    box = Toolbox({"server": config})
    await box.call("server", "counter")
    print(box.status()["server"].pid, flush=True)
    await asyncio.sleep(1000)

if sys.argv[2] == "thread":
    # A client used from a thread that ends; its server must not die with that thread.
    box = Toolbox({"server": config})
    thread = threading.Thread(target=lambda: box.call_blocking("server", "counter"))
    thread.start()
    thread.join()
    assert box.call_blocking("server", "counter").text == "2"
    print(box.status()["server"].pid, flush=True)
    threading.Event().wait()
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["loop", "thread"])
@pytest.mark.parametrize("wrapped", [False, True])
async def test_children_and_grandchildren_die_with_a_parent_that_is_killed(
    way: str, wrapped: bool
) -> None:
    config = stdio_config()
    if wrapped:
        command = " ".join([str(config["command"]), *map(str, config["args"])])  # pyright: ignore[reportArgumentType]
        # One grandchild even leaves the process group.
        config = {"command": "bash", "args": ["-c", f"setsid sleep 999 & sleep 998 & {command}"]}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, json.dumps(config), way, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    family = psutil.Process(parent.pid).children(recursive=True)
    assert pid in {process.pid for process in family}

    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()

    _, alive = await asyncio.to_thread(psutil.wait_procs, family, timeout=5)
    assert not alive


@pytest.mark.parametrize(
    "line",
    [
        "from mcp.server.fastmcp import FastMCP",
        "from mcp.server import FastMCP",
        "from mcp.types import TextContentNoLonger",
    ],
)
async def test_a_server_for_another_version_of_the_sdk_is_named_as_that(
    line: str, tmp_path: Path
) -> None:
    program = tmp_path / "old_server.py"
    program.write_text(f"{line}\n")

    async with Toolbox({"old": {**entry(str(program)), "required": False}}) as box:
        with pytest.raises(McpVersionError) as failed:
            await box.call("old", "add", {})

    assert failed.value.retry == "never"
    assert "environment of its own" in str(failed.value)
    assert failed.value.requirement == "mcp<2"


async def test_a_server_without_the_sdk_is_not_said_to_have_another_version(
    tmp_path: Path,
) -> None:
    program = tmp_path / "server.py"
    program.write_text("import mcpx.server\n")

    once = {"required": False, "reconnect": {"max_attempts": 1}}
    async with Toolbox({"odd": {**entry(str(program)), **once}}) as box:
        with pytest.raises(ConnectError) as failed:
            await box.call("odd", "add", {})

    assert not isinstance(failed.value, McpVersionError)


_CLOSES_ITS_INPUT = "import os, sys, time; os.close(0); print('closed', flush=True); "
_LATE_END = "time.sleep(0.2); sys.exit('KeyError: SHOP_TOKEN')"
_ANSWERS_FIRST = """
import json, os, sys, time
request = json.loads(sys.stdin.readline())
os.close(0)
info = {"protocolVersion": "2025-11-25", "capabilities": {}}
result = {**info, "serverInfo": {"name": "late", "version": "1"}}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


_LAST_WORDS = (
    "shop: the server exited (1) before it was ready; its last words: KeyError: SHOP_TOKEN"
)


@pytest.mark.parametrize(
    ("program", "protocol", "text"),
    [
        (_CLOSES_ITS_INPUT + _LATE_END, "auto", _LAST_WORDS),
        (_CLOSES_ITS_INPUT + _LATE_END, "legacy", _LAST_WORDS),
        (_CLOSES_ITS_INPUT + "sys.exit('KeyError: SHOP_TOKEN')", "auto", _LAST_WORDS),
        (_CLOSES_ITS_INPUT + "sys.exit('KeyError: SHOP_TOKEN')", "legacy", _LAST_WORDS),
        (_ANSWERS_FIRST + _LATE_END, "legacy", _LAST_WORDS),
        # One that stays is not waited for long.
        (_CLOSES_ITS_INPUT + "time.sleep(60)", "legacy", "Connection closed"),
    ],
)
async def test_an_error_waits_for_the_end_of_a_process_that_nothing_can_be_sent_to(
    program: str, protocol: str, text: str
) -> None:
    server = _server_of(program, protocol)
    wire = make_wire("shop", Redactor(()), lambda: None)
    if program.startswith(_CLOSES_ITS_INPUT):
        wire.started_process = await start_process(server, wire)
        assert await wire.started_process.stdout.next_line() == b"closed"  # its input is closed now

    with pytest.raises(ConnectError) as caught:
        async with asyncio.timeout(30), AsyncExitStack() as stack:
            await enter_session(stack, server, wire, ServerMemory(), SessionOptions())

    assert text in str(caught.value)
