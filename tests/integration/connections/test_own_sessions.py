"""Sessions of our own: handshake, requests of both sides, notifications."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from plait import Toolbox
from plait.client.connections.session_keeper import Session

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

_SERVER = """
import json, os, sys

folder, turn = sys.argv[1], sys.argv[2]
lines = open(f"{folder}/lines", "a", buffering=1)


def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    lines.write(line)
    return json.loads(line)


RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "plain", "version": "1"},
        "instructions": "be brief",
    },
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "called"}]},
    "prompts/list": {"prompts": []},
    "ping": {},
}

while True:
    message = read()
    method, number = message.get("method"), message.get("id")
    if number is None:
        if turn == "notify" and method == "notifications/initialized":
            write(method="notifications/tools/list_changed")
        continue
    if method == "initialize" and turn == "ping first":
        write(id="early", method="ping")
        while read().get("id") != "early":
            pass
    if method == "initialize" and turn == "noise first":
        print("starting up", flush=True)
    if method == "tools/call" and turn == "log first":
        write(method="notifications/message", params={"level": "info", "data": "begun"})
    if method == "tools/call" and turn == "ask":
        write(id="question", method="roots/list")
        answer = read()
        RESULTS[method]["content"][0]["text"] = json.dumps(answer.get("error", {}).get("code"))
    if turn == "die once" and method == "prompts/list" and not os.path.exists(f"{folder}/died"):
        open(f"{folder}/died", "w").close()
        sys.exit(3)
    if method in RESULTS:
        write(id=number, result=RESULTS[method])
    else:
        write(id=number, error={"code": -32601, "message": "Method not found"})
"""


def _config(folder: Path, turn: str = "") -> dict[str, dict[str, Any]]:
    server = {"command": sys.executable, "args": ["-c", _SERVER, str(folder), turn]}
    return {"plain": server}


def _session(box: Toolbox) -> Session:
    session = box.lifecycle.runtime.pool["plain"].keeper.session
    assert session is not None
    return session


def _received(folder: Path) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in (folder / "lines").read_text().splitlines()]
    return [{**message, "id": None} for message in messages]


async def test_tools_are_listed_and_called(tmp_path: Path) -> None:
    async with Toolbox(_config(tmp_path)) as box:
        tools = await box.tools()
        result = await box.call("plain", "echo")
        info = await box.server_info("plain")

        assert [tool.name for tool in tools] == ["echo"]
        assert result.text == "called"
        assert (info.name, info.instructions) == ("plain", "be brief")
        assert info.capabilities is not None
        assert info.capabilities.tools is not None


async def test_a_session_has_one_handshake(tmp_path: Path) -> None:
    async with Toolbox(_config(tmp_path)) as box:
        await box.tools()
        session = _session(box)

        assert await box.list_prompts() == []

        assert (await box.call("plain", "echo")).text == "called"
        assert _session(box) is session
    sent = [message["method"] for message in _received(tmp_path)]
    assert sent.count("initialize") == 1
    assert sent.count("notifications/initialized") == 1


async def test_a_notification_right_after_the_handshake_is_dispatched(tmp_path: Path) -> None:
    changed = asyncio.Event()

    async def on_change(*_: object) -> None:
        changed.set()

    async with Toolbox(_config(tmp_path, "notify"), on_tools_list_changed=on_change) as box:
        await box.tools()
        async with asyncio.timeout(20):
            await changed.wait()


@pytest.mark.parametrize("turn", ["ping first", "noise first"])
async def test_a_request_or_noise_in_the_middle_of_a_handshake_does_no_harm(
    tmp_path: Path, turn: str
) -> None:
    async with Toolbox(_config(tmp_path, turn)) as box:
        assert [tool.name for tool in await box.tools()] == ["echo"]
    sent = [message["method"] for message in _received(tmp_path) if "method" in message]
    assert sent[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert sent.count("initialize") == 1


async def test_a_request_of_the_server_during_a_direct_call_is_answered(tmp_path: Path) -> None:
    async with Toolbox(_config(tmp_path, "ask")) as box:
        await box.tools()

        result = await box.call("plain", "echo")

        assert result.text == "-32600"  # there are no roots


async def test_a_request_that_ends_the_server_is_repeated_on_a_new_session(tmp_path: Path) -> None:
    async with Toolbox(_config(tmp_path, "die once")) as box:
        await box.tools()

        assert await box.list_prompts() == []

        assert box.status()["plain"].sessions == 2


@pytest.mark.parametrize("asks", [True, False])
async def test_a_handshake_has_versions_names_and_what_callbacks_can_answer(
    tmp_path: Path, *, asks: bool
) -> None:
    async def answer(*_: object) -> Any:
        raise AssertionError("the server does not ask")

    options: dict[str, Any] = {"on_elicitation": lambda _: answer} if asks else {}
    async with Toolbox(_config(tmp_path), **options) as box:
        await box.tools()

    this = {"name": "plait", "version": version("plait")}
    probe = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": this,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    capabilities = {"elicitation": {"form": {}, "url": {}}} if asks else {}
    handshake = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": this,
    }
    expected = [] if asks else [("server/discover", {"_meta": probe})]
    expected += [("initialize", handshake), ("notifications/initialized", None)]
    received = _received(tmp_path)
    assert [(one["method"], one.get("params")) for one in received] == [
        *expected,
        ("tools/list", None),
    ]
    assert {one["jsonrpc"] for one in received} == {"2.0"}
