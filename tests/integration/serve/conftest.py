"""Programs and clients of `plait serve`, in both eras, on stdio and over HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters, types

from plait.testing import ServerProcess, StateDir
from tests import nursery

BOTH_ERAS = Path(__file__).parents[2] / "servers" / "both_eras.py"
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
