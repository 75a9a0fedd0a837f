"""The servers of the tests of compatibility."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from plait.testing import ServerProcess, running
from tests.integration.langchain.compatibility.common import TOKEN, WIRES, Json
from tests.nursery import fault_server
from tests.servers.js_servers import served_js, stdio_js
from tests.servers.langchain_servers import served, stdio_entry, time_server


@pytest.fixture(scope="session")
def servers() -> Generator[dict[str, ServerProcess]]:
    """The server for time on three transports, and those for arithmetic and a front desk."""
    started = {"http": served("time"), "math": served("math"), "desk": served("desk")}
    started |= {"sse": served("time", "sse"), "websocket": served("time", "websocket")}
    with running(*started.values()):
        yield started


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, servers: dict[str, ServerProcess]) -> Any:
    """The connection of the server for time on each transport."""
    kind: str = request.param
    if kind == "in-process":
        return time_server()
    if kind == "stdio":
        return stdio_entry("time")
    return {"transport": kind, "url": servers[kind].url}


@pytest.fixture(scope="session")
def js_servers() -> Generator[dict[str, ServerProcess]]:
    started = served_js("http"), served_js("sse"), served_js("http", TOKEN), served_js("sse", TOKEN)
    with running(*started) as found:
        yield dict(zip(("http", "sse", "http guarded", "sse guarded"), found, strict=True))


@pytest.fixture(params=["stdio", "http", "sse"])
def connection(request: pytest.FixtureRequest, js_servers: dict[str, ServerProcess]) -> Json:
    kind: str = request.param
    return stdio_js() if kind == "stdio" else {"transport": kind, "url": js_servers[kind].url}


@pytest.fixture(params=["http", "sse"])
def url(request: pytest.FixtureRequest, js_servers: dict[str, ServerProcess]) -> Json:
    return {"transport": request.param, "url": js_servers[request.param].url}


@pytest.fixture(scope="session")
def faults_url() -> Generator[str]:
    """A server with the tool `hang`, which never answers."""
    with fault_server() as server:
        yield server.url
