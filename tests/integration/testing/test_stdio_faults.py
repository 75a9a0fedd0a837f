"""The faults of the fault server on stdio, seen on the bare pipes and with the SDK's client."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple, Unpack, get_args

import pytest
from mcp import Client, MCPError, types

from plait.testing import FaultOptions, StateDir, eventually
from plait.testing.faults.fault_options import NoiseKind
from plait.testing.faults.fault_server import BAD_UTF8, BANNER, BIG_LINE, BOM, HALF
from tests.integration.testing.support import command_of, parameters, text
from tests.nursery import stdio_config

pytestmark = pytest.mark.anyio


class Done(NamedTuple):
    """How a server ended, and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


ME = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize"} | {
    "params": {"protocolVersion": "2025-11-25", **ME}
}


def spoken(*messages: dict[str, Any], answers: int = 0, **options: Unpack[FaultOptions]) -> Done:
    """Send messages to a server, wait for so many answers, close its input and let it end."""
    with subprocess.Popen(
        command_of(stdio_config(**options)), stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        with suppress(BrokenPipeError):
            for message in messages:
                server.stdin.write(json.dumps(message).encode() + b"\n")
        stdout = b""
        while stdout.count(b'"jsonrpc"') < answers or (answers and not stdout.endswith(b"\n")):
            stdout += server.stdout.read(1024 * 1024)
        if answers or not messages or options.get("hang_handshake"):
            server.stdin.close()
        stdout += server.stdout.read()
        return Done(server.wait(30), stdout, server.stderr.read())


def test_all_noise_at_once_surrounds_the_answers() -> None:
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    done = spoken(INITIALIZE, ping, answers=2, noise=get_args(NoiseKind))

    opening = BOM + BANNER + BAD_UTF8 + BIG_LINE + HALF
    assert done.stdout.startswith(opening)
    first, second, rest = done.stdout.removeprefix(opening).split(b"\r\n")
    assert json.loads(first)["result"]["serverInfo"]["name"] == "fault server"
    before = BAD_UTF8 + BIG_LINE + HALF
    assert second.startswith(before)
    assert json.loads(second.removeprefix(before)) == {"jsonrpc": "2.0", "id": 2, "result": {}}
    assert rest == b""


def test_a_server_may_end_with_last_words_before_the_handshake_or_never_answer() -> None:
    done = spoken(exit_after=0, exit_code=127, stderr_line=["first", "no such module: left_pad"])

    assert done == (127, b"", b"first\nno such module: left_pad\n")
    assert spoken(INITIALIZE, hang_handshake=True).stdout == b""


def test_a_legacy_only_server_does_not_know_discover_and_still_takes_the_handshake() -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    discover = {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}}

    refused, welcomed = spoken(
        discover, INITIALIZE, answers=2, legacy_only=True
    ).stdout.splitlines()

    assert json.loads(refused)["error"]["code"] == types.METHOD_NOT_FOUND
    assert json.loads(welcomed)["result"]["protocolVersion"] == "2025-11-25"


async def test_a_server_exits_after_so_many_answered_calls(tmp_path: Path) -> None:
    options = stdio_config(exit_after=2, slow_start=0.1, state_dir=tmp_path)
    async with Client(parameters(options)) as client:
        assert await text(client, "counter") == "1"
        assert await text(client, "counter") == "2"
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("counter")
    state = StateDir(tmp_path)
    assert len(state.starts()) == 1
    assert [line.split()[0] for line in state.sessions()] == ["connect", "discover"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_was_paid_is_known_after_the_death_of_the_process(
    tmp_path: Path, mode: Any
) -> None:
    state = StateDir(tmp_path)
    async with Client(parameters(stdio_config(state_dir=tmp_path)), mode=mode) as client:
        with pytest.raises(MCPError):
            await client.call_tool("hang", read_timeout_seconds=0.1)

        async def is_counted() -> bool:
            return await text(client, "cancelled_calls") == "1"

        await eventually(is_counted)
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("pay_and_die", {"amount": 3})

    assert state.ledger() == ["3"]


def test_a_tool_may_end_the_process_with_a_code() -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "die"}}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert spoken(INITIALIZE, initialized, call, exit_code=9).code == 9
    assert spoken(INITIALIZE, initialized, call).code == -signal.SIGKILL
