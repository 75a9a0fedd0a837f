"""Stdio servers as they are run on Windows: simulated here, with the process code of the SDK."""

from __future__ import annotations

import logging
import sys

import psutil
import pytest

from plait import ConfigError, ConnectError, OutcomeUnknownError, Toolbox
from plait.client.transports import process, windows
from plait.testing import server_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stdio servers be started as where plait cannot start processes."""
    monkeypatch.setattr(process, "IS_POSIX", False)
    windows._warn_untested.cache_clear()


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_a_server_is_run_by_the_process_code_of_the_sdk_with_one_warning(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = {**server_stdio_config(), "protocol": protocol}
    async with Toolbox({"one": one, "two": one}) as box:
        texts = [
            (await box.call(name, "add_numbers", {"a": 1, "b": 2})).text for name in ("one", "two")
        ]
        pid = box.status()["one"].pid

    assert texts == ["3", "3"]
    assert pid is not None
    assert not psutil.pid_exists(pid)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.getMessage() for one in warnings] == [
        "stdio servers on Windows run on code of the MCP SDK; plait does not test this"
    ]


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        ("import sys; sys.exit('no key ' + 'x' * 9)", ConnectError, r"exited \(1\).*no key x"),
        (None, ConnectError, "cannot start 'nowhere-to-be-found'"),
    ],
    ids=["exits", "is missing"],
)
async def test_a_program_that_does_not_start_says_why(
    program: str | None, error: type[Exception], message: str
) -> None:
    command = {"command": "nowhere-to-be-found"}
    if program is not None:
        command = {"command": sys.executable, "args": ["-c", program]}  # type: ignore[dict-item]
    async with Toolbox({"one": {**command, "reconnect": {"max_attempts": 1}}}) as box:
        with pytest.raises(error, match=message):
            await box.tools()


PROGRAM = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        sys.exit(3)
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "tools": [
        {"name": "pay", "inputSchema": {"type": "object"}}
    ], "serverInfo": {"name": "x", "version": "1"}}
    print("banner")
    if message["method"] == "tools/list" and sys.argv[1] == "deaf":
        os.close(0)
    print(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}), flush=True)
    if message["method"] == "tools/list" and sys.argv[1] == "deaf":
        time.sleep(60)
"""


@pytest.mark.parametrize(
    ("way", "reason"), [("dead", r"exited \(3\)"), ("deaf", "Connection closed")]
)
async def test_a_call_that_its_process_has_not_survived_is_never_taken_as_unsent(
    way: str, reason: str
) -> None:
    server = {"command": sys.executable, "args": ["-c", PROGRAM, way], "protocol": "legacy"}
    async with Toolbox({"one": server}) as box:
        with pytest.raises(OutcomeUnknownError, match=reason):
            await box.call("one", "pay", timeout_seconds=20)


async def test_without_the_sdk_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.os.win32.utilities", None)
    async with Toolbox({"one": server_stdio_config()}) as box:
        with pytest.raises(ConfigError, match=r"pip install 'plait\[sdk\]'"):
            await box.tools()
