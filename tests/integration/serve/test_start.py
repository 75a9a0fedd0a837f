"""The first answers of `plait serve` on stdio, which come before the server is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import types

from plait._support.folders import cache_folder
from plait.cli.trust import Approvals, approve
from plait.client.catalog.lock import LOCKFILE_NAME
from plait.serve.first_answers import (
    answers_folder,
    answers_text,
    declaration,
    fingerprint,
    read_answers,
)
from plait.testing import eventually
from tests import nursery
from tests.integration.serve.conftest import (
    BOTH_ERAS,
    LEGACY,
    RAW,
    connected,
    python_server,
    raw_client,
    text_of,
    write_config,
)

pytestmark = pytest.mark.anyio

HELLO = {
    "protocolVersion": LEGACY,
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "raw", "version": "1"},
}
SCHEMA = {"inputSchema": {"type": "object"}}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stored_answers() -> list[Path]:
    return [*(cache_folder() / "serve" / "answers").glob("*/*.txt")]


def add_tool(name: str, about: str = "") -> None:
    """Add a tool to the stored answers, as if a server had had it until now."""
    (path,) = stored_answers()
    first, _, body = path.read_bytes().partition(b"\n")
    files = json.loads(first)["files"]
    pairs = (line.partition(b" ") for line in body.split(b"\n"))
    answers = {method.decode(): answer for method, _, answer in pairs}
    listed = json.loads(answers["tools/list"])
    listed["tools"].append({"name": name, "description": about, **SCHEMA})
    answers["tools/list"] = json.dumps(listed).encode()
    path.write_text(answers_text(files, fingerprint(files), answers))


async def test_a_client_goes_on_with_the_server_that_takes_over(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"a": python_server(RAW, "a")})
    async with raw_client(config, elicitation={}) as client:
        first = await client.ask("tools/list")
    add_tool("a__gone")

    async with raw_client(config, elicitation={}) as client:
        listed = await client.ask("tools/list")
        client.send({"id": "given up", **call("a__who")})
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": "given up"}}
        client.send(cancelled)
        told = json.loads((await client.call("a__told"))["content"][0]["text"])
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await eventually(lambda: changed in client.notifications, timeout_seconds=20)
        now = await client.ask("tools/list")
        again = await client.ask("initialize", **HELLO)

    assert [tool["name"] for tool in listed["tools"]][-1] == "a__gone"
    assert json.loads(told[0])["elicitation"] == {"form": {}}
    assert "given up" not in client.answers
    assert now == first
    assert again["protocolVersion"] == LEGACY


async def test_a_client_of_the_modern_era_goes_on_too(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"both": nursery.entry(str(BOTH_ERAS), "both", "stdio")})

    async def answer(context: object, params: object) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"seat": "4F"})

    async with connected("stdio", "2026-07-28", config, elicitation_callback=answer) as client:
        await client.list_tools()
    add_tool("both__gone")
    async with connected("stdio", "2026-07-28", config, elicitation_callback=answer) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        booked = text_of(await client.call_tool("both__reserve"))

    assert names[-1] == "both__gone"
    assert booked == "seat 4F"


def call(name: str) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": {}}}


def everything_at_once() -> bytes:
    """Return what a script sends that closes its end without waiting for answers."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {"id": 3, **call("a__who")},
        {"id": 4, "method": "ping"},
        {"id": 5, "method": "nonsense"},
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **row}).encode() + b"\n" for row in rows)


def answers_in(output: bytes) -> dict[object, object]:
    rows = [json.loads(line) for line in output.splitlines()]
    return {row["id"]: row for row in rows if "id" in row}


def test_a_script_that_sends_everything_at_once_gets_the_same_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_DEBUG", "serve")
    config = write_config(tmp_path, {"a": python_server(RAW, "a")})
    line = [sys.executable, "-m", "plait", "serve", "--config", str(config)]

    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin is not None
        process.stdin.write(everything_at_once())
        process.stdin.flush()
        return process

    first = answers_in(start().communicate(timeout=60)[0])
    (stored,) = stored_answers()
    before = stored.read_bytes()
    killed = start()
    assert killed.stdout is not None
    answered = json.loads(killed.stdout.readline())
    killed.kill()  # while it imports the server
    killed.communicate()
    after = stored.read_bytes()
    add_tool("a__gone", about="more than a pipe holds" * 10_000)
    unread = start()
    assert unread.stderr is not None
    unread.stderr.readline()  # the server has taken over
    second = answers_in(unread.communicate(timeout=60)[0])

    left = [one for one in psutil.Process().children(recursive=True) if RAW in one.cmdline()]
    assert sorted(first, key=str) == [1, 2, 3, 4, 5]
    assert answered == first[1]
    assert before == after
    assert not left
    assert second.pop(2) != first.pop(2)
    assert second == first


def test_the_answers_are_not_given_when_a_file_that_decides_about_them_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {**python_server(RAW, "a"), "envFile": "server.env"}
    (tmp_path / "server.env").write_text("A=1\n")
    (tmp_path / "policy.json").write_text('{"rules": [], "default": "allow"}')
    config = write_config(tmp_path, {"a": entry}, policy="policy.json")
    config = config.rename(tmp_path / ".mcp.json")
    monkeypatch.chdir(tmp_path)
    approve(config)
    line = [*nursery.python(), "-m", "plait", "serve"]
    subprocess.run(line, input=everything_at_once(), stdout=subprocess.DEVNULL, check=True)
    declared = str(declaration("initialize", HELLO))

    def are_given() -> bool:
        return bool(read_answers(answers_folder(["serve"]), declared))

    for name in (".mcp.json", "server.env", "policy.json", LOCKFILE_NAME, "mcp.json"):
        file = tmp_path / name
        content = file.read_bytes() if file.exists() else None
        assert are_given()
        file.write_bytes(b"{}")
        assert not are_given()
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
    assert are_given()
    Approvals().revoke(config)
    assert not are_given()
    done = subprocess.run(line, input=everything_at_once(), capture_output=True)
    assert not done.stdout
    assert b"not approved" in done.stderr
