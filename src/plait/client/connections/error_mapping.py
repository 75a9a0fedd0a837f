"""Maps failures of the SDK, HTTP and processes to errors of this package."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import httpx2
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    UnsupportedProtocolVersionErrorData,
)
from pydantic import ValidationError

from plait._support.causes import without_secrets
from plait._support.exception_groups import first_cause
from plait._support.retry_after import seconds_from_retry_after
from plait.client.transports.auth.challenge import challenge_in
from plait.client.transports.wire import Exchange, Exchanges, HttpReply, Wire
from plait.errors import (
    AuthRequiredError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    EndpointNotFoundError,
    ForbiddenError,
    HttpError,
    InputRefusedError,
    ListTimeoutError,
    OutcomeUnknownError,
    PlaitError,
    ProtocolError,
    RateLimitedError,
    ResourceNotFoundError,
    SendError,
    ServerError,
)

_RESOURCE_NOT_FOUND = -32002
_RETRYABLE_CODES = frozenset({-32700, -32600, -32601, -32602, -32603, -32000, -32001})
"""Codes after which another server may be tried; any other code is the server's answer."""

_SESSION_GONE_STATUS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
_SESSION_GONE_CODES = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, INVALID_REQUEST})
"""How servers answer an unknown session id; the texts differ, the codes do not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for the caller, and whether the session was lost."""

    error: PlaitError
    session_lost: str | None = None
    """Why the session was lost, or `None` if it is still open."""


def leaf_of(cause: BaseException, exchanges: Exchanges) -> BaseException:
    """Return the root cause of a failure: the network fault, or the first exception raised."""
    last = exchanges.last
    return last.failure if last is not None and last.failure is not None else first_cause(cause)


def with_cause(error: PlaitError, cause: BaseException | None, wire: Wire) -> PlaitError:
    """Return an error with its cause, both without secrets.

    Raise it outside the `except` block, or the handled exception becomes its context.
    """
    if cause is not error:
        error.__cause__ = cause
    error.__context__ = None
    without_secrets(error, wire.redact)
    return error


def connect_failure(cause: BaseException, exchanges: Exchanges, wire: Wire) -> PlaitError:
    """Explain why no session could be opened."""
    error = first_cause(cause)
    if isinstance(error, PlaitError) and wire.reply is None:
        return error
    server = wire.server
    last = exchanges.last
    reply = wire.reply
    answered = isinstance(error, MCPError) and reply is not None and reply.error_code is not None
    if reply is not None and (not answered or _by_status(reply.status) is not None):
        return http_error(reply, wire, connecting=True)
    if last is not None and last.failure is not None:
        return ConnectError(
            f"{server}: cannot connect: {_described(last.failure, wire)}", server=server
        )
    if wire.exit_code is not None:
        text = f"{server}: {_exited(wire, ' before it was ready')}"
        return ConnectError(text, server=server)
    if isinstance(error, MCPError):
        if wire.ended:
            return ConnectError(f"{server}: {wire.end_reason} during the handshake", server=server)
        return ConnectError(
            f"{server}: the handshake failed: {_refusal(error, wire)}",
            server=server,
            code=error.code,
            status=None if reply is None else reply.status,
        )
    return ConnectError(f"{server}: cannot connect: {_described(error, wire)}", server=server)


def _refusal(error: MCPError, wire: Wire) -> str:
    text = f"error {error.code}: {wire.redact.excerpt(error.message)}"
    try:
        data = UnsupportedProtocolVersionErrorData.model_validate(error.data)
    except ValidationError:
        return text
    return f"{text} (the server speaks {wire.redact.excerpt(', '.join(data.supported))})"


def connect_timeout(seconds: float, wire: Wire | None, server: str) -> ConnectTimeoutError:
    """Explain that the handshake took too long."""
    stderr = _last_words(wire) if wire is not None else ""
    return ConnectTimeoutError(
        f"{server}: not ready within {seconds:g} s (connect_timeout){stderr}", server=server
    )


