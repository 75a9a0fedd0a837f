"""Maps failures of the SDK, HTTP and processes to errors of this package.

Imports the libraries that raise them where a failure is mapped: they are slow to import.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from plait import errors
from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.exception_groups import first_cause
from plait._support.http_requests import seconds_from_retry_after
from plait.client.protocol.handshake import supported_versions
from plait.client.protocol.peer import RequestError, is_request_error
from plait.client.transports.tape import NOT_RECORDED
from plait.errors import PlaitError

if TYPE_CHECKING:
    from plait.client.protocol.exchange import Exchanges, HttpReply, PendingRequest
    from plait.client.transports.wire import Wire

ErrorT = TypeVar("ErrorT", bound=PlaitError)

_IMPORT_OF_MCP = re.compile(
    r"^(?:ModuleNotFoundError: No module named 'mcp\.[\w.]+'"
    r"|ImportError: cannot import name '\w+' from 'mcp(?:\.[\w.]+)?')"
)
"""How Python reports that a part of the `mcp` package is missing, though the package is there."""
_RESOURCE_NOT_FOUND = -32002
_RETRYABLE_CODES = frozenset({-32700, -32600, -32601, -32602, -32603, -32000, -32001})
"""Codes after which another server may be tried; any other code is the server's answer."""
_SESSION_GONE_STATUS = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
_SESSION_GONE_CODES = frozenset({-32000, -32001, -32600})
"""How servers answer an unknown session id (connection closed, request timeout, invalid request);
the texts differ, the codes do not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for the caller, and whether the session was lost."""

    error: PlaitError
    session_lost: str | None = None
    """Why the session was lost, or `None` if it is still open."""
    cannot_ask: bool = False
    """Whether the server wanted to send a request, and had no way to do so."""


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


def _error(
    kind: type[ErrorT], wire: Wire, text: str, tool: str | None = None, **details: Any
) -> ErrorT:
    """Build an error whose text begins with the server, and the tool where there is one."""
    name = wire.server if tool is None else f"{wire.server}/{tool}"
    return kind(f"{name}: {text}", server=wire.server, tool=tool, **details)


def connect_failure(cause: BaseException, exchanges: Exchanges, wire: Wire) -> PlaitError:
    """Explain why no session could be opened."""
    error = first_cause(cause)
    last, reply = exchanges.last, wire.reply
    if isinstance(error, PlaitError) and reply is None:
        return error
    answered = is_request_error(error) and reply is not None and reply.error_code is not None
    if reply is not None and (not answered or _kind_of(reply.status) is not None):
        return http_error(reply, wire, connecting=True)
    if last is not None and last.failure is not None:
        reason = f"cannot connect: {_description_of(last.failure, wire)}"
        return _error(errors.ConnectError, wire, reason)
    if wire.exit_code is not None:
        # A Python server may have been written for another version of the SDK.
        missing = next(filter(None, map(_IMPORT_OF_MCP.match, reversed(wire.stderr_tail()))), None)
        if missing is None:
            reason = f"{wire.ending()} before it was ready{_last_words(wire)}"
            return _error(errors.ConnectError, wire, reason)
        requirement = "mcp>=2" if "mcpserver" in missing[0].casefold() else "mcp<2"
        text = (
            f"{wire.ending()}: it was written for {requirement}, which its environment does not "
            f"have ({wire.redact.excerpt(missing[0])}); that of plait has mcp 2. Give it an "
            "environment of its own: start it with uvx, or with uv run --no-project "
            f"--with '{requirement}'"
        )
        other_version = _error(errors.McpVersionError, wire, text)
        other_version.requirement = requirement
        return other_version
    if not is_request_error(error):
        return _error(errors.ConnectError, wire, f"cannot connect: {_description_of(error, wire)}")
    if wire.tape is not None and error.code == NOT_RECORDED:
        return errors.NotRecordedError(error.message, server=wire.server)
    if wire.ended:
        return _error(errors.ConnectError, wire, f"{wire.end_reason} during the handshake")
    text = f"the handshake failed: error {error.code}: {wire.redact.excerpt(error.message)}"
    versions = supported_versions(error.data)
    if versions is not None:
        text += f" (the server speaks {wire.redact.excerpt(', '.join(versions))})"
    return _error(errors.ConnectError, wire, text, code=error.code, status=reply and reply.status)


