"""plait beside MCP SDK 1.x: servers in the process, and stock sessions."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.nursery import fault_server
from tests.servers import sdk_1_command

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_servers_and_sessions_may_be_of_sdk_1() -> None:
    with fault_server("http") as server:
        program = await asyncio.create_subprocess_exec(
            *sdk_1_command(server.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await program.communicate()

    assert program.returncode == 0, errors.decode()
    session = [
        "old",
        ["add", "ask", "work", "hang", "fail"],
        {"result": 3},
        ["blue", "done"],
        [[1.0, 2.0, "half"]],
    ]
    assert json.loads(output) == {
        "session over stdio": session,
        "session in process": session,
        "session over HTTP": ["2025-11-25", "2025-11-25"],
        "tools of a session": [
            ["7", "Error executing tool fail: nothing there"],
            "Greet Ann",
            ["remember"],
            True,
        ],
        "error of a server": [
            "ProtocolError",
            "unknown/low: the server answered tools/call with error -32601: Method not found",
        ],
        "tools": ["11", "blue", ["old", "Ask me."]],
        "values of the SDK": [
            "intercepted",
            "hooked",
            "prompted",
            *("read", "bits"),
            *("bits", "prompted"),
        ],
        "low-level server": "low {'a': 1}",
        "cancelled calls": ["by the caller", "by the end of the session"],
        "was served over HTTP": False,
        "warnings": [],
    }