def request_failure(
    cause: BaseException, exchanges: Exchanges, wire: Wire, *, method: str, tool: str | None = None
) -> Failure:
    """Explain why a request on an open session failed."""
    error = first_cause(cause)
    if isinstance(error, InputRefusedError):
        text = f"{_named(wire.server, tool)}: the call has ended: {error.message}"
        refused = InputRefusedError(text, server=wire.server, tool=tool, code=error.code)
        return Failure(refused)
    if isinstance(error, PlaitError):
        return Failure(error)
    exchange = exchanges.last
    if isinstance(error, MCPError):
        return _answered_with_error(error, exchange, wire, method=method, tool=tool)
    name = _named(wire.server, tool)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        text = f"{name}: the answer to {method} does not follow MCP: {place}: {first['msg']}"
        return Failure(ProtocolError(wire.redact.excerpt(text, 300), server=wire.server, tool=tool))
    return _lost(exchange, wire, _described(error, wire), tool=tool)


def _answered_with_error(
    error: MCPError, exchange: Exchange | None, wire: Wire, *, method: str, tool: str | None
) -> Failure:
    reply = exchange.reply if exchange is not None else None
    if exchange is not None and exchange.failure is not None:
        return _lost(exchange, wire, _described(exchange.failure, wire), tool=tool)
    if reply is not None:
        if _session_is_gone(reply):
            text = f"{_named(wire.server, tool)}: the server has forgotten the session"
            lost = ConnectionLostError(
                text, server=wire.server, tool=tool, code=error.code, status=reply.status
            )
            return Failure(lost, session_lost="the server has forgotten the session")
        if reply.error_code is None or _by_status(reply.status) is not None:
            # Where signing in failed, every caller of the next session must get this error.
            signed_out = reply.advice is not None and reply.status == HTTPStatus.UNAUTHORIZED
            return Failure(
                http_error(reply, wire, tool=tool, code=error.code),
                session_lost="the login has ended" if signed_out else None,
            )
    if error.code == CONNECTION_CLOSED and _was_never_answered(exchange, wire):
        known = wire.ended or wire.exit_code is not None
        reason = wire.ending() if known else wire.redact.excerpt(error.message)
        cut = exchange is not None and exchange.stream_ended and not wire.ended
        return _lost(exchange, wire, reason, tool=tool, only_here=cut)
    if error.code == REQUEST_TIMEOUT and exchange is not None and not exchange.answered:
        text = f"{_named(wire.server, tool)}: no answer to {method} in time"
        return Failure(ListTimeoutError(text, server=wire.server, tool=tool))
    return Failure(_protocol_error(error, reply, wire, method=method, tool=tool))


def _protocol_error(
    error: MCPError, reply: HttpReply | None, wire: Wire, *, method: str, tool: str | None
) -> PlaitError:
    message = wire.redact.excerpt(error.message) or "an error without a text"
    name = _named(wire.server, tool)
    missing = error.code == _RESOURCE_NOT_FOUND or (
        method == "resources/read" and error.code == INVALID_PARAMS
    )
    if missing:
        text = f"{name}: {message}"
        return ResourceNotFoundError(text, server=wire.server, tool=tool, code=error.code)
    # The SDK reports an unreadable answer with this code; the request has been handled.
    unreadable = error.code == PARSE_ERROR and reply is None
    return ProtocolError(
        f"{name}: the server answered {method} with error {error.code}: {message}",
        server=wire.server,
        tool=tool,
        code=error.code,
        status=None if reply is None else reply.status,
        retryable=error.code in _RETRYABLE_CODES and not unreadable,
    )


def _was_never_answered(exchange: Exchange | None, wire: Wire) -> bool:
    """Distinguish the SDK's own "connection closed" from a server that uses the same code."""
    if exchange is None:
        return wire.tapped or wire.ended
    return not exchange.answered


def _session_is_gone(reply: HttpReply) -> bool:
    if reply.status not in _SESSION_GONE_STATUS or not reply.had_session:
        return False
    return reply.error_code is None or reply.error_code in _SESSION_GONE_CODES