def connect_timeout(seconds: float, wire: Wire | None, server: str) -> errors.ConnectTimeoutError:
    """Explain that the handshake took too long."""
    stderr = _last_words(wire) if wire is not None else ""
    return errors.ConnectTimeoutError(
        f"{server}: not ready within {seconds:g} s (connect_timeout){stderr}", server=server
    )


def request_failure(
    cause: BaseException, exchanges: Exchanges, wire: Wire, *, method: str, tool: str | None = None
) -> Failure:
    """Explain why a request on an open session failed."""
    error = first_cause(cause)
    if isinstance(error, errors.InputRefusedError):
        text = f"the call has ended: {error.message}"
        return Failure(_error(errors.InputRefusedError, wire, text, tool, code=error.code))
    if isinstance(error, PlaitError):
        return Failure(error)
    exchange = exchanges.last
    if is_request_error(error):
        return _answered_with_error(error, exchange, wire, method=method, tool=tool)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        text = f"the answer to {method} does not follow MCP: {place}: {first['msg']}"
        return Failure(_error(errors.ProtocolError, wire, wire.redact.excerpt(text, 300), tool))
    return _lost_answer(exchange, wire, _description_of(error, wire), tool=tool)


def _answered_with_error(
    error: RequestError,
    exchange: PendingRequest | None,
    wire: Wire,
    *,
    method: str,
    tool: str | None,
) -> Failure:
    reply = exchange.reply if exchange is not None else None
    if exchange is not None and (fault := exchange.failure) is not None:
        is_network = isinstance(fault, _library_error("RequestError") | PlaitError)
        reason = _description_of(fault, wire)
        return _lost_answer(exchange, wire, reason, tool=tool, only_here=not is_network)
    if reply is not None:
        code = reply.error_code
        is_of_session = reply.had_session and reply.status in _SESSION_GONE_STATUS
        if is_of_session and (code is None or code in _SESSION_GONE_CODES):
            reason = "the server has forgotten the session"
            details = {"code": error.code, "status": reply.status}
            lost = _error(errors.ConnectionLostError, wire, reason, tool, **details)
            return Failure(lost, reason)
        if code is None or _kind_of(reply.status) is not None:
            # Where signing in failed, every caller of the next session must get this error.
            signed_out = reply.advice is not None and reply.status == HTTPStatus.UNAUTHORIZED
            return Failure(
                http_error(reply, wire, tool=tool, code=error.code),
                session_lost="the login has ended" if signed_out else None,
            )
    if error.code == types.CONNECTION_CLOSED:
        # A server may use this code, too, in an answer.
        is_ours = wire.tapped or wire.ended if exchange is None else not exchange.answered
        if is_ours:
            known = wire.ended or wire.exit_code is not None
            reason = wire.ending() if known else wire.redact.excerpt(error.message)
            cut = exchange is not None and exchange.stream_ended and not wire.ended
            return _lost_answer(exchange, wire, reason, tool=tool, only_here=cut)
    if error.code == types.REQUEST_TIMEOUT and exchange is not None and not exchange.answered:
        text = f"no answer to {method} in time"
        return Failure(_error(errors.ListTimeoutError, wire, text, tool))
    cannot_ask = lacks_back_channel(error.message)
    if wire.tape is not None and error.code == NOT_RECORDED:
        not_recorded = errors.NotRecordedError(error.message, server=wire.server)
        return Failure(not_recorded, cannot_ask=cannot_ask)
    message = wire.redact.excerpt(error.message) or "an error without a text"
    if error.code == _RESOURCE_NOT_FOUND or (
        method == "resources/read" and error.code == types.INVALID_PARAMS
    ):
        not_found = _error(errors.ResourceNotFoundError, wire, message, tool, code=error.code)
        return Failure(not_found, cannot_ask=cannot_ask)
    version = None if exchange is None else exchange.version
    if cannot_ask and version in types.version.MODERN_PROTOCOL_VERSIONS:
        message += f' (not in protocol {version}: set "protocol": "legacy")'
    # The SDK reports an unreadable answer with this code; the request has been handled.
    unreadable = error.code == types.PARSE_ERROR and reply is None
    failure = _error(
        errors.ProtocolError,
        wire,
        f"the server answered {method} with error {error.code}: {message}",
        tool,
        code=error.code,
        status=reply and reply.status,
        retryable=error.code in _RETRYABLE_CODES and not unreadable and not cannot_ask,
    )
    return Failure(failure, cannot_ask=cannot_ask)


