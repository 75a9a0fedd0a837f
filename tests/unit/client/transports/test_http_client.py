"""The HTTP client under the transports: what it notes, and which faults a session survives."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from plait._support.redact import Redactor
from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import Exchange, sending
from plait.client.protocol.http_reply import HttpReply
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire
from plait.errors import ConfigError

pytestmark = pytest.mark.anyio

URL = "http://server.test/mcp"

Answer = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]


def _exchange(number: int | None = 1) -> Exchange:
    return Exchange("tools/call", number, "2025-11-25")


def _wire() -> Wire:
    return Wire("shop", Redactor(), lambda: None)


@asynccontextmanager
async def _client(
    answer: Answer, wire: Wire | None = None, **options: Any
) -> AsyncGenerator[httpx2.AsyncClient]:
    transport: Any = httpx2.MockTransport(answer)  # pyright: ignore[reportArgumentType]

    def factory(**given: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=transport, **given)

    server = HttpServer(url=URL, http_client_factory=factory, **options)
    async with open_http_client(server, wire or _wire()) as client:
        yield client


async def _post(client: httpx2.AsyncClient, **options: Any) -> httpx2.Response:
    """Post as the SDK does, which reads the answer as a stream."""
    async with client.stream("POST", URL, json={}, **options) as response:
        await response.aread()
        return response


def _raising(fault: Exception) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response:
        del request
        raise fault

    return answer


def _answering(response: httpx2.Response) -> Answer:
    return lambda _: response


class _Broken(httpx2.AsyncByteStream):
    """A body that breaks off after its first piece."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"jsonrpc":'
        raise httpx2.ReadError("connection reset by peer")


async def test_a_success_is_passed_on_and_counts_as_written() -> None:
    exchange, wire = _exchange(), _wire()
    answer = {"jsonrpc": "2.0", "id": exchange.request_id, "result": {"ok": 1}}
    async with _client(_answering(httpx2.Response(200, json=answer)), wire) as client:
        with sending(exchange):
            response = await _post(client)

    assert response.json() == answer
    assert exchange.written
    assert exchange.reply is None
    assert exchange.failure is None
    assert wire.reply is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_an_answer_that_is_no_success_is_kept(status: int) -> None:
    exchange, wire = _exchange(), _wire()
    headers = {"retry-after": "7", "www-authenticate": 'Bearer realm="x"'}
    refusal = httpx2.Response(status, headers=headers, text="go away")

    async with _client(_answering(refusal), wire) as client:
        with sending(exchange):
            response = await _post(client, headers={"mcp-session-id": "s"})

    assert response.status_code == status
    assert exchange.reply == HttpReply(
        status, "7", 'Bearer realm="x"', "go away", error_code=None, had_session=True
    )
    assert wire.reply is exchange.reply


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "?"}}, -32001),
        ({"error": {"code": "x"}}, None),
        ({"error": "invalid_token"}, None),
        ([], None),
        (None, None),
    ],
)
async def test_a_json_rpc_error_in_the_body_is_recognised(body: object, code: int | None) -> None:
    exchange = _exchange()
    async with _client(_answering(httpx2.Response(404, json=body))) as client:
        with sending(exchange):
            await _post(client)

    assert exchange.reply is not None
    assert exchange.reply.error_code == code
    assert not exchange.reply.had_session


async def _code_in(body: bytes) -> int | None:
    exchange = _exchange()
    refusal = httpx2.Response(500, headers={"content-type": "application/json"}, content=body)
    async with _client(_answering(refusal)) as client:
        with sending(exchange):
            await _post(client)
    assert exchange.reply is not None
    return exchange.reply.error_code


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe"])
async def test_a_body_that_is_no_json_is_no_reason_to_fail(body: bytes) -> None:
    assert await _code_in(body) is None


async def test_a_body_too_deep_to_be_read_is_no_reason_to_fail() -> None:
    assert await _code_in(b"[" * 100_000) is None


async def test_only_the_beginning_of_a_long_body_is_kept() -> None:
    exchange = _exchange()
    async with _client(_answering(httpx2.Response(502, text="x" * 1_000_000))) as client:
        with sending(exchange):
            await _post(client)

    assert exchange.reply is not None
    assert len(exchange.reply.body) == 4000


