"""What passes through `plait serve` as it is, to and from servers that share URIs or hang."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest

from plait.serve.http import MAX_SESSIONS
from plait.serve.journal import read_states
from plait.serve.upstream import FIRST_LIST_SECONDS
from plait.testing import eventually
from tests.integration.serve.conftest import (
    LEGACY,
    RAW,
    RawClient,
    python_server,
    raw_client,
    serving_http,
    write_config,
)

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of other tests must not be read."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))


def two_servers(folder: Path) -> Path:
    return write_config(folder, {"a": python_server(RAW, "a"), "b": python_server(RAW, "b")})


async def test_links_and_templates_lead_to_the_server_that_they_came_from(tmp_path: Path) -> None:
    async with raw_client(two_servers(tmp_path)) as client:
        await client.ask("resources/list")
        links = [block["uri"] for block in (await client.call("b__links"))["content"]]
        uris = (*links[:2], "b://x/y/z", "note://b", "plait://b/item://4", "note://shared")
        texts = [(await client.ask("resources/read", uri=uri))["contents"][0] for uri in uris]

    assert links == [
        "plait://b/note://shared",
        "plait://b/note://unlisted",
        "https://example.com/x",
    ]
    assert [one["text"] for one in texts] == ["b", "b", "b", "b", "b", "a"]
    assert [one["uri"] for one in texts] == list(uris)


async def test_a_result_passes_with_all_its_fields(tmp_path: Path) -> None:
    async with raw_client(two_servers(tmp_path)) as client:
        await client.ask("tools/list")
        await client.call("a__who")
        result = await client.call("a__odd")

    assert result == {
        "content": [{"type": "hologram", "data": {"x": 1}}],
        "structuredContent": {"a": None},
        "future": [1],
    }


async def test_servers_learn_what_the_client_can_do_and_what_it_tells(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"url": {}}, "roots": {"listChanged": True}}
    async with raw_client(two_servers(tmp_path), **capabilities) as client:
        await client.call("a__who")
        await client.ask("resources/read", uri="note://a", _meta={"own/key": 1})
        client.send({"method": "notifications/roots/list_changed"})
        await client.call("a__visited")
        told = json.loads((await client.call("a__told"))["content"][0]["text"])

    assert json.loads(told[0])["elicitation"] == {"url": {}}
    assert json.dumps({"own/key": 1}) in told
    assert "notifications/roots/list_changed" in told
    complete = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}}
    assert {"jsonrpc": "2.0", **complete} in client.notifications


async def test_a_server_that_hangs_keeps_nobody_waiting_after_the_first_moments(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    servers = {"a": python_server(RAW, "a"), "slow": python_server(RAW, "slow", str(gate))}
    async with raw_client(write_config(tmp_path, servers)) as client:
        first = {tool["name"] for tool in (await client.ask("tools/list"))["tools"]}
        began = time.monotonic()
        for _ in range(3):
            await client.ask("tools/list")
            await client.call("a__who")
            await client.ask("resources/read", uri="note://a")
        seconds = time.monotonic() - began
        gate.unlink()
        await eventually(
            lambda: any("tools/list_changed" in one["method"] for one in client.notifications),
            timeout_seconds=30,
        )
        await eventually_listed(client, "slow__who")

    assert "a__who" in first
    assert "slow__who" not in first
    assert seconds < FIRST_LIST_SECONDS  # each of these would have waited as long


async def eventually_listed(client: RawClient, name: str) -> None:
    """Wait until a tool is listed: announcements of servers come one after the other."""

    async def is_listed() -> bool:
        return any(tool["name"] == name for tool in (await client.ask("tools/list"))["tools"])

    await eventually(is_listed, timeout_seconds=30)


async def test_a_changed_entry_forgets_only_the_tools_of_its_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    servers = {name: python_server(RAW, name, str(gate)) for name in ("a", "b")}
    config = write_config(tmp_path, servers)
    async with raw_client(config) as client:
        await eventually_listed(client, "a__who")
        await eventually_listed(client, "b__who")
    gate.touch()  # now both hang
    write_config(tmp_path, {**servers, "b": {**servers["b"], "timeout": 30}})
    async with raw_client(config) as client:
        names = {tool["name"] for tool in (await client.ask("tools/list"))["tools"]}
        gate.unlink()

    assert "a__who" in names
    assert "b__who" not in names


async def post(client: httpx2.AsyncClient, url: str, body: object, **headers: str) -> Any:
    """Post a message of the handshake era."""
    accepted = {"Accept": "application/json, text/event-stream", **headers}
    return await client.post(url, json=body, headers=accepted)


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def modern(method: str, capabilities: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    key = "io.modelcontextprotocol"
    meta = {f"{key}/protocolVersion": MODERN, f"{key}/clientCapabilities": capabilities}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return request(method, _meta=meta), headers


HANDSHAKE = request(
    "initialize",
    protocolVersion=LEGACY,
    capabilities={},
    clientInfo={"name": "raw", "version": "1"},
)


async def test_malformed_requests_over_http_get_an_answer(tmp_path: Path) -> None:
    with serving_http(two_servers(tmp_path)) as server:
        async with httpx2.AsyncClient(timeout=20) as client:
            opened = await post(client, server.url, HANDSHAKE)
            own = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            bodies: list[dict[str, Any]] = [
                request("tools/list", _meta=[1]),
                request("initialize", protocolVersion=["x"], capabilities=[1]),
                request("resources/read", uri={"a": 1}),
                request("resources/subscribe"),
                request("logging/setLevel", level={"a": 1}),
            ]
            answers = [(await post(client, server.url, body, **own)).json() for body in bodies]
            odd = {"method": "notifications/cancelled", "params": {"requestId": [1]}}
            ignored = await post(client, server.url, {"jsonrpc": "2.0", **odd}, **own)

    assert [answer["error"]["code"] for answer in answers] == [-32602] * len(bodies)
    assert ignored.status_code == 202


async def test_a_request_with_the_id_zero_can_be_cancelled_over_http(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    config = write_config(tmp_path, {"a": python_server(RAW, "a", str(gate))})
    with serving_http(config) as server:
        async with httpx2.AsyncClient(timeout=20) as client:
            opened = await post(client, server.url, HANDSHAKE)
            own = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            await post(client, server.url, request("tools/list"), **own)
            gate.touch()
            body = request("tools/call", number=0, name="a__who")
            calling = asyncio.create_task(post(client, server.url, body, **own))
            cancel = {"method": "notifications/cancelled", "params": {"requestId": 0}}
            with anyio.fail_after(15):
                while not calling.done():
                    await post(client, server.url, {"jsonrpc": "2.0", **cancel}, **own)
                    await anyio.sleep(0.05)
            gate.unlink()

    assert (await calling).status_code == 202


async def test_clients_over_http_have_a_bounded_number_of_sessions(tmp_path: Path) -> None:
    with serving_http(write_config(tmp_path, {"a": {"url": "http://127.0.0.1:9/mcp"}})) as server:
        async with httpx2.AsyncClient(timeout=60) as client:
            health = server.url.replace("/mcp", "/health")
            body, headers = modern("server/discover", {"roots": {}})
            await asyncio.gather(*(post(client, server.url, body, **headers) for _ in range(10)))
            alike = (await client.get(health)).json()["sessions"]
            for number in range(MAX_SESSIONS + 5):
                body, headers = modern("server/discover", {"experimental": {f"x{number}": {}}})
                await post(client, server.url, body, **headers)
            different = (await client.get(health)).json()["sessions"]

    assert alike == 1
    assert different <= MAX_SESSIONS


async def test_a_signal_ends_streams_and_lets_calls_end(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    config = write_config(tmp_path, {"a": python_server(RAW, "a", str(gate))})
    with serving_http(config) as server:
        async with httpx2.AsyncClient(timeout=20) as client:
            opened = await post(client, server.url, HANDSHAKE)
            own = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            await post(client, server.url, request("tools/list"), **own)
            streaming = {"Accept": "text/event-stream", **own}
            async with client.stream("GET", server.url, headers=streaming) as stream:
                gate.touch()
                body = request("tools/call", number=5, name="a__who")
                calling = asyncio.create_task(post(client, server.url, body, **own))
                await eventually(_has_call_under_way, timeout_seconds=20)
                assert server.pid is not None
                os.kill(server.pid, signal.SIGTERM)
                async for _ in stream.aiter_bytes():
                    pass  # it ends, though nobody ended it
                assert not calling.done()
                gate.unlink()
                answer = (await calling).json()
            left = psutil.Process().children(recursive=True)
            await eventually(lambda: not any(_is_of(one, RAW) for one in left), timeout_seconds=20)

    assert answer["result"]["content"][0]["text"] == "a"


def _has_call_under_way() -> bool:
    clients = [client for state in read_states() for client in state["clients"]]
    return any(client["under_way"] for client in clients)


def _is_of(process: psutil.Process, program: str) -> bool:
    try:
        return process.is_running() and program in process.cmdline()
    except psutil.Error:
        return False
