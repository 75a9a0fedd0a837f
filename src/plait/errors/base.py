"""The errors of the client half, and what all errors have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

ErrorKind = Literal["protocol", "transport", "domain", "auth", "config", "unknown"]
"""The coarse class of an error, as `classify_error` reports it."""

RetryAdvice = Literal["never", "if_idempotent", "always"]
"""What a caller may do with the same request, on the same server, after this error."""


class PlaitError(Exception):
    """Base of every error raised by this package.

    The message is one line, names the server, and never holds a secret.
    """

    kind: ClassVar[ErrorKind] = "unknown"

    retryable: bool = False
    """Whether another server may be asked to do the same."""

    retry: RetryAdvice = "never"

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        tool: str | None = None,
        code: int | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        challenge: str | None = None,
        retry: RetryAdvice | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.code = code
        """The JSON-RPC error code, where the server sent one."""
        self.status = status
        """The HTTP status, where there was one."""
        self.retry_after = retry_after
        """Seconds the server asked us to wait."""
        self.challenge = challenge
        """The `WWW-Authenticate` header, where the server sent one."""
        if retry is not None:
            self.retry = retry
        if retryable is not None:
            self.retryable = retryable

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data; absent facts are left out."""
        facts: dict[str, object | None] = {
            "type": f"{self.kind}_error",
            "error": type(self).__name__,
            "message": self.message,
            "client": self.server,
            "tool_name": self.tool,
            "code": self.code,
            "status": self.status,
            "retry_after": self.retry_after,
            "challenge": self.challenge,
        }
        known = {name: value for name, value in facts.items() if value is not None}
        return {**known, "retryable": self.retryable, "retry": self.retry}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a configuration."""

    file: str | None
    """The file it stands in, or `None` for values given in Python."""

    path: str
    """Where in the file, as dotted keys: `mcpServers.files.args[0]`."""

    code: str
    """A stable short name of the kind of problem: `unknown_key`, `unset_variable`."""

    message: str

    suggestion: str | None = None
    """What to write instead."""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.path) if part)
        advice = f" ({self.suggestion})" if self.suggestion else ""
        return f"{place}: {self.message}{advice}" if place else f"{self.message}{advice}"


class ConfigError(PlaitError, ValueError):
    """A file, variable or argument must change; `problems` lists every reason at once."""

    kind = "config"

    def __init__(
        self, message: str, *, problems: Iterable[Problem] = (), server: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.problems = tuple(problems)

    @classmethod
    def from_problems(cls, problems: Iterable[Problem]) -> ConfigError:
        """Make one error that lists every problem, a line each."""
        found = tuple(problems)
        if len(found) == 1:
            return cls(str(found[0]), problems=found)
        lines = "\n".join(f"  - {problem}" for problem in found)
        return cls(f"{len(found)} problems in the configuration:\n{lines}", problems=found)


class UnknownServerError(ConfigError):
    """No server of that name is configured."""


class BlockingCallError(PlaitError, RuntimeError):
    """A blocking call was made on the thread whose event loop would have to do the work."""

    kind = "config"


class ClientClosedError(PlaitError, RuntimeError):
    """The client was closed; its tools can no longer be called."""

    kind = "config"


class TransportError(PlaitError):
    """The server could not be reached, or went away."""

    kind = "transport"
    retryable = True
    retry = "if_idempotent"


class ConnectError(TransportError):
    """No session with the server could be opened; nothing was sent to a tool."""

    retry = "always"


MCPClientError = ConnectError
"""The name `@langchain/mcp-adapters` gives to connection failures."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The server did not complete the handshake in time."""


class EndpointNotFoundError(ConnectError):
    """The URL answers 404: there is no MCP endpoint at that path."""

    retry = "never"


class CircuitOpenError(ConnectError):
    """The call was not tried, because the server has just failed repeatedly."""


class ConnectionLostError(TransportError):
    """The session ended before the request had left; nothing was run."""

    retry = "always"


class SendError(TransportError):
    """The request could not be sent; nothing was run."""

    retry = "always"


class ListTimeoutError(TransportError, TimeoutError):
    """A list or read request got no answer in time."""


class CallTimeoutError(TransportError, TimeoutError):
    """The tool gave no answer in time; it may have run."""


class RunDeadlineError(TransportError, TimeoutError):
    """The deadline of the whole run passed."""

    retryable = False
    retry = "never"


class ProtocolError(PlaitError):
    """The server answered with a JSON-RPC error, or not as the protocol demands."""

    kind = "protocol"
    retryable = True


class DomainError(PlaitError):
    """The server understood and answered no."""

    kind = "domain"


class ToolFailedError(DomainError):
    """The tool ran and reported a failure."""


class ToolNotFoundError(DomainError):
    """The server offers no tool of that name."""


class InvalidArgumentsError(DomainError):
    """The arguments do not fit the tool's schema; the call never reached the server."""


class InputNeededError(DomainError):
    """The server asks for input during a call, and whoever called wants to be the one to answer.

    `requests` are the questions by key, as MCP has them; the call goes on when it is made again
    with answers to them and with `request_state`.
    """

    def __init__(
        self,
        message: str = "the server asks for input",
        *,
        requests: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.requests = dict(requests or {})
        self.request_state = request_state


class InputRefusedError(DomainError):
    """The server asked for something during a call, and this client did not give it."""


class ResourceNotFoundError(DomainError):
    """The server has no such resource."""


class ResultExpiredError(DomainError):
    """No result is kept under this handle, any more or for whoever asks."""


class BudgetExceededError(DomainError):
    """The run has made as many calls as it may; this one never reached the server."""


class PermissionDeniedError(DomainError):
    """The policy of this client refuses the call; it never reached the server."""


class HttpError(PlaitError):
    """The server answered with an HTTP status that is not success."""

    kind = "transport"

    scopes: tuple[str, ...] = ()
    """The scopes that the server asks for, where other credentials may help."""

    login: str | None = None
    """The command that signs in, where there is one."""

    authorization_url: str | None = None
    """Where a person was sent to sign in, if one was."""

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data; absent facts are left out."""
        facts: dict[str, object] = {
            "scopes": list(self.scopes),
            "login": self.login,
            "authorization_url": self.authorization_url,
        }
        return {**super().to_dict(), **{name: value for name, value in facts.items() if value}}


class AuthRequiredError(HttpError):
    """HTTP 401: credentials are missing, wrong or expired; see `scopes` and `login`."""

    kind = "auth"


class ForbiddenError(HttpError):
    """HTTP 403: the credentials do not allow this; `scopes` names those that would."""

    kind = "auth"


class RateLimitedError(HttpError):
    """HTTP 429: too many requests; see `retry_after`."""

    retryable = True
    retry = "always"


class ServerError(HttpError):
    """HTTP 5xx: the server, or a proxy before it, failed."""

    retryable = True
    retry = "if_idempotent"


class OutcomeUnknownError(PlaitError):
    """The request was sent, the answer was lost, and running the tool again might do it twice."""

    kind = "transport"
    retry = "if_idempotent"


class ContentError(PlaitError):
    """A piece of content cannot be represented where it is wanted."""
