"""HTTP answers that are no success keep their status, their headers and their meaning."""

from __future__ import annotations

import asyncio

import pytest

from plait import (
    AuthRequiredError,
    RateLimitedError,
    Toolbox,
)
from plait.errors import EndpointNotFoundError
from plait.testing.fixtures import StartFaultServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("status", ["429:1", "503:2"])
async def test_a_server_that_asks_for_patience_gets_it_for_any_tool(
    status: str, fault_server: StartFaultServer
) -> None:
    server = fault_server("http", http_status=status, http_status_on="call", retry_after="0.2")
    async with Toolbox({"server": {"url": server.url}}) as box:
        await box.tools()
        result = await box.call("server", "counter")
        assert result.text == "1"


async def test_a_server_that_asks_for_more_patience_than_there_is_is_reported_at_once(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", http_status=429, http_status_on="call", retry_after=3600)
    async with Toolbox({"server": {"url": server.url}}) as box:
        await box.tools()
        with pytest.raises(RateLimitedError) as caught:
            await box.call("server", "counter", timeout_seconds=5)
        assert caught.value.retry_after == 3600.0


async def test_a_server_that_knows_only_sse_is_found_and_remembered(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("sse")
    async with Toolbox({"server": {"url": server.url}}) as box:
        assert (await box.call("server", "add", {"a": 1, "b": 1})).text == "2"
        assert box.status()["server"].transport == "sse"


async def test_the_error_of_a_url_without_a_server_names_both_attempts(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http")
    url = server.url.replace("/mcp", "/nothing")
    async with Toolbox({"server": {"url": url}}) as box:
        with pytest.raises(EndpointNotFoundError) as caught:
            await box.tools()
        assert "SSE" in str(caught.value)
        assert caught.value.status == 404


async def test_a_401_does_not_make_the_client_try_sse(fault_server: StartFaultServer) -> None:
    server = fault_server("http", http_status=401, http_status_on="all")
    async with Toolbox({"server": {"url": server.url}}) as box:
        with pytest.raises(AuthRequiredError) as caught:
            await box.tools()
        assert "SSE" not in str(caught.value)
        assert box.status()["server"].needs_auth
        with pytest.raises(AuthRequiredError):
            await box.tools()


async def test_a_challenge_of_any_characters_is_a_refusal() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        challenge = 'Bearer scope="l\u00e9sen"'.encode()
        writer.write(b"HTTP/1.1 401 No\r\nWWW-Authenticate: %b\r\n" % challenge)
        writer.write(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with Toolbox({"server": {"url": url}}) as box:
            with pytest.raises(AuthRequiredError) as caught:
                await box.tools()

    assert caught.value.scopes == ("l\u00e9sen",)
