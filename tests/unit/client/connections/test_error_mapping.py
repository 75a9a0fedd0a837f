"""Failures of requests, of HTTP and of processes become errors, each of the right kind."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeAlias

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
from plait.client.protocol.read_results import error_of
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


def _wire(*, stderr: tuple[str, ...] = (), end: str | None = None, **facts: Any) -> Wire:
    wire = Wire("shop", Redactor([CANARY]), lambda: None)
    wire.read_stderr = lambda: [line.encode() for line in stderr]
    for name, value in {"tapped": True, **facts}.items():
        setattr(wire, name, value)
    if end is not None:
        wire.end(end)
    return wire


def _reply(status: int, **more: Any) -> HttpReply:
    names = ("retry_after", "challenge", "error_code")
    facts: dict[str, Any] = {**dict.fromkeys(names), "body": "", "had_session": False}
    return HttpReply(status=status, **{**facts, **more})


def _exchange(**more: Any) -> PendingRequest:
    return PendingRequest("tools/call", 1, "2025-11-25", **more)


def _replied(status: int, **more: Any) -> PendingRequest:
    return _exchange(reply=_reply(status, **more))


def _answered(code: int, message: str = "no", data: object = None) -> RequestError:
    return RequestError(code, message, data)


def _failed(
    error: BaseException,
    *exchanges: PendingRequest,
    wire: Wire | None = None,
    method: str = "tools/call",
    tool: str | None = "pay",
) -> Failure:
    seen = Exchanges(list(exchanges))
    return request_failure(error, seen, wire or _wire(), method=method, tool=tool)


def _cannot_connect(error: BaseException, *exchanges: PendingRequest, wire: Wire) -> PlaitError:
    return connect_failure(error, Exchanges(list(exchanges)), wire)


def _validation_error() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        CallToolResult.model_validate({"content": [{"type": CANARY}]})
    return caught.value


def _group(error: BaseException) -> BaseException:
    for _ in range(3):
        error = BaseExceptionGroup("unhandled errors in a TaskGroup", [error])
    return error


Row: TypeAlias = tuple[
    str, BaseException, PendingRequest | None, dict[str, Any], type[PlaitError], str
]
"""What was raised and exchanged, the wire, the error, and how it may be retried: also by another
server (`other`), and whether the session is lost."""

GONE, NO = _answered(CLOSED), _answered(-32603)
NEVER_READ, WRITTEN = _exchange(), _exchange(written=True)
DONE = _exchange(written=True, answered=True)
REFUSED = _exchange(failure=httpx2.ConnectError("refused"))
RESET = _exchange(failure=httpx2.ReadError("reset"), written=True)
CUT = _exchange(written=True, stream_ended=True)
HERE, DEAD, ENDED = {"tapped": False}, {"exit_code": -9, "end": "gone"}, {"end": "gone"}
LOST, UNKNOWN = ConnectionLostError, OutcomeUnknownError

STATUSES: list[tuple[int, type[PlaitError], str, dict[str, Any]]] = [
    (401, AuthRequiredError, "never", {}),
    (401, AuthRequiredError, "never", {"error_code": -32001}),
    (403, ForbiddenError, "never", {}),
    (404, EndpointNotFoundError, "never other", {}),
    (404, ProtocolError, "never other", {"had_session": True, "error_code": -32601}),
    (400, ProtocolError, "never other", {"error_code": -32602}),
    (418, HttpError, "never", {}),
    (429, RateLimitedError, "always other", {}),
    (500, ServerError, "if_idempotent other", {}),
    (503, ServerError, "if_idempotent other", {}),
    (503, ServerError, "always other", {"retry_after": "1"}),
]
REQUESTS: list[Row] = [
    ("a refused connection", GONE, REFUSED, {}, SendError, "always other lost"),
    ("a reset connection", GONE, RESET, {}, UNKNOWN, "if_idempotent lost"),
    ("the process died before it read", GONE, NEVER_READ, DEAD, LOST, "always other lost"),
    ("the process died with the request", GONE, WRITTEN, DEAD, UNKNOWN, "if_idempotent lost"),
    ("the session was closed before", GONE, None, ENDED, LOST, "always other lost"),
    ("an object here answers that code", GONE, None, HERE, ProtocolError, "never other -32000"),
    ("an object here ended", GONE, None, HERE | ENDED, UNKNOWN, "if_idempotent lost"),
    ("an event stream was cut", GONE, CUT, {}, UNKNOWN, "if_idempotent"),
    ("a closed stream", anyio.ClosedResourceError(), NEVER_READ, {}, LOST, "always other lost"),
    ("a group", _group(anyio.BrokenResourceError()), WRITTEN, {}, UNKNOWN, "if_idempotent lost"),
    ("the SDK's timeout", _answered(-32001), WRITTEN, {}, ListTimeoutError, "if_idempotent other"),
    ("no MCP", _validation_error(), DONE, {}, ProtocolError, "never other"),
    *(
        (f"status {code} {more}", NO, _replied(code, **more), {}, kind, f"{how} {code} -32603")
        for code, kind, how, more in STATUSES
    ),
    *(
        (
            f"{status} for a session nobody knows, body {code}",
            _answered(code or -32600),
            _replied(status, had_session=True, error_code=code),
            {},
            LOST,
            f"always other lost {status} {code or -32600}",
        )
        for status in (400, 404)
        for code in (None, -32000, -32001, -32600)
    ),
    *(
        (f"error {code}", _answered(code), DONE, {}, ProtocolError, f"never {code}{may}")
        for may, codes in [
            (" other", [-32600, -32601, -32602, -32603, -32000, -32001]),
            ("", [-32700, -32020, -32021, -32022, -32042, 7]),
        ]
        for code in codes
    ),
]


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row[0])
def test_each_failure_of_a_request_has_its_error(row: Row) -> None:
    _, cause, exchange, wire, kind, facts = row

    failure = _failed(cause, *filter(None, [exchange]), wire=_wire(**wire))

    error, text = failure.error, str(failure.error)
    numbers = [number for number in (error.status, error.code) if number is not None]
    described = [error.retry, "other" * error.retryable, "lost" * bool(failure.session_lost)]
    assert type(error) is kind
    assert {*described, *map(str, numbers)} - {""} == set(facts.split())
    assert error.server == "shop"
    assert text.startswith("shop")
    assert [part for part in ("\n", "TaskGroup", CANARY) if part in text] == []


@pytest.mark.parametrize(
    ("code", "method", "tool", "kind"),
    [
        (-32002, "resources/read", None, ResourceNotFoundError),
        (-32602, "resources/read", None, ResourceNotFoundError),
        (-32002, "tools/call", "pay", ResourceNotFoundError),
        (-32602, "tools/call", "pay", ProtocolError),
    ],
)
def test_a_resource_that_is_not_there_has_its_error(
    code: int, method: str, tool: str | None, kind: type[PlaitError]
) -> None:
    error = _failed(_answered(code), DONE, method=method, tool=tool).error

    assert (type(error), error.code, error.tool, error.retry) == (kind, code, tool, "never")


def test_an_error_of_ours_passes_untouched() -> None:
    error = ConfigError("files: no")

    assert _failed(_group(error)) == Failure(error)
    assert _cannot_connect(_group(error), wire=_wire()) is error


def test_only_the_last_exchange_counts() -> None:
    first = _exchange(written=True, reply=_reply(500))

    failure = _failed(_answered(CLOSED), first, _exchange(), wire=_wire(end="gone"))

    assert type(failure.error) is ConnectionLostError


def test_an_answered_request_is_answered_though_the_server_died_right_after() -> None:
    error = _answered(CLOSED, "the database is down")

    failure = _failed(error, DONE, wire=_wire(exit_code=1, end="gone"))

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
    ours = _failed(RequestError(-32602, "no such tool"), DONE).error
    theirs = _failed(MCPError(-32602, "no such tool"), DONE).error

    assert (type(theirs), str(theirs), theirs.code) == (type(ours), str(ours), -32602)


LONG_WORDS = f"two\nlines and {CANARY} " + "x" * 500


@pytest.mark.parametrize(
    "words",
    [
        LONG_WORDS,
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
        '{"api_key": "0123456789abcdef"}',
        "https://user:0123456789abcdef@example.com",
        "PASSWORD=0123456789abcdef",
    ],
)
def test_the_servers_words_are_folded_and_cleaned_in_every_error(words: str) -> None:
    ended: dict[str, Any] = {"stderr": (words,), "exit_code": 1, "end": "x"}
    failures = [
        _failed(_answered(CLOSED, words), WRITTEN),
        _failed(_answered(CLOSED, words), _exchange(stream_ended=True, answered=True)),
        _failed(_answered(-32603, words), DONE),
        _failed(_answered(-32002, words), method="resources/read"),
        _failed(_answered(-32603), _replied(500, body=words)),
        _failed(_answered(-32603), _replied(401, body=words, challenge=words)),
        _failed(_answered(CLOSED), _exchange(failure=httpx2.ReadError(words), written=True)),
        _failed(ValueError(words), WRITTEN),
        _failed(_answered(CLOSED), _exchange(), wire=_wire(**ended)),
        _failed(_answered(CLOSED), WRITTEN, wire=_wire(**ended)),
    ]

    for failure in failures:
        text = str(failure.error)
        assert len(text) < 800
        assert "\n" not in text
        shown = f"{text} {failure.error.to_dict()} {failure.session_lost}"
        shown = shown if words == LONG_WORDS else text
        secrets = (CANARY, "0123456789abcdef", "eyJhbGci")
        assert [secret for secret in secrets if secret in shown] == []


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ({"stderr": ("Cannot open database",), "exit_code": 3}, "Cannot open database"),
        ({"exit_code": 3}, "exited (3)"),
        ({"exit_code": -9}, "was killed by signal 9"),
    ],
)
def test_the_end_and_the_last_words_of_a_server_are_told_once(
    wire: dict[str, Any], said: str
) -> None:
    error = _failed(_answered(CLOSED), WRITTEN, wire=_wire(end="gone", **wire)).error

    assert str(error).count(said) == 1


def test_an_error_without_a_text_says_so() -> None:
    error = _failed(_answered(-32603, ""), DONE).error

    assert str(error).endswith("error -32603: an error without a text")


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (None, {None}),
        ("0", {0.0}),
        ("120", {120.0}),
        ("1.5", {1.5}),
        (" 7 ", {7.0}),
        ("-5", {0.0}),
        ("soon", {None}),
        ("", {None}),
        ("Wed, 99 Foo 2015 07:28:00 GMT", {None}),
        ("Wed, 21 Oct 2015 07:28:00 GMT", {0.0}),
        ("Wed, 21 Oct 2015 07:28:00", {0.0, None}),
        ("Wed, 21 Oct 2015 07:28:00 -0000", {0.0, None}),
        ("inf", {0.0, None}),
        ("1e400", {0.0, None}),
    ],
)
def test_a_pause_asked_for_is_read(header: str | None, allowed: set[float | None]) -> None:
    assert http_error(_reply(429, retry_after=header), _wire()).retry_after in allowed


def test_a_pause_asked_for_as_a_date_is_read() -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    seconds = http_error(_reply(429, retry_after=then), _wire()).retry_after

    assert seconds is not None
    assert 90 < seconds <= 100


def test_a_challenge_is_kept_for_whoever_can_answer_it() -> None:
    challenge = 'Bearer resource_metadata="https://example.com/.well-known/x", scope="a b"'

    assert http_error(_reply(401, challenge=challenge), _wire()).challenge == challenge


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

    error = _cannot_connect(_group(_answered(-32603)), _exchange(), wire=wire)

    assert (type(error), error.status, error.retry) == (kind, status, retry)
    assert str(error).startswith(f"shop: HTTP {status}")
    assert "<html>go away</html>" in str(error)


@pytest.mark.parametrize(
    ("cause", "wire", "said"),
    [
        (
            _answered(CLOSED),
            {"exit_code": 2, "stderr": ("no module",)},
            ["exited (2)", "no module"],
        ),
        (_answered(CLOSED), {"end": "the server closed it"}, ["closed", "handshake"]),
        (_answered(-32603, "bad"), {}, ["handshake", "-32603", "bad"]),
        (OSError(111, "Connection refused"), {}, ["cannot connect", "refused"]),
        (ssl.SSLError("certificate verify failed"), {}, ["certificate verify failed"]),
        (RuntimeError(), {}, ["RuntimeError"]),
        (httpx2.ConnectError("refused"), {}, ["cannot connect", "refused", "ConnectError"]),
    ],
    ids=["exited", "closed", "error answer", "os error", "tls", "anything", "refused"],
)
def test_why_no_session_could_be_opened(
    cause: Exception, wire: dict[str, Any], said: list[str]
) -> None:
    exchanges = [_exchange(failure=cause)] if isinstance(cause, httpx2.ConnectError) else []
    raised = _answered(CLOSED) if exchanges else cause

    error = _cannot_connect(_group(raised), *exchanges, wire=_wire(**wire))

    assert (type(error), error.server) == (ConnectError, "shop")
    assert [part for part in ["shop: ", *said] if part not in str(error)] == []


def test_a_server_that_speaks_other_versions_says_which() -> None:
    data = {"supported": ["2025-06-18", f"a\nb {CANARY}", "x" * 5000], "requested": "2026-07-28"}

    error = _cannot_connect(_answered(-32022, "unsupported", data), wire=_wire())

    assert error.code == -32022
    assert "2025-06-18" in str(error)
    assert "\n" not in str(error)
    assert CANARY not in str(error)
    assert len(str(error)) < 800


def test_a_handshake_that_takes_too_long_tells_the_last_words() -> None:
    error = connect_timeout(20, _wire(stderr=("installing packages …", "")), "shop")

    assert isinstance(error, ConnectTimeoutError)
    assert isinstance(error, TimeoutError)
    assert str(error) == (
        "shop: not ready within 20 s (connect_timeout); its last words: installing packages …"
    )
    assert str(connect_timeout(0.5, None, "shop")) == (
        "shop: not ready within 0.5 s (connect_timeout)"
    )


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


def test_a_forgotten_session_gives_its_reason() -> None:
    failure = _failed(_answered(-32600), _replied(404, had_session=True))

    assert failure.session_lost == "the server has forgotten the session"
