"""Child processes that misbehave: they cost other calls nothing, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from plait import OutcomeUnknownError, Toolbox
from plait.testing import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

SERVER = """
import json, os, sys, time

ledger = open(sys.argv[1], "a", buffering=1)


def double_fork():
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for fd in (0, 1, 2):
            os.close(fd)
        print(f"daemon {os.getpid()}", file=ledger)
        time.sleep(600)
        os._exit(0)


for line in open(0, "rb", buffering=0):  # reads no further than the line
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "server/discover":
        answer["error"] = {"code": -32601, "message": "unknown"}
    elif method == "initialize":
        info = {"name": "storm", "version": "1"}
        answer["result"] = {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info
        }
    elif method == "tools/list":
        names = ("do", "close", "doze", "fork", "flood")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        answer["result"] = {"tools": tools}
    elif method == "tools/call":
        name = message["params"]["name"]
        print(f"{os.getpid()} {name}", file=ledger)
        if name == "close":
            os.close(1)
            print("closed", file=ledger)
            continue
        if name == "doze":
            os.close(1)
            time.sleep(0.8)
            continue
        if name == "fork":
            double_fork()
        if name == "flood":
            for _ in range(50):
                sys.stderr.write(("x" * 99 + "\\n") * 10_000)
            sys.stderr.write("the last words\\n")
            sys.stderr.flush()
        answer["result"] = {"content": [{"type": "text", "text": str(os.getpid())}]}
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "ledger").touch()
    return tmp_path / "ledger"


def config(ledger: Path) -> dict[str, Any]:
    script = str(ledger.with_name("server.py"))
    return {"command": sys.executable, "args": [script, str(ledger)], "protocol": "legacy"}


def _lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines()


async def test_no_call_goes_to_a_process_that_has_closed_its_output(ledger: Path) -> None:
    async with Toolbox({"server": config(ledger)}) as box:
        old = (await box.call("server", "do")).text
        closing = asyncio.create_task(box.call("server", "close"))
        await eventually(lambda: "closed" in _lines(ledger))

        pids = await asyncio.gather(*(box.call("server", "do") for _ in range(30)))

        assert {one.text for one in pids} != {old}
        assert len({one.text for one in pids}) == 1
        with pytest.raises(OutcomeUnknownError):
            await closing
    ran = _lines(ledger)
    assert ran.count(f"{old} do") == 1
    assert ran.count(f"{pids[0].text} do") == 30


async def test_a_call_that_a_process_without_output_reads_late_is_not_made_again(
    ledger: Path,
) -> None:
    async with Toolbox({"server": config(ledger)}) as box:
        await box.call("server", "do")
        calls = [box.call("server", name) for name in ("doze", "do")]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

        assert [type(one) for one in outcomes] == [OutcomeUnknownError] * 2
        await eventually(lambda: len(_lines(ledger)) == 3)
        await box.call("server", "do")
    assert len(_lines(ledger)) == 4


async def test_a_flood_of_standard_error_is_read_in_bulk_and_its_tail_kept(ledger: Path) -> None:
    async with Toolbox({"server": config(ledger)}) as box:
        await box.call("server", "do")
        own = time.process_time()
        await box.call("server", "flood")
        await eventually(lambda: "the last words" in box.status()["server"].stderr_tail)

        # 50 MB in half a million lines; a line at a time took ten times as long.
        assert time.process_time() - own < 1
        assert len(box.status()["server"].stderr_tail) == 50


def _daemons(ledger: Path) -> list[psutil.Process]:
    lines = [line.split() for line in _lines(ledger)]
    pids = [int(words[1]) for words in lines if words[0] == "daemon"]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


async def test_a_child_that_forked_twice_ends_with_the_client(ledger: Path) -> None:
    async with Toolbox({"server": config(ledger)}) as box:
        await box.call("server", "fork")
        await eventually(lambda: len(_daemons(ledger)) == 1)
        (daemon,) = _daemons(ledger)
        assert daemon.ppid() != box.status()["server"].pid

    _, alive = psutil.wait_procs([daemon], timeout=5)
    assert not alive


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
async def test_a_child_that_forks_twice_at_once_ends_with_the_client(ledger: Path) -> None:
    """Before anything can be done to the process that was started."""
    daemon_program = "echo daemon $$ >> $0; exec sleep 600"
    leave = f"(setsid sh -c '{daemon_program}' $0 </dev/null >/dev/null 2>&1 &); exec \"$@\""
    server = config(ledger)
    server["args"] = ["-c", leave, str(ledger), server["command"], *server["args"]]
    server["command"] = "sh"
    async with Toolbox({"server": server}) as box:
        await box.call("server", "do")
        await eventually(lambda: len(_daemons(ledger)) == 1)
        (daemon,) = _daemons(ledger)

    _, alive = psutil.wait_procs([daemon], timeout=5)
    assert not alive


PARENT = """
import asyncio, json, sys
from plait import Toolbox

async def main():
    async with Toolbox({"server": json.loads(sys.argv[1])}) as box:
        await box.call("server", "fork")
        print("ready", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
async def test_a_child_that_forked_twice_ends_with_a_program_that_is_killed(ledger: Path) -> None:
    command = [sys.executable, "-c", PARENT, json.dumps(config(ledger))]
    parent = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        assert await asyncio.to_thread(parent.stdout.readline) == b"ready\n"
        await eventually(lambda: len(_daemons(ledger)) == 1)
        (daemon,) = _daemons(ledger)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate()

    _, alive = psutil.wait_procs([daemon], timeout=10)
    assert not alive