@pytest.mark.parametrize(
    "fault",
    [
        httpx2.ConnectError("refused"),
        httpx2.ConnectTimeout("slow"),
        httpx2.PoolTimeout("full"),
        httpx2.WriteError("broken pipe"),
        httpx2.WriteTimeout("slow"),
        httpx2.ProxyError("no"),
        httpx2.UnsupportedProtocol("no"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_after_some_faults_the_server_cannot_have_read_the_request(fault: Exception) -> None:
    exchange = _exchange()
    async with _client(_raising(fault)) as client:
        with sending(exchange):
            response = await _post(client)

    assert response.status_code == 503
    assert exchange.failure is fault
    assert not exchange.written


@pytest.mark.parametrize(
    "fault",
    [
        httpx2.ReadError("reset"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("closed without an answer"),
        httpx2.CloseError("?"),
        httpx2.LocalProtocolError("?"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_after_other_faults_nobody_can_tell(fault: Exception) -> None:
    exchange = _exchange()
    async with _client(_raising(fault)) as client:
        with sending(exchange):
            await _post(client)

    assert exchange.failure is fault
    assert exchange.written
    assert exchange.reply is None


async def test_a_fault_becomes_a_json_rpc_error_that_fails_one_request() -> None:
    async with _client(_raising(httpx2.ConnectError("refused"))) as client:
        with sending(_exchange()):
            response = await _post(client)

    assert response.json() == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32000, "message": "ConnectError: refused"},
    }


async def test_a_body_that_breaks_off_fails_its_own_request_only() -> None:
    exchange = _exchange()
    cut = httpx2.Response(200, headers={"content-type": "application/json"}, stream=_Broken())
    async with _client(_answering(cut)) as client:
        with sending(exchange):
            response = await _post(client)

    assert response.status_code == 503
    assert isinstance(exchange.failure, httpx2.ReadError)
    assert exchange.written


@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_a_refusal_whose_body_breaks_off_is_still_a_refusal(content_type: str) -> None:
    exchange = _exchange()
    headers = {"www-authenticate": "Bearer", "content-type": content_type}
    cut = httpx2.Response(401, headers=headers, stream=_Broken())
    async with _client(_answering(cut)) as client:
        with sending(exchange):
            async with client.stream("POST", URL, json={}) as response:
                assert response.status_code == 401

    assert exchange.failure is None
    assert exchange.reply is not None
    assert (exchange.reply.status, exchange.reply.challenge) == (401, "Bearer")


async def test_a_body_that_cannot_be_decoded_fails_its_own_request_only() -> None:
    exchange = _exchange()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}

    class _Garbage(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield gzip.compress(b"{}")[:-9] + b"garbage garbage"

    garbled = httpx2.Response(200, headers=headers, stream=_Garbage())
    async with _client(_answering(garbled)) as client:
        with sending(exchange):
            response = await _post(client)

    assert response.status_code == 503
    assert exchange.failure is not None


class _Events(httpx2.AsyncByteStream):
    """An event stream, which may break off."""

    def __init__(self, *, breaks: bool) -> None:
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        if self._breaks:
            raise httpx2.ReadError("connection reset by peer")


async def test_a_stream_tells_when_no_more_can_come() -> None:
    exchange = _exchange()
    headers = {"content-type": "text/event-stream"}
    events = httpx2.Response(200, headers=headers, stream=_Events(breaks=False))
    async with _client(_answering(events)) as client:
        with sending(exchange):
            async with client.stream("POST", URL, json={}) as response:
                assert not exchange.stream_ended
                pieces = [piece async for piece in response.aiter_bytes()]

    assert pieces == []  # the only event is not a message
    assert exchange.stream_ended


async def test_a_stream_that_breaks_off_tells_it_too() -> None:
    exchange = _exchange()
    headers = {"content-type": "text/event-stream"}
    events = httpx2.Response(200, headers=headers, stream=_Events(breaks=True))
    async with _client(_answering(events)) as client:
        with sending(exchange):
            async with client.stream("POST", URL, json={}) as response:
                with pytest.raises(httpx2.ReadError):
                    await response.aread()

    assert exchange.stream_ended


async def test_a_notification_is_not_waited_for_as_long_as_a_request() -> None:
    timeouts: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx2.Response(202)

    async with _client(answer, exchange_seconds=30.0, stream_read_seconds=300.0) as client:
        for number in (1, None):
            with sending(_exchange(number)):
                await _post(client)

    assert timeouts[0] == {"connect": 30.0, "read": 300.0, "write": 30.0, "pool": 30.0}
    assert timeouts[1] == {**timeouts[0], "read": 5.0}


async def test_what_belongs_to_no_exchange_passes_unnoted() -> None:
    wire = _wire()
    async with _client(_answering(httpx2.Response(405)), wire) as client:
        assert (await client.get(URL)).status_code == 405
        assert (await _post(client)).status_code == 405
    assert wire.reply is None

    async with _client(_raising(httpx2.ConnectError("refused"))) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(URL)


async def test_a_session_that_has_ended_is_not_deleted() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.method)
        return httpx2.Response(200)

    wire = _wire()
    async with _client(answer, wire) as client:
        await client.delete(URL)
        wire.end("it died")
        assert (await client.delete(URL)).status_code == 204

    assert asked == ["DELETE"]


async def test_fixed_headers_go_with_every_request() -> None:
    seen: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("x-team"))
        return httpx2.Response(200)

    async with _client(answer, headers={"X-Team": "blue"}) as client:
        await client.get(URL)
        await _post(client)

    assert seen == ["blue", "blue"]


async def test_a_factory_must_return_a_client_of_the_right_library() -> None:
    def factory(**given: Any) -> object:
        return given

    server = HttpServer(url=URL, http_client_factory=factory)

    with pytest.raises(ConfigError, match=r"shop: .* builtins\.dict.*httpx2\.AsyncClient"):
        async with open_http_client(server, _wire()):
            raise AssertionError("not reached")


class _Pieces(httpx2.AsyncByteStream):
    """A stream of one piece, and how it ends."""

    def __init__(self, fault: Exception | None = None) -> None:
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: {}\n\n"
        if self._fault is not None:
            raise self._fault


async def _listens(client: httpx2.AsyncClient) -> str:
    """Read the stream of notifications to its end, and say how that was."""
    try:
        async with client.stream("GET", URL, headers={"mcp-session-id": "1"}) as response:
            if not response.is_success:
                return "refused"
            async for _ in response.aiter_bytes():
                pass
    except httpx2.RequestError:
        return "broken"
    return "ended"


BROKEN = httpx2.ReadError("connection reset by peer")
REFUSED = httpx2.ConnectError("connection refused")
QUIET = httpx2.ReadTimeout("nothing for a while")


@pytest.mark.parametrize(
    ("answers", "endings", "deaf"),
    [
        ([_Pieces(QUIET)] * 4, ["ended"] * 4, False),
        ([_Pieces(), _Pieces(BROKEN), _Pieces()], ["ended", "broken", "ended"], False),
        ([_Pieces(BROKEN), REFUSED], ["broken", "broken"], True),
        ([_Pieces(BROKEN), 404], ["broken", "refused"], True),
        ([_Pieces(), REFUSED, _Pieces()], ["ended", "broken", "ended"], False),
        ([405, 405, 405], ["refused"] * 3, False),
    ],
    ids=["quiet", "broken once", "gone", "forgotten", "back in time", "never there"],
)
async def test_a_session_is_deaf_when_its_stream_of_notifications_is_given_up(
    answers: list[httpx2.AsyncByteStream | Exception | int], endings: list[str], deaf: bool
) -> None:
    coming = iter(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        del request
        match next(coming):
            case int() as status:
                return httpx2.Response(status)
            case Exception() as fault:
                raise fault
            case stream:
                return httpx2.Response(200, stream=stream)

    wire = _wire()
    heard: list[str] = []
    wire.on_notifications_lost = lambda: heard.append("deaf")
    async with _client(answer, wire) as client:
        assert [await _listens(client) for _ in answers] == endings

    assert bool(heard) == deaf
