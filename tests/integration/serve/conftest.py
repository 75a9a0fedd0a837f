"""Programs and clients of `plait serve`, in both eras, on stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters, types

from plait.testing import ServerProcess, StateDir, eventually
from tests import nursery

BOTH_ERAS = Path(__file__).parents[2] / "servers" / "both_eras.py"
RAW = str(Path(__file__).parents[2] / "servers" / "raw" / "shared_uris.py")
LEGACY = "2025-11-25"
READY = r"serving (?P<url>http://\S+)"

Wire = Literal["stdio", "http"]
Era = Literal["legacy", "2026-07-28"]
Open = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["stdio", "http"])
def wire(request: pytest.FixtureRequest) -> Wire:
    """How the client reaches `plait serve`."""
    return request.param


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> Era:
    """The era that the client speaks."""
    return request.param


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """The ledger of the server behind."""
    (tmp_path / "state").mkdir()
    return StateDir(tmp_path / "state")


def write_config(folder: Path, servers: Mapping[str, object], **options: object) -> Path:
    """Write an mcp.json, and return its path."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, **options}))
    return path


def command(config: Path, *arguments: str) -> list[str]:
    """Return the command that serves a configuration."""
    return [*nursery.python(), "-m", "plait", "serve", "--config", str(config), *arguments]


def serving_http(config: Path, *arguments: str) -> ServerProcess:
    """Serve a configuration over HTTP, while the context is open."""
    return ServerProcess(command(config, "--http", "127.0.0.1:0", *arguments), ready=READY)


@asynccontextmanager
async def connected(
    wire: Wire, era: Era, config: Path, *arguments: str, **callbacks: Any
) -> AsyncGenerator[Client]:
    """Open a client of the MCP SDK in front of `plait serve`."""
    async with AsyncExitStack() as stack:
        server: Any
        if wire == "http":
            server = stack.enter_context(serving_http(config, *arguments)).url
        else:
            program, *words = command(config, *arguments)
            server = StdioServerParameters(command=program, args=words, env=dict(os.environ))
        mode: Any = era
        client = Client(server, mode=mode, read_timeout_seconds=30, **callbacks)
        yield await stack.enter_async_context(client)


@pytest.fixture
def served(wire: Wire, era: Era) -> Open:
    """Open a client in front of a configuration; further arguments are those of the command."""
    return partial(connected, wire, era)


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def python_server(*arguments: str) -> dict[str, object]:
    """Return the entry of a Python program that is started like any other."""
    return {"command": sys.executable, "args": list(arguments)}


class RawClient:
    """Sends what it is given, and keeps what it gets."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = count(1)
        self.meta: dict[str, Any] = {}
        """What each request has in the modern era."""
        self.notifications: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[object, dict[str, Any]] = {}

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                self.requests.append(message)
            elif "method" in message:
                self.notifications.append(message)
            else:
                self.answers[message["id"]] = message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        if self.meta:
            params["_meta"] = self.meta
        self.send({"id": number, "method": method, "params": params})
        await eventually(lambda: number in self.answers, timeout_seconds=30)
        answer = self.answers[number]
        result: dict[str, Any] = answer["result"] if "result" in answer else answer["error"]
        return result

    async def call(self, name: str, **params: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=name, arguments={}, **params)


@asynccontextmanager
async def raw_client(
    config: Path, *words: str, era: Era = "legacy", **capabilities: Any
) -> AsyncGenerator[RawClient]:
    """Yield a client on stdio, after the handshake if its era has one."""
    pipe = asyncio.subprocess.PIPE
    line = command(config, *words)
    process = await asyncio.create_subprocess_exec(*line, stdin=pipe, stdout=pipe, limit=2**24)
    client = RawClient(process)
    listening = asyncio.create_task(client.listen())
    if era == "legacy":
        info = {"name": "raw", "version": "1"}
        await client.ask(
            "initialize", protocolVersion=LEGACY, capabilities=capabilities, clientInfo=info
        )
        client.send({"method": "notifications/initialized"})
    else:
        key = "io.modelcontextprotocol"
        client.meta = {f"{key}/protocolVersion": era, f"{key}/clientCapabilities": capabilities}
    try:
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with anyio.fail_after(20):
            await process.wait()
            await listening
