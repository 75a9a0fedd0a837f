"""The server as a process: on stdio and HTTP, through restarts, and to whom it talks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from langchain_core.messages import BaseMessage
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from plait import MultiServerMCPClient
from plait.testing import ServerProcess, tool_call
from tests.integration.agents.helpers import arun
from tests.integration.reasoning.servers import COMMAND, environment, http_server, stdio_server

pytestmark = pytest.mark.anyio

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Run a server on HTTP that wants a token."""
    path = tmp_path_factory.mktemp("reasoning") / "reasoning.db"
    with http_server(path, PLAIT_REASONING_TOKEN=TOKEN) as server:
        yield server


def _client(**headers: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}", **headers}, timeout=30)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_tools_are_called_over_http_in_both_eras(guarded: ServerProcess, era: Any) -> None:
    async with (
        _client() as http,
        Client(streamable_http_client(guarded.url, http_client=http), mode=era) as client,
    ):
        first = await client.call_tool("reasoning_linear", {"content": "x"})
        session = first.structured_content["session_id"]
        second = await client.call_tool("reasoning_linear", {"content": "y", "session_id": session})

    assert second.structured_content["previous_thought"] == first.structured_content["thought_id"]


async def test_http_talks_only_to_those_it_should(guarded: ServerProcess) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    health = guarded.url.replace("/mcp", "/health")
    async with httpx2.AsyncClient(timeout=30) as stranger, _client(**accept) as friend:
        answers = {
            "no token": await stranger.post(guarded.url, json=body),
            "wrong token": await stranger.post(
                guarded.url, json=body, headers={"Authorization": "Bearer wrong"}
            ),
            "foreign host": await friend.post(
                guarded.url, json=body, headers={"Host": "evil.example"}
            ),
            "foreign origin": await friend.post(
                guarded.url, json=body, headers={"Origin": "http://evil.example"}
            ),
            "foreign name as a port of a host": await friend.post(
                guarded.url, json=body, headers={"Host": "127.0.0.1:1.evil.example"}
            ),
            "foreign name as a port of an origin": await friend.post(
                guarded.url, json=body, headers={"Origin": "http://127.0.0.1:1.evil.example"}
            ),
            "too big": await friend.post(
                guarded.url, json={**body, "params": {"x": "x" * 5_000_000}}
            ),
        }
        well = await stranger.get(health)

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "no token": 401,
        "wrong token": 401,
        "foreign host": 421,
        "foreign origin": 403,
        "foreign name as a port of a host": 421,
        "foreign name as a port of an origin": 403,
        "too big": 413,
    }
    assert (well.status_code, well.json()["status"], well.json()["backend"]) == (200, "ok", "host")
    assert TOKEN not in guarded.log


async def test_a_signal_ends_the_server_in_good_order(tmp_path: Path) -> None:
    with http_server(tmp_path / "reasoning.db") as server:
        async with Client(server.url) as client:
            await client.call_tool("reasoning_linear", {"content": "x", "session_id": "s"})
        os.kill(server.pid, signal.SIGTERM)
        code = server.wait(30)

    # The server that serves lets the signal end it, once everything is closed.
    assert code in (0, -signal.SIGTERM)
    assert "Traceback" not in server.log


async def test_an_open_address_needs_a_token_and_a_name(tmp_path: Path) -> None:
    command = [*COMMAND, "--db", str(tmp_path / "x.db"), "--http", "0.0.0.0:0"]
    server = ServerProcess(command, env=environment())

    with pytest.raises(RuntimeError, match="PLAIT_REASONING_TOKEN"):
        server.start()

    assert not (tmp_path / "x.db").exists()


async def _steps(
    client: MultiServerMCPClient, disturb: Callable[[], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let an agent take a step, disturb the server, and let it take the next."""

    def second(messages: Sequence[BaseMessage]) -> list[Any]:
        session = json.loads(messages[-1].text)["session_id"]
        disturb()
        return [tool_call("reasoning_linear", content="then", session_id=session)]

    script = [[tool_call("reasoning_linear", content="first")], second, "done"]
    one, two = await arun(script, await client.get_tools())
    return json.loads(one.text), json.loads(two.text)


async def test_an_agent_goes_on_after_the_server_on_stdio_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "reasoning.db"
    parameters = stdio_server(path)
    servers = {
        "reasoning": {
            "transport": "stdio",
            "command": parameters.command,
            "args": parameters.args,
            "env": parameters.env,
        }
    }

    def kill() -> None:
        (server,) = [
            child
            for child in psutil.Process().children(recursive=True)
            if child.cmdline()[-2:] == ["--db", str(path)]
        ]
        server.kill()
        server.wait(10)

    async with MultiServerMCPClient(servers) as client:
        first, second = await _steps(client, kill)

    assert second["previous_thought"] == first["thought_id"]


async def test_an_agent_goes_on_after_the_server_on_http_was_killed(tmp_path: Path) -> None:
    with http_server(tmp_path / "reasoning.db") as server:
        servers = {"reasoning": {"transport": "http", "url": server.url}}
        async with MultiServerMCPClient(servers) as client:
            first, second = await _steps(client, lambda: void(server.restart()))

    assert second["previous_thought"] == first["thought_id"]


def void(_value: object) -> None:
    """Do without a value."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_on_stdio_while_it_waits(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [*COMMAND, "--db", str(tmp_path / "reasoning.db")]
    env = {**os.environ, **environment()}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        server.stdin.write(json.dumps(ping).encode() + b"\n")
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(number)
        code = server.wait(30)

    assert code == 128 + number
