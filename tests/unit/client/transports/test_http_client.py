"""Sessions over an HTTP client: what is noted of requests, and which faults a session survives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest

from plait._support.redact import Redactor
from plait.client.config.servers import HttpServer
from plait.client.protocol.exchange import HttpReply, PendingRequest, RequestTemplate, wake
from plait.client.protocol.peer import RequestError
from plait.client.transports import http
from plait.client.transports.http import HttpSender, link_http
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire
from plait.errors import ConfigError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]

URL = "http://server.test/mcp"
VERSION = "2025-11-25"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}

Answer = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]


def _wire() -> Wire:
    return Wire("shop", Redactor(), lambda: None)


def _factory(answer: Answer) -> Callable[..., httpx2.AsyncClient]:
    transport: Any = httpx2.MockTransport(answer)  # pyright: ignore[reportArgumentType]
    return partial(httpx2.AsyncClient, transport=transport)


def _linked(answer: Answer, wire: Wire, **options: Any) -> AbstractAsyncContextManager[None]:
    """Link a wire to a server which answers with a function."""
    return link_http(HttpServer(url=URL, http_client_factory=_factory(answer), **options), wire)


async def _post(wire: Wire, method: str = "tools/call", number: int = 1) -> PendingRequest:
    """Send a request, and wait for its outcome."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    request = PendingRequest(method, number, VERSION, wake=partial(wake, woken))
    wire.requests[number] = request
    assert wire.sender is not None
    wire.sender.send(json.dumps({"method": method, "id": number}).encode(), request)
    await woken
    return request


async def _outcome(answer: Answer, wire: Wire | None = None) -> PendingRequest:
    """Return a request that a server answers with a function."""
    wire = wire or _wire()
    async with _linked(answer, wire):
        return await _post(wire)


def _raising(fault: Exception) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response:
        del request
        raise fault

    return answer


def _answering(response: httpx2.Response) -> Answer:
    return lambda _: response


class _Pieces(httpx2.AsyncByteStream):
    """A body of some pieces, and how it ends."""

    def __init__(self, *pieces: bytes, fault: Exception | None = None) -> None:
        self._pieces = pieces
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._fault is not None:
            raise self._fault


BROKEN = httpx2.ReadError("connection reset by peer")
REFUSED = httpx2.ConnectError("connection refused")
QUIET = httpx2.ReadTimeout("nothing for a while")


async def test_a_success_answers_its_request_and_counts_as_written() -> None:
    wire = _wire()
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}}

    request = await _outcome(_answering(httpx2.Response(200, json=answer)), wire)

    assert request.message == answer
    assert (request.written, request.answered) == (True, True)
    assert (request.reply, request.failure, wire.reply) == (None, None, None)
    assert wire.requests == {}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_an_answer_that_is_no_success_is_kept(status: int) -> None:
    wire = _wire()
    headers = {"retry-after": "7", "www-authenticate": 'Bearer realm="x"'}
    refusal = httpx2.Response(status, headers=headers, text="go away")

    request = await _outcome(_answering(refusal), wire)

    assert request.reply == HttpReply(
        status, "7", 'Bearer realm="x"', "go away", error_code=None, had_session=False
    )
    assert wire.reply is request.reply
    assert request.failure is None
    assert isinstance(request.fault, RequestError)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "?"}}, -32001),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "?"}}, -32001),
        ({"error": {"code": "x"}}, None),
        ({"error": "invalid_token"}, None),
        ([], None),
        (None, None),
    ],
)
async def test_a_json_rpc_error_in_the_body_is_recognized(body: object, code: int | None) -> None:
    request = await _outcome(_answering(httpx2.Response(404, json=body)))

    assert request.reply is not None
    assert request.reply.error_code == code
    outcome = request.message or {"error": {"code": getattr(request.fault, "code", None)}}
    assert (outcome["error"]["code"] == -32001) == (code is not None)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000], ids=["empty", "cut", "no text", "deep"]
)
async def test_a_body_that_is_no_json_is_no_reason_to_fail(body: bytes) -> None:
    headers = {"content-type": "application/json"}

    request = await _outcome(_answering(httpx2.Response(500, headers=headers, content=body)))

    assert request.reply is not None
    assert (request.reply.status, request.reply.error_code) == (500, None)
    assert len(request.reply.body) <= 4000


