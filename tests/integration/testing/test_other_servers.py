"""The servers of `tests/servers`: no SDK, MCP SDK 1.x, and Node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.sse import sse_client

from plait.testing import running
from tests.integration.testing.support import command_of, parameters, text
from tests.servers import (
    everything_server,
    everything_stdio_config,
    legacy_server,
    legacy_stdio_config,
    node_stdio_config,
    raw_http_server,
    raw_stdio_config,
)
from tests.servers.raw.payloads import MODES

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(method: str, *, modern: bool, **params: Any) -> Json:
    meta = {"_meta": ENVELOPE} if modern else {}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, **meta}}


def spoken(config: dict[str, object], *messages: Json) -> list[str]:
    lines = "".join(f"{json.dumps(message)}\n" for message in messages)
    done = subprocess.run(
        command_of(config), input=lines, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("modern", [False, True])
def test_a_raw_stdio_server_answers_in_each_mode(modern: bool) -> None:
    messages = [
        request("server/discover" if modern else "initialize", modern=modern),
        request("tools/list", modern=modern),
        *(request("tools/call", modern=modern, name=mode) for mode in MODES),
    ]
    plain = spoken(raw_stdio_config("unknown-block"), *messages)
    noisy = spoken(raw_stdio_config("all"), *messages)

    assert len(plain) == len(messages)
    assert all(json.loads(line)["id"] == 1 for line in plain)
    assert "Server ready" in noisy
    names = [tool["name"] for tool in json.loads(plain[1])["result"]["tools"]]
    assert names == ["good", "unknown-block"]
    called = json.loads(plain[2])["result"]
    assert [block["type"] for block in called["content"]] == ["text", "hologram", "text"]
    assert ("resultType" in called) == modern


def test_a_raw_server_may_know_one_era_only() -> None:
    opening = (request("server/discover", modern=True), request("initialize", modern=False))
    discovered, refused = map(
        json.loads, spoken(raw_stdio_config("two-pages", era="modern"), *opening)
    )
    unknown, welcomed = map(
        json.loads, spoken(raw_stdio_config("two-pages", era="legacy"), *opening)
    )

    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert refused["error"]["code"] == unknown["error"]["code"] == types.METHOD_NOT_FOUND
    assert welcomed["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_throws_away_what_raw_servers_send(mode: Any) -> None:
    async with Client(parameters(raw_stdio_config("unknown-block")), mode=mode) as client:
        assert (client.protocol_version == "2026-07-28") == (mode == "auto")
        assert await text(client, "good") == "good"
        with pytest.raises(ValueError, match="hologram"):
            await client.call_tool("unknown-block")


async def test_raw_http_servers_answer_with_json_and_with_events() -> None:
    both = (raw_http_server("no-content"), raw_http_server("all", era="legacy", answer="sse"))
    with running(*both) as (plain, events):
        async with Client(plain.url) as client:
            assert client.protocol_version == "2026-07-28"
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "good",
                "no-content",
            ]
        async with Client(events.url) as client:
            assert client.protocol_version == "2025-11-25"
            assert await client.session.send_ping() is not None  # pyright: ignore[reportDeprecated]
        answer = httpx2.post(events.url, json=request("tools/call", modern=False, name="good"))
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.text.startswith('event: message\ndata: {"jsonrpc"')


async def test_a_server_of_the_old_sdk_forgets_its_sessions_when_killed() -> None:
    with running(legacy_server("http"), legacy_server("sse")) as (http, sse):
        async with Client(http.url) as client:
            assert client.protocol_version == "2025-11-25"
            assert [await text(client, "counter") for _ in range(2)] == ["1", "2"]
            assert await text(client, "pay", amount=5) == "paid 5"
            await anyio.to_thread.run_sync(http.restart)
            with pytest.raises(MCPError, match="Session"):
                await client.call_tool("counter")
        assert http.state.ledger() == ["5"]
        assert len(http.state.sessions("initialize")) == 1
        async with Client(sse_client(sse.url)) as client:
            assert await text(client, "pid") == str(sse.pid)


async def test_a_stdio_server_of_the_old_sdk_answers(tmp_path: Path) -> None:
    async with Client(parameters(legacy_stdio_config(tmp_path))) as client:
        assert await text(client, "add", a=1, b=2) == "3"
        assert await text(client, "slow", seconds=0.01) == "slept 0.01 s"
    assert (tmp_path / "sessions").read_text().startswith("initialize ")


async def test_the_node_servers_answer(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    with running(everything_server("http"), everything_server("sse")) as (http, sse):
        for target in (http.url, sse_client(sse.url), parameters(everything_stdio_config())):
            async with Client(target) as client:
                assert client.protocol_version == "2025-11-25"
                assert "hi" in await text(client, "echo", message="hi")
    async with Client(parameters(node_stdio_config("filesystem", str(tmp_path)))) as client:
        note = await text(client, "read_text_file", path=str(tmp_path / "note.txt"))
        assert note == "hello"
