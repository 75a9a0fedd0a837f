"""The servers of the tests after the suite of `@langchain/mcp-adapters`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from plait.testing import ServerProcess, running
from tests.integration.langchain.js import TOKEN
from tests.servers.js_servers import served_js, stdio_js

Json = dict[str, Any]


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
