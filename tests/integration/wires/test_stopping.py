"""A process is stopped even if the time to close its session ends before its grace periods."""

from __future__ import annotations

import sys

import psutil
import pytest

from plait import Toolbox
from plait.testing import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

STUBBORN = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "tools": [],
        "serverInfo": {"name": "stubborn", "version": "1"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("close_timeout", [0.01, 0.3, 1.0])
async def test_a_process_does_not_outlive_the_time_to_close(close_timeout: float) -> None:
    server = {"command": sys.executable, "args": ["-c", STUBBORN], "protocol": "legacy"}
    async with Toolbox({"one": {**server, "close_timeout": close_timeout}}) as box:
        await box.tools()
        pid = box.status()["one"].pid
        assert pid is not None

    await eventually(lambda: not psutil.pid_exists(pid))