def lacks_back_channel(text: str) -> bool:
    """Recognize what servers report when they cannot send a request during a call.

    There is no code for it; these are the words of the Python SDK and of FastMCP.
    """
    return "server-initiated requests" in text


def _lost_answer(
    exchange: PendingRequest | None,
    wire: Wire,
    reason: str,
    *,
    tool: str | None,
    only_here: bool = False,
) -> Failure:
    """Decide by the exchange: the request was not sent, or its outcome is unknown.

    `only_here` means that other requests of the session may still be answered.
    """
    session_lost = None if only_here else reason
    line = wire.last_stderr_line()
    stderr = f" (stderr: {line})" if line else ""
    never_sent = wire.tapped if exchange is None else not exchange.written
    if never_sent:
        failed = exchange is not None and exchange.failure
        kind = errors.SendError if failed else errors.ConnectionLostError
        text = f"the request was not sent: {reason}{stderr}"
        return Failure(_error(kind, wire, text, tool), session_lost)
    text = (
        f"the answer was lost: {reason}{stderr}. It is not known whether the call took effect; "
        "check before doing it again"
    )
    return Failure(_error(errors.OutcomeUnknownError, wire, text, tool), session_lost)


def http_error(
    reply: HttpReply,
    wire: Wire,
    *,
    tool: str | None = None,
    code: int | None = None,
    connecting: bool = False,
) -> PlaitError:
    """Build the error for an HTTP status."""
    kind = _kind_of(reply.status) or errors.HttpError
    if reply.status == HTTPStatus.NOT_FOUND and (connecting or reply.error_code is None):
        kind = errors.EndpointNotFoundError
    retry_after = seconds_from_retry_after(reply.retry_after)
    if reply.advice is not None:
        text = f": {wire.redact.excerpt(reply.advice.text, 400)}"
    else:
        body = wire.redact.excerpt(reply.body)
        text = _BY_STATUS.get(reply.status, (None, ""))[1] + (f": {body}" if body else "")
    error = _error(
        kind,
        wire,
        f"HTTP {reply.status}{text}",
        tool,
        code=code,
        status=reply.status,
        retry_after=retry_after,
        challenge=None if reply.challenge is None else wire.redact(reply.challenge),
    )
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None:
        error.retry = "always"
    if isinstance(error, errors.HttpError):
        from plait.client.transports.auth.challenge import challenge_in  # noqa: PLC0415

        challenge = challenge_in(reply.status, reply.challenge)
        scopes = challenge.scopes if challenge is not None else ()
        if reply.advice is not None:
            scopes = reply.advice.scopes or scopes
            error.login, error.authorization_url = reply.advice.login, reply.advice.address
        error.scopes = tuple(wire.redact.excerpt(scope) for scope in scopes)
    return error


_BY_STATUS: dict[int, tuple[type[errors.HttpError] | None, str]] = {
    401: (errors.AuthRequiredError, " (credentials are missing or not accepted)"),
    403: (errors.ForbiddenError, " (the credentials do not allow this)"),
    404: (None, " (there is no MCP endpoint at this URL)"),
    429: (errors.RateLimitedError, " (too many requests)"),
}
"""The error class of a status, and what the status means."""


def _kind_of(status: int) -> type[errors.HttpError] | None:
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return errors.ServerError if is_fault else _BY_STATUS.get(status, (None, ""))[0]


def _last_words(wire: Wire) -> str:
    line = wire.last_stderr_line()
    noise = f"; it {wire.first_noise}" if wire.first_noise else ""
    return f"; its last words: {line}{noise}" if line else noise


def _description_of(error: BaseException, wire: Wire) -> str:
    """Describe an exception of a library in a few words."""
    text = wire.redact.excerpt(str(error))
    name = type(error).__name__
    if isinstance(error, _library_error("TransportError") | OSError) and text:
        return f"{text} ({name})"
    return f"{name}: {text}" if text else name


def _library_error(name: str) -> type[Exception]:
    """Return an exception class of httpx2; unless that is imported, there are none of it."""
    return getattr(sys.modules.get("httpx2"), name, OSError)