@pytest.mark.parametrize(
    ("fault", "written"),
    [
        (httpx2.ConnectError("refused"), False),
        (httpx2.ConnectTimeout("slow"), False),
        (httpx2.PoolTimeout("full"), False),
        (httpx2.WriteError("broken pipe"), False),
        (httpx2.WriteTimeout("slow"), False),
        (httpx2.ProxyError("no"), False),
        (httpx2.UnsupportedProtocol("no"), False),
        (httpx2.ReadError("reset"), True),
        (httpx2.ReadTimeout("slow"), True),
        (httpx2.RemoteProtocolError("closed without an answer"), True),
        (httpx2.CloseError("?"), True),
        (httpx2.LocalProtocolError("?"), True),
    ],
    ids=repr,
)
async def test_a_fault_says_whether_the_server_may_have_read_the_request(
    fault: Exception, written: bool
) -> None:
    request = await _outcome(_raising(fault))

    assert (request.failure, request.written, request.reply) == (fault, written, None)
    assert isinstance(request.fault, RequestError)
    assert request.fault.code == -32000
    assert request.fault.message == f"{type(fault).__name__}: {fault}"


async def test_a_body_that_breaks_off_fails_its_own_request_only() -> None:
    headers = {"content-type": "application/json"}
    answers = [
        httpx2.Response(200, headers=headers, stream=_Pieces(b'{"jsonrpc":', fault=BROKEN)),
        httpx2.Response(200, json={"jsonrpc": "2.0", "id": 2, "result": {}}),
    ]
    wire = _wire()
    async with _linked(lambda _: answers.pop(0), wire):
        first, second = await _post(wire), await _post(wire, number=2)

    assert first.failure is BROKEN
    assert (first.written, first.answered) == (True, False)
    assert second.answered


@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_a_refusal_whose_body_breaks_off_is_still_a_refusal(content_type: str) -> None:
    headers = {"www-authenticate": "Bearer", "content-type": content_type}
    cut = httpx2.Response(401, headers=headers, stream=_Pieces(b"{", fault=BROKEN))

    request = await _outcome(_answering(cut))

    assert request.failure is None
    assert request.reply is not None
    assert (request.reply.status, request.reply.challenge) == (401, "Bearer")


@pytest.mark.parametrize("fault", [None, BROKEN])
async def test_a_stream_that_ends_without_the_answer_tells_that_none_can_come(
    fault: Exception | None,
) -> None:
    headers = {"content-type": "text/event-stream"}
    events = httpx2.Response(200, headers=headers, stream=_Pieces(b"data: 1\n\n", fault=fault))

    request = await _outcome(_answering(events))

    assert (request.stream_ended, request.answered) == (True, False)
    assert isinstance(request.fault, RequestError)
    assert request.fault.message == "SSE stream ended without a response"


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "never answered"])
async def test_a_notification_without_an_answer_fails_nothing(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_DELIVERY_SECONDS", 0.05)
    wire = _wire()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if b"notifications" in request.content:
            if is_refused:
                raise REFUSED
            await asyncio.Event().wait()
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {}})

    async with _linked(answer, wire, stream_read_seconds=300.0):
        await wire.deliver(INITIALIZED)

        assert (await _post(wire)).answered
        assert not wire.ended


class _Sessions:
    """A server of the handshake era, without a stream of notifications."""

    def __init__(self, session_id: str = "s 1") -> None:
        self.requests: list[httpx2.Request] = []
        self.headers = {"mcp-session-id": session_id} if session_id else {}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.method == "GET":
            return httpx2.Response(405)
        message = json.loads(request.content or b"{}")
        if "id" not in message:
            return httpx2.Response(202)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
        return httpx2.Response(200, headers=self.headers, json=answer)

    @property
    def verbs(self) -> list[str]:
        return [request.method for request in self.requests]

    @asynccontextmanager
    async def open(self, wire: Wire, **options: Any) -> AsyncGenerator[None]:
        """Make the handshake, and hold the session."""
        async with _linked(self, wire, **options):
            await _post(wire, "initialize", 0)
            wire.template = RequestTemplate(VERSION, {}, VERSION)
            await wire.deliver(INITIALIZED)
            yield


async def test_the_headers_of_a_session_go_with_every_request_of_it() -> None:
    server, wire = _Sessions(), _wire()
    async with server.open(wire, headers={"X-Team": "blue"}):
        await _post(wire)

    first, *others = server.requests
    assert sorted(server.verbs) == ["DELETE", "GET", "POST", "POST", "POST"]
    assert {request.headers["x-team"] for request in server.requests} == {"blue"}
    assert "mcp-session-id" not in first.headers
    assert {request.headers["mcp-session-id"] for request in others} == {"s 1"}
    assert {request.headers["mcp-protocol-version"] for request in others} == {VERSION}


