"""What the response of a request means, and which servers need httpx2."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import httpx2
import pytest

from plait._support.redact import Redactor
from plait.client.config.budgets import IncomingLimits
from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import RequestError
from plait.client.transports.http import HttpSender
from plait.client.transports.http_client import is_plain
from plait.client.transports.http_pool import HttpExchange, HttpPool
from plait.client.transports.wire import Wire

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("options", "environment", "plain"),
    [
        ({}, {}, True),
        ({"headers": {"Authorization": "Bearer x"}}, {}, True),
        ({"url": "https://server.test/mcp"}, {}, True),
        ({"url": "http://ann:pw@server.test/mcp"}, {}, False),
        ({"auth": httpx2.Auth()}, {}, False),
        ({"headers": dict}, {}, False),
        ({"http_client_factory": httpx2.AsyncClient}, {}, False),
        ({}, {"HTTP_PROXY": PROXY}, False),
        ({}, {"all_proxy": PROXY}, False),
        ({}, {"HTTPS_PROXY": PROXY}, True),
        ({}, {"HTTP_PROXY": PROXY, "NO_PROXY": "other.test,server.test"}, True),
        ({}, {"HTTP_PROXY": PROXY, "NO_PROXY": "other.test"}, False),
    ],
)
def test_only_the_plain_case_needs_no_generic_client(
    options: dict[str, Any],
    environment: dict[str, str],
    plain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    fields: dict[str, Any] = {"url": "http://server.test:8000/mcp", **options}

    assert is_plain(HttpServer(**fields)) == plain


def test_a_program_that_replaces_the_transport_of_httpx2_still_sees_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def traced(*_: object) -> httpx2.Response:
        raise NotImplementedError

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", traced)

    assert not is_plain(HttpServer(url="http://server.test/mcp"))


class Pool(HttpPool):
    """Takes requests, and sends nothing."""

    def __init__(self) -> None:
        super().__init__("server.test", 80, None, exchange_seconds=30, read_seconds=300)
        self.submitted: list[HttpExchange] = []

    def submit(self, exchange: HttpExchange) -> None:
        self.submitted.append(exchange)
        exchange.on_write()


async def _sent(
    headers: dict[str, str] | None = None, wire: Wire | None = None, most_bytes: int = 1000
) -> tuple[PendingRequest, list[HttpExchange]]:
    """Send a request whose response has a limit."""
    limits = IncomingLimits(message_bytes=most_bytes)
    server = HttpServer(url="http://server.test/mcp", limits=limits)
    wire, pool = wire or Wire("shop", Redactor(), lambda: None), Pool()
    async with httpx2.AsyncClient() as client:
        sender = HttpSender(server, wire, client, pool)
        request = PendingRequest("tools/call", 1, "2026-07-28", headers=headers)
        wire.requests[1] = request
        sender.send(b"{}", request)
    return request, pool.submitted


JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream")
GZIP = (b"content-encoding", b"gzip")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fields", "chunks"),
    [
        ([JSON], [b"x" * 600, b"x" * 600]),
        ([JSON, GZIP], [gzip.compress(b"x" * 10_000_000)]),
        ([EVENTS], [b"data: " + b"x" * 600, b"x" * 600]),
        ([EVENTS, GZIP], [gzip.compress(b"data: " + b"x" * 10_000_000)]),
    ],
    ids=["JSON", "compressed JSON", "an event", "a compressed event"],
)
async def test_a_response_has_a_limit(
    fields: list[tuple[bytes, bytes]], chunks: list[bytes]
) -> None:
    request, (post,) = await _sent()
    post.on_response(200, fields)
    for chunk in chunks:
        assert request.fault is None
        post.on_data(chunk)

    assert isinstance(request.fault, RequestError)
    assert "message_bytes" in request.fault.message
    assert request.written
    assert post.ended


@pytest.mark.anyio
async def test_a_body_is_decompressed_in_many_turns_of_the_loop() -> None:
    request, (post,) = await _sent(most_bytes=5_000_000)
    answer = b'{"jsonrpc": "2.0", "id": 1, "result": {}}' + b" " * 4_000_000
    post.on_response(200, [JSON, GZIP])
    post.on_data(gzip.compress(answer))
    post.on_end()
    turns = 0
    async with asyncio.timeout(10):
        while request.message is None:
            turns += 1
            await asyncio.sleep(0)

    assert request.answered
    assert turns > 100


@pytest.mark.anyio
async def test_a_redirect_with_too_long_a_compressed_body_is_followed() -> None:
    request, submitted = await _sent()
    post = submitted[0]
    post.on_response(307, [GZIP, (b"location", b"/other")])
    post.on_data(gzip.compress(b" " * 4_000_000))
    for _ in range(500):
        await asyncio.sleep(0)

    assert submitted == [post, post]
    assert request.fault is None


@pytest.mark.anyio
async def test_a_header_that_is_not_allowed_is_not_sent() -> None:
    request, submitted = await _sent({"Mcp-Param-X": "a\r\nX-Evil: 1"})

    assert submitted == []
    assert isinstance(request.failure, httpx2.LocalProtocolError)
    assert not request.written


@pytest.mark.anyio
async def test_who_waits_for_the_last_direct_call_is_woken_by_its_response() -> None:
    wire = Wire("shop", Redactor(), lambda: None)
    wire.drained = asyncio.Event()
    request, (post,) = await _sent(wire=wire)
    request.direct = True
    post.on_response(200, [JSON])
    post.on_data(b'{"jsonrpc": "2.0", "id": 1, "result": {}}')
    assert not wire.drained.is_set()
    post.on_end()

    assert request.answered
    assert wire.requests == {}
    assert wire.drained.is_set()


@pytest.mark.anyio
async def test_a_message_that_cannot_be_handled_ends_its_request() -> None:
    class Handler:
        def notified(self, method: str, params: dict[str, Any] | None) -> None:
            raise RecursionError

        async def answer(
            self, request_id: str | int, method: str, params: dict[str, Any] | None
        ) -> dict[str, Any]:
            raise NotImplementedError

    wire = Wire("shop", Redactor(), lambda: None)
    wire.handler = Handler()
    request, (post,) = await _sent(wire=wire)
    ended = asyncio.Event()
    request.wake = ended.set
    post.on_response(200, [EVENTS])
    post.on_data(b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}\n\n')
    await asyncio.wait_for(ended.wait(), 5)

    assert "could not be handled" in str(request.fault)
    await wire.aclose()
