"""Failures of requests, of HTTP and of processes become errors, each of the right kind."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from mcp_types import CallToolResult
from pydantic import ValidationError

from plait._support.redact import Redactor
from plait.client.connections.error_mapping import (
    Failure,
    connect_failure,
    connect_timeout,
    http_error,
    request_failure,
)
from plait.client.protocol.exchange import Exchanges, HttpReply, PendingRequest
from plait.client.protocol.peer import RequestError
from plait.client.protocol.results import error_of
from plait.client.transports.wire import Wire
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    EndpointNotFoundError,
    ForbiddenError,
    HttpError,
    ListTimeoutError,
    OutcomeUnknownError,
    PlaitError,
    ProtocolError,
    RateLimitedError,
    ResourceNotFoundError,
    SendError,
    ServerError,
)

CANARY = "c4n4ry-Zx81-qqq"
CLOSED = -32000
FORGOTTEN = "the server has forgotten the session"


def _wire(
    *,
    stderr: tuple[str, ...] = (),
    exit_code: int | None = None,
    end: str | None = None,
    reply: HttpReply | None = None,
    tapped: bool = True,
) -> Wire:
    wire = Wire("shop", Redactor([CANARY]), lambda: None)
    wire.tapped = tapped
    wire.read_stderr = lambda: [line.encode() for line in stderr]
    wire.exit_code = exit_code
    wire.reply = reply
    if end is not None:
        wire.end(end)
    return wire


def _reply(status: int, **more: Any) -> HttpReply:
    facts: dict[str, Any] = {
        "retry_after": None,
        "challenge": None,
        "body": "",
        "error_code": None,
        "had_session": False,
    }
    return HttpReply(status=status, **{**facts, **more})


def _exchange(**more: Any) -> PendingRequest:
    return PendingRequest("tools/call", 1, "2025-11-25", **more)


def _exchanges(*all_of_them: PendingRequest) -> Exchanges:
    return Exchanges(list(all_of_them))


def _failed(
    error: BaseException,
    *exchanges: PendingRequest,
    wire: Wire | None = None,
    method: str = "tools/call",
    tool: str | None = "pay",
) -> Failure:
    return request_failure(error, _exchanges(*exchanges), wire or _wire(), method=method, tool=tool)


def _validation_error() -> ValidationError:
    try:
        CallToolResult.model_validate({"content": [{"type": CANARY}]})
    except ValidationError as error:
        return error
    raise AssertionError("not reached")


def _group(error: BaseException) -> BaseException:
    for _ in range(3):
        error = BaseExceptionGroup("unhandled errors in a TaskGroup", [error])
    return error


@dataclass(frozen=True)
class Case:
    """One failure of a request, and what must become of it."""

    name: str
    make: Callable[[], Failure]
    kind: type[PlaitError]
    retry: str
    retryable: bool
    status: int | None = None
    code: int | None = None
    session_lost: bool = False


def _answered(code: int, message: str = "no", data: object = None) -> RequestError:
    return RequestError(code, message, data)


CASES = [
    Case(
        "a refused connection",
        lambda: _failed(_answered(CLOSED), _exchange(failure=httpx2.ConnectError("refused"))),
        SendError,
        "always",
        True,
        session_lost=True,
    ),
    Case(
        "a reset connection",
        lambda: _failed(
            _answered(CLOSED), _exchange(failure=httpx2.ReadError("reset"), written=True)
        ),
        OutcomeUnknownError,
        "if_idempotent",
        False,
        session_lost=True,
    ),
    Case(
        "the process died before it read the request",
        lambda: _failed(_answered(CLOSED), _exchange(), wire=_wire(exit_code=-9, end="gone")),
        ConnectionLostError,
        "always",
        True,
        session_lost=True,
    ),
    Case(
        "the process died with the request",
        lambda: _failed(
            _answered(CLOSED), _exchange(written=True), wire=_wire(exit_code=-9, end="gone")
        ),
        OutcomeUnknownError,
        "if_idempotent",
        False,
        session_lost=True,
    ),
    Case(
        "the session was closed before anything was sent",
        lambda: _failed(_answered(CLOSED), wire=_wire(end="gone")),
        ConnectionLostError,
        "always",
        True,
        session_lost=True,
    ),
    Case(
        "an object in this process that answers with that code",
        lambda: _failed(_answered(CLOSED), wire=_wire(tapped=False)),
        ProtocolError,
        "never",
        True,
        code=CLOSED,
    ),
    Case(
        "an object in this process that ended during a call",
        lambda: _failed(_answered(CLOSED), wire=_wire(tapped=False, end="gone")),
        OutcomeUnknownError,
        "if_idempotent",
        False,
        session_lost=True,
    ),
    Case(
        "an event stream that was cut",
        lambda: _failed(
            _answered(CLOSED, "SSE stream ended without a response"),
            _exchange(written=True, stream_ended=True),
        ),
        OutcomeUnknownError,
        "if_idempotent",
        False,
    ),
    Case(
        "a closed stream",
        lambda: _failed(anyio.ClosedResourceError(), _exchange()),
        ConnectionLostError,
        "always",
        True,
        session_lost=True,
    ),
    Case(
        "a broken stream in a group",
        lambda: _failed(_group(anyio.BrokenResourceError()), _exchange(written=True)),
        OutcomeUnknownError,
        "if_idempotent",
        False,
        session_lost=True,
    ),
    Case(
        "the SDK's own timeout",
        lambda: _failed(_answered(-32001, "Timed out"), _exchange(written=True)),
        ListTimeoutError,
        "if_idempotent",
        True,
    ),
    Case(
        "401",
        lambda: _failed(_answered(-32603), _exchange(written=True, reply=_reply(401))),
        AuthRequiredError,
        "never",
        False,
        status=401,
        code=-32603,
    ),
    Case(
        "401 with a JSON-RPC body",
        lambda: _failed(
            _answered(-32001), _exchange(written=True, reply=_reply(401, error_code=-32001))
        ),
        AuthRequiredError,
        "never",
        False,
        status=401,
        code=-32001,
    ),
    Case(
        "403",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(403))),
        ForbiddenError,
        "never",
        False,
        status=403,
        code=-32603,
    ),
    Case(
        "429",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(429, retry_after="3"))),
        RateLimitedError,
        "always",
        True,
        status=429,
        code=-32603,
    ),
    Case(
        "500",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(500))),
        ServerError,
        "if_idempotent",
        True,
        status=500,
        code=-32603,
    ),
    Case(
        "503 without a pause",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(503))),
        ServerError,
        "if_idempotent",
        True,
        status=503,
        code=-32603,
    ),
    Case(
        "503 with a pause",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(503, retry_after="1"))),
        ServerError,
        "always",
        True,
        status=503,
        code=-32603,
    ),
    Case(
        "another status",
        lambda: _failed(_answered(-32603), _exchange(reply=_reply(418))),
        HttpError,
        "never",
        False,
        status=418,
        code=-32603,
    ),
    Case(
        "404 without a session",
        lambda: _failed(_answered(-32601), _exchange(reply=_reply(404))),
        EndpointNotFoundError,
        "never",
        True,
        status=404,
        code=-32601,
    ),
    *(
        Case(
            f"{status} for a session nobody knows, body {code}",
            lambda status=status, code=code: _failed(
                _answered(code or -32600),
                _exchange(reply=_reply(status, had_session=True, error_code=code)),
            ),
            ConnectionLostError,
            "always",
            True,
            status=status,
            code=code or -32600,
            session_lost=True,
        )
        for status in (400, 404)
        for code in (None, -32000, -32001, -32600)
    ),
    Case(
        "404 with a session and another error",
        lambda: _failed(
            _answered(-32601), _exchange(reply=_reply(404, had_session=True, error_code=-32601))
        ),
        ProtocolError,
        "never",
        True,
        status=404,
        code=-32601,
    ),
    Case(
        "400 with a JSON-RPC error",
        lambda: _failed(_answered(-32602), _exchange(reply=_reply(400, error_code=-32602))),
        ProtocolError,
        "never",
        True,
        status=400,
        code=-32602,
    ),
    *(
        Case(
            f"error {code}",
            lambda code=code: _failed(_answered(code), _exchange(written=True, answered=True)),
            ProtocolError,
            "never",
            retryable,
            code=code,
        )
        for code, retryable in [
            (-32700, False),
            (-32600, True),
            (-32601, True),
            (-32602, True),
            (-32603, True),
            (-32000, True),
            (-32001, True),
            (-32020, False),
            (-32021, False),
            (-32022, False),
            (-32042, False),
            (7, False),
        ]
    ),
    Case(
        "a resource that is not there",
        lambda: _failed(
            _answered(-32002), _exchange(answered=True), method="resources/read", tool=None
        ),
        ResourceNotFoundError,
        "never",
        False,
        code=-32002,
    ),
    Case(
        "a resource that is not there, said in the older way",
        lambda: _failed(
            _answered(-32602), _exchange(answered=True), method="resources/read", tool=None
        ),
        ResourceNotFoundError,
        "never",
        False,
        code=-32602,
    ),
    Case(
        "an answer that does not follow the protocol",
        lambda: _failed(_validation_error(), _exchange(written=True, answered=True)),
        ProtocolError,
        "never",
        True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_failure_of_a_request_has_its_error(case: Case) -> None:
    failure = case.make()
    error = failure.error

    assert type(error) is case.kind
    assert (error.retry, error.retryable) == (case.retry, case.retryable)
    assert (error.status, error.code) == (case.status, case.code)
    assert (failure.session_lost is not None) is case.session_lost
    assert error.server == "shop"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_message_is_one_line_that_names_the_server(case: Case) -> None:
    text = str(case.make().error)

    assert text.startswith("shop")
    assert "\n" not in text
    assert "TaskGroup" not in text
    assert CANARY not in text


def test_an_error_of_ours_passes_untouched() -> None:
    error = ConfigError("files: no")

    assert _failed(_group(error)) == Failure(error)
    assert connect_failure(_group(error), _exchanges(), _wire()) is error


def test_only_the_last_exchange_counts() -> None:
    first = _exchange(written=True, reply=_reply(500))

    failure = _failed(_answered(CLOSED), first, _exchange(), wire=_wire(end="gone"))

    assert type(failure.error) is ConnectionLostError


def test_an_answered_request_is_answered_though_the_server_died_right_after() -> None:
    answered = _exchange(written=True, answered=True)
    error = _answered(CLOSED, "the database is down")

    failure = _failed(error, answered, wire=_wire(exit_code=1, end="gone"))

    assert type(failure.error) is ProtocolError
    assert "the database is down" in str(failure.error)


def _pending(wire: Wire) -> PendingRequest:
    request = PendingRequest("tools/call", 1, "2025-11-25", written=True)
    wire.requests[1] = request
    return request


def test_an_answer_that_cannot_be_read_is_lost_and_the_session_stays() -> None:
    wire = _wire()
    request = _pending(wire)
    wire.lose([1], f"it is not JSON-RPC {CANARY}")
    assert request.fault is not None

    failure = _failed(request.fault, request, wire=wire)

    assert type(failure.error) is OutcomeUnknownError
    assert "it is not JSON-RPC ***" in str(failure.error)
    assert failure.session_lost is None


def test_an_error_with_the_code_of_a_closed_connection_is_the_servers_own() -> None:
    wire = _wire()
    request = _pending(wire)
    assert wire.take_line(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"full"}}')
    request.stream_ended = True
    wire.end("gone")
    error = error_of(request)
    assert error is not None

    failure = _failed(error, request, wire=wire)

    assert type(failure.error) is ProtocolError
    assert "full" in str(failure.error)


def test_an_error_of_a_session_of_the_sdk_is_explained_like_our_own() -> None:
    exchange = _exchange(written=True, answered=True)
    ours = _failed(RequestError(-32602, "no such tool"), exchange)
    theirs = _failed(MCPError(-32602, "no such tool"), exchange)

    assert (type(theirs.error), str(theirs.error)) == (type(ours.error), str(ours.error))
    assert theirs.error.code == -32602


def test_the_servers_words_are_folded_and_cleaned_in_every_error() -> None:
    words = f"two\nlines and {CANARY} " + "x" * 500
    cases = [
        _failed(_answered(CLOSED, words), _exchange(written=True)),
        _failed(
            _answered(CLOSED, words), _exchange(written=True, stream_ended=True, answered=True)
        ),
        _failed(_answered(-32603, words), _exchange(written=True, answered=True)),
        _failed(_answered(-32002, words), method="resources/read"),
        _failed(_answered(-32603), _exchange(reply=_reply(500, body=words))),
        _failed(_answered(-32603), _exchange(reply=_reply(401, body=words, challenge=words))),
        _failed(_answered(CLOSED), _exchange(failure=httpx2.ReadError(words), written=True)),
        _failed(ValueError(words), _exchange(written=True)),
        _failed(_answered(CLOSED), _exchange(), wire=_wire(stderr=(words,), exit_code=1, end="x")),
        _failed(
            _answered(CLOSED),
            _exchange(written=True),
            wire=_wire(stderr=(words,), exit_code=1, end="x"),
        ),
    ]

    for failure in cases:
        text = str(failure.error)
        assert "\n" not in text
        assert CANARY not in text
        assert CANARY not in str(failure.error.to_dict())
        assert CANARY not in (failure.session_lost or "")
        assert len(text) < 800


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
        '{"api_key": "0123456789abcdef"}',
        "https://user:0123456789abcdef@example.com",
        "PASSWORD=0123456789abcdef",
    ],
)
def test_secrets_nobody_told_us_of_are_hidden_too(secret: str) -> None:
    failures = [
        _failed(_answered(-32603, secret), _exchange(answered=True)),
        _failed(_answered(-32603), _exchange(reply=_reply(500, body=secret))),
        _failed(_answered(CLOSED), _exchange(written=True), wire=_wire(stderr=(secret,), end="x")),
    ]

    for failure in failures:
        assert "0123456789abcdef" not in str(failure.error)
        assert "eyJhbGci" not in str(failure.error)


def test_the_last_words_of_a_dead_server_are_told_once() -> None:
    wire = _wire(stderr=("Cannot open database",), exit_code=3, end="gone")

    error = _failed(_answered(CLOSED), _exchange(written=True), wire=wire).error

    assert str(error).count("Cannot open database") == 1
    assert "exited (3)" in str(error)


def test_a_signal_is_named() -> None:
    wire = _wire(exit_code=-9, end="gone")

    error = _failed(_answered(CLOSED), _exchange(written=True), wire=wire).error

    assert "was killed by signal 9" in str(error)


def test_an_error_without_a_text_says_so() -> None:
    error = _failed(_answered(-32603, ""), _exchange(answered=True)).error

    assert str(error).endswith("error -32603: an error without a text")


def test_a_resource_error_during_a_call_names_the_tool() -> None:
    error = _failed(_answered(-32002), _exchange(answered=True), tool="pay").error

    assert error.tool == "pay"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("1.5", 1.5),
        (" 7 ", 7.0),
        ("-5", 0.0),
        ("soon", None),
        ("", None),
        ("Wed, 99 Foo 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_a_pause_asked_for_is_read(header: str | None, seconds: float | None) -> None:
    assert http_error(_reply(429, retry_after=header), _wire()).retry_after == seconds


def test_a_pause_asked_for_as_a_date_is_read() -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    seconds = http_error(_reply(429, retry_after=then), _wire()).retry_after

    assert seconds is not None
    assert 90 < seconds <= 100


@pytest.mark.parametrize("header", ["Wed, 21 Oct 2015 07:28:00", "Wed, 21 Oct 2015 07:28:00 -0000"])
def test_a_date_without_a_zone_is_no_reason_to_fail(header: str) -> None:
    assert http_error(_reply(503, retry_after=header), _wire()).retry_after in {0.0, None}


@pytest.mark.parametrize("header", ["inf", "1e400"])
def test_a_pause_that_is_no_number_of_seconds_is_not_waited_for(header: str) -> None:
    assert http_error(_reply(503, retry_after=header), _wire()).retry_after in {0.0, None}


def test_a_challenge_is_kept_for_whoever_can_answer_it() -> None:
    challenge = 'Bearer resource_metadata="https://example.com/.well-known/x", scope="a b"'

    error = http_error(_reply(401, challenge=challenge), _wire())

    assert error.challenge == challenge


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (400, HttpError, "never"),
        (401, AuthRequiredError, "never"),
        (403, ForbiddenError, "never"),
        (404, EndpointNotFoundError, "never"),
        (429, RateLimitedError, "always"),
        (500, ServerError, "if_idempotent"),
        (599, ServerError, "if_idempotent"),
    ],
)
def test_a_status_during_the_handshake_has_its_error(
    status: int, kind: type[PlaitError], retry: str
) -> None:
    wire = _wire(reply=_reply(status, body="<html>go\naway</html>"))

    error = connect_failure(_group(_answered(-32603)), _exchanges(_exchange()), wire)

    assert type(error) is kind
    assert (error.status, error.retry, error.server) == (status, retry, "shop")
    assert str(error).startswith(f"shop: HTTP {status}")
    assert "<html>go away</html>" in str(error)


@pytest.mark.parametrize(
    ("cause", "exchanges", "wire", "said"),
    [
        (
            _answered(CLOSED),
            [_exchange(failure=httpx2.ConnectError("refused"))],
            _wire(),
            ["cannot connect", "refused", "ConnectError"],
        ),
        (
            _answered(CLOSED),
            [],
            _wire(exit_code=2, stderr=("no such module",)),
            ["exited (2)", "no such module"],
        ),
        (
            _answered(CLOSED),
            [],
            _wire(end="the server closed the connection"),
            ["closed", "handshake"],
        ),
        (_answered(-32603, "bad"), [], _wire(), ["handshake", "-32603", "bad"]),
        (OSError(111, "Connection refused"), [], _wire(), ["cannot connect", "refused"]),
        (ssl.SSLError("certificate verify failed"), [], _wire(), ["certificate verify failed"]),
        (RuntimeError(), [], _wire(), ["RuntimeError"]),
    ],
    ids=["refused", "exited", "closed", "error answer", "os error", "tls", "anything"],
)
def test_why_no_session_could_be_opened(
    cause: Exception, exchanges: list[PendingRequest], wire: Wire, said: list[str]
) -> None:
    error = connect_failure(_group(cause), _exchanges(*exchanges), wire)

    assert type(error) is ConnectError
    assert error.server == "shop"
    text = str(error)
    assert text.startswith("shop: ")
    assert [part for part in said if part not in text] == []


def test_a_server_that_speaks_other_versions_says_which() -> None:
    cause = _answered(
        -32022, "unsupported", {"supported": ["2025-06-18"], "requested": "2026-07-28"}
    )

    error = connect_failure(cause, _exchanges(), _wire())

    assert error.code == -32022
    assert "2025-06-18" in str(error)


def test_the_versions_a_server_names_are_folded_and_cleaned_too() -> None:
    data = {"supported": [f"a\nb {CANARY}", "x" * 5000], "requested": "2026-07-28"}

    text = str(connect_failure(_answered(-32022, "no", data), _exchanges(), _wire()))

    assert "\n" not in text
    assert CANARY not in text
    assert len(text) < 800


def test_a_handshake_that_takes_too_long_tells_the_last_words() -> None:
    wire = _wire(stderr=("installing packages …", ""))

    error = connect_timeout(20, wire, "shop")

    assert type(error) is ConnectTimeoutError
    assert str(error) == (
        "shop: not ready within 20 s (connect_timeout); its last words: installing packages …"
    )
    assert isinstance(error, TimeoutError)


def test_a_handshake_that_takes_too_long_names_what_the_server_sent_in_place_of_answered() -> None:
    wire = _wire(stderr=("ready",))
    wire.note_noise(b"\x1b[31mListening\xe2\x80\x8b on\n3000" + b"!" * 200, "; use stderr")
    wire.note_noise(b"second", "; use stderr")

    text = str(connect_timeout(3, wire, "shop"))

    assert text.startswith(
        r"shop: not ready within 3 s (connect_timeout); its last words: ready; "
        r"it sends what is not MCP (\x1b[31mListening\u200b on 3000!!!"
    )
    assert text.endswith("…); use stderr")
    assert len(text) < 250


def test_a_handshake_that_never_began_has_no_last_words() -> None:
    assert (
        str(connect_timeout(0.5, None, "shop")) == "shop: not ready within 0.5 s (connect_timeout)"
    )


def test_a_forgotten_session_gives_its_reason() -> None:
    failure = _failed(_answered(-32600), _exchange(reply=_reply(404, had_session=True)))

    assert failure.session_lost == FORGOTTEN