@pytest.mark.parametrize(
    ("session_id", "options", "has_ended", "deletes"),
    [
        ("s 1", {}, False, 1),
        ("s 1", {}, True, 0),
        ("s 1", {"terminate_on_close": False}, False, 0),
        ("", {}, False, 0),
    ],
    ids=["open", "ended", "kept", "none"],
)
async def test_a_session_is_deleted_at_its_end_unless_it_has_ended(
    session_id: str, options: dict[str, Any], has_ended: bool, deletes: int
) -> None:
    server, wire = _Sessions(session_id), _wire()
    async with server.open(wire, **options):
        if has_ended:
            wire.end("it died")

    assert server.verbs.count("DELETE") == deletes


def _events(fault: Exception | None = None) -> httpx2.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, stream=_Pieces(b"data: {}\n\n", fault=fault))


@pytest.mark.parametrize(
    ("answers", "gives_up", "is_lost"),
    [
        ([partial(_events, QUIET)] * 4, False, False),
        ([_events, partial(_events, BROKEN), _events], False, False),
        ([_events, REFUSED, _events], False, False),
        ([partial(_events, BROKEN), REFUSED], True, True),
        ([partial(_events, BROKEN), 404], True, True),
        ([405], True, False),
        ([400, 400], True, False),
    ],
    ids=["quiet", "broken once", "back in time", "gone", "forgotten", "never there", "refused"],
)
async def test_notifications_are_lost_when_their_stream_is_given_up(
    answers: list[Callable[[], httpx2.Response] | Exception | int],
    gives_up: bool,
    is_lost: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_RETRY_MILLISECONDS", 1)
    coming, is_asked_again = iter(answers), asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "GET"
        match next(coming, None):
            case None:
                is_asked_again.set()
                await asyncio.Event().wait()
                raise NotImplementedError
            case int() as status:
                return httpx2.Response(status)
            case Exception() as fault:
                raise fault
            case make:
                return make()

    wire, lost = _wire(), asyncio.Event()
    wire.on_notifications_lost = lost.set
    server = HttpServer(url=URL, http_client_factory=_factory(answer))
    async with open_http_client(server, wire) as client:
        listening = asyncio.ensure_future(HttpSender(server, wire, client, None).listen())
        asked = asyncio.ensure_future(is_asked_again.wait())
        await asyncio.wait({listening, asked}, return_when=asyncio.FIRST_COMPLETED)

        assert (listening.done(), is_asked_again.is_set()) == (gives_up, not gives_up)
        assert lost.is_set() == is_lost
        assert next(coming, None) is None
        for task in (listening, asked):
            task.cancel()
        await asyncio.gather(listening, asked, return_exceptions=True)


async def test_a_factory_must_return_a_client_of_the_right_library() -> None:
    def factory(**given: Any) -> object:
        return given

    server = HttpServer(url=URL, http_client_factory=factory)

    with pytest.raises(ConfigError, match=r"shop: .* builtins\.dict.*httpx2\.AsyncClient"):
        async with open_http_client(server, _wire()):
            raise AssertionError("not reached")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["/other", "http://other.test/mcp", "http://server.test:81/mcp"])
async def test_a_redirect_is_followed_with_its_method_and_within_the_origin_only(
    status: int, target: str
) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        if request.url.path == "/other":
            return httpx2.Response(200)
        return httpx2.Response(status, headers={"location": target}, text="moved")

    headers = {"Authorization": "Bearer t0ken"}
    server = HttpServer(url=URL, headers=headers, http_client_factory=_factory(answer))
    async with open_http_client(server, _wire()) as client:
        response = await client.delete(URL)

    is_followed = target == "/other" and status != 303
    assert response.status_code == (200 if is_followed else status)
    assert [request.method for request in seen] == ["DELETE"] * (1 + is_followed)
    assert {request.url.host for request in seen} == {"server.test"}
    assert {request.headers["authorization"] for request in seen} == {"Bearer t0ken"}


async def test_headers_of_a_function_are_current_and_for_the_server_only() -> None:
    seen: list[tuple[str, str | None]] = []
    tokens = iter(["one", "two", "three"])

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.url.host, request.headers.get("x-token")))
        return httpx2.Response(200)

    def headers() -> dict[str, str]:
        return {"X-Token": next(tokens)}

    server = HttpServer(url=URL, headers=headers, http_client_factory=_factory(answer))
    async with open_http_client(server, _wire()) as client:
        await client.get(URL)
        await client.send(httpx2.Request("GET", "http://login.test/token"))
        await client.get(URL)

    assert seen == [("server.test", "two"), ("login.test", None), ("server.test", "three")]