def _lost(
    exchange: Exchange | None,
    wire: Wire,
    reason: str,
    *,
    tool: str | None,
    only_here: bool = False,
) -> Failure:
    """Decide by the exchange: the request was not sent, or its outcome is unknown.

    `only_here` means that other requests of the session may still be answered.
    """
    name = _named(wire.server, tool)
    session_lost = None if only_here else reason
    line = wire.last_stderr_line()
    stderr = f" (stderr: {line})" if line else ""
    never_sent = wire.tapped if exchange is None else not exchange.written
    if never_sent:
        kind = SendError if exchange is not None and exchange.failure else ConnectionLostError
        text = f"{name}: the request was not sent: {reason}{stderr}"
        return Failure(kind(text, server=wire.server, tool=tool), session_lost=session_lost)
    text = (
        f"{name}: the answer was lost: {reason}{stderr}. It is not known whether the call took "
        "effect; check before doing it again"
    )
    unknown = OutcomeUnknownError(text, server=wire.server, tool=tool)
    return Failure(unknown, session_lost=session_lost)


def http_error(
    reply: HttpReply,
    wire: Wire,
    *,
    tool: str | None = None,
    code: int | None = None,
    connecting: bool = False,
) -> PlaitError:
    """Build the error for an HTTP status."""
    name = _named(wire.server, tool)
    kind = _by_status(reply.status) or HttpError
    if reply.status == HTTPStatus.NOT_FOUND and (connecting or reply.error_code is None):
        kind = EndpointNotFoundError
    retry_after = seconds_from_retry_after(reply.retry_after)
    error = kind(
        f"{name}: HTTP {reply.status}{_advice(reply, wire)}",
        server=wire.server,
        tool=tool,
        code=code,
        status=reply.status,
        retry_after=retry_after,
        challenge=None if reply.challenge is None else wire.redact(reply.challenge),
    )
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None:
        error.retry = "always"
    if isinstance(error, HttpError):
        _add_sign_in_hints(error, reply, wire)
    return error


def _add_sign_in_hints(error: HttpError, reply: HttpReply, wire: Wire) -> None:
    """Add the requested scopes, and how to sign in, to an error about credentials."""
    challenge = challenge_in(reply.status, reply.challenge)
    scopes = challenge.scopes if challenge is not None else ()
    if reply.advice is not None:
        scopes = reply.advice.scopes or scopes
        error.login, error.authorization_url = reply.advice.login, reply.advice.address
    error.scopes = tuple(wire.redact.excerpt(scope) for scope in scopes)


def _advice(reply: HttpReply, wire: Wire) -> str:
    """Explain a status with the advice of the sign-in, else with its meaning and the body."""
    if reply.advice is not None:
        return f": {wire.redact.excerpt(reply.advice.text, 400)}"
    body = wire.redact.excerpt(reply.body)
    return f"{_ADVICE.get(reply.status, '')}{f': {body}' if body else ''}"


_ADVICE = {
    401: " (credentials are missing or not accepted)",
    403: " (the credentials do not allow this)",
    404: " (there is no MCP endpoint at this URL)",
    429: " (too many requests)",
}


def _by_status(status: int) -> type[HttpError] | None:
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return AuthRequiredError
        case HTTPStatus.FORBIDDEN:
            return ForbiddenError
        case HTTPStatus.TOO_MANY_REQUESTS:
            return RateLimitedError
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ServerError
        case _:
            return None


def _exited(wire: Wire, when: str = "") -> str:
    return f"{wire.ending()}{when}{_last_words(wire)}"


def _last_words(wire: Wire) -> str:
    line = wire.last_stderr_line()
    return f"; its last words: {line}" if line else ""


def _described(error: BaseException, wire: Wire) -> str:
    """Describe an exception of a library in a few words."""
    text = wire.redact.excerpt(str(error))
    name = type(error).__name__
    if isinstance(error, httpx2.TransportError | OSError) and text:
        return f"{text} ({name})"
    return f"{name}: {text}" if text else name


def _named(server: str, tool: str | None) -> str:
    return server if tool is None else f"{server}/{tool}"
