"""Every exception of this package, in one tree.

```text
PlaitError
├── ConfigError                    a file, variable or argument must change
│   ├── UnknownServerError
│   ├── UntrustedConfigError       found in the working folder, and not approved
│   └── NotRecordedError           a request is not on the tape that is played
├── BlockingCallError              a blocking call on the thread that must do the work
├── ClientClosedError
├── MCPClientError                 every failure to connect is one of these
│   ├── TransportError
│   │   ├── ConnectError               no session could be opened
│   │   │   ├── ConnectTimeoutError
│   │   │   ├── EndpointNotFoundError  HTTP 404 where the server should be
│   │   │   ├── McpVersionError        it needs another version of the mcp package
│   │   │   └── CircuitOpenError       not tried: the next attempt comes too late for the call
│   │   ├── ConnectionLostError        the session ended and the request had not left
│   │   ├── SendError                  the request could not be sent
│   │   ├── ListTimeoutError
│   │   ├── CallTimeoutError
│   │   └── RunDeadlineError
│   └── HttpError                      any other HTTP status
│       ├── AuthRequiredError          401
│       ├── ForbiddenError             403
│       ├── RateLimitedError           429
│       └── ServerError                5xx
├── ProtocolError                  a JSON-RPC error answer
├── DomainError
│   ├── ToolFailedError            the tool ran and returned isError
│   ├── ToolNotFoundError
│   ├── InvalidArgumentsError      the arguments do not fit the tool; nothing was sent
│   ├── InputNeededError           the server requests input that only the caller can get
│   ├── InputRefusedError          the client refused an input request of the server
│   ├── ResourceNotFoundError
│   ├── ResultExpiredError         a shortened result is not kept any more
│   ├── BudgetExceededError        the run has made as many calls as it may
│   └── PermissionDeniedError      our own policy refused
├── OutcomeUnknownError            sent, answer lost, and the tool may not be run twice
├── ReasoningError                 of the reasoning server
│   ├── BackendError               the backend could not be reached, or refused
│   ├── ReplyError                 the backend did not reply with the requested JSON
│   ├── HostHasNoModelError        the server has no model; the caller must write the thoughts
│   └── RefusedError               the call does not fit; nothing was changed
│       └── UnknownIdError             no value of the session has this id
│           ├── SessionNotFoundError
│           ├── ThoughtNotFoundError
│           ├── BranchNotFoundError
│           ├── CheckpointNotFoundError
│           ├── GraphNotFoundError
│           └── NodeNotFoundError
├── AgentError                     of a run of an agent
│   ├── EngineError
│   │   ├── EngineUnavailableError    the engine cannot be used here
│   │   ├── AgentExecutionError        the run could not go on
│   │   │   └── AgentTimeoutError
│   │   ├── AgentResponseError         the model answered nothing that can be used
│   │   ├── ParseError                 an answer is not in the requested form
│   │   └── ManualTraceError           recorded answers cannot be used
│   │       ├── ManualEngineError   recordings do not support the operation
│   │       └── ManualTraceNotFoundError
│   ├── AgentServerError                       the servers of a run
│   │   ├── AgentServerTimeoutError
│   │   ├── AgentServerConnectError
│   │   └── AgentServerConfigError
│   └── TraceFormatError               a file is not a trace that can be read
├── ContentError
└── GatewayError                   a gateway, a manifest or a token is at fault
    ├── ManifestError              ToolingManifest.json must change
    ├── DiscoveryError             the gateway did not say which servers an agent has
    ├── TokenError                 a token is missing, malformed, expired, or was refused
    ├── ChatHistoryError           chat history did not arrive
    └── OutboxError                the outbox is full, or its file cannot be used
```
"""

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
    described: ClassVar[tuple[str, ...]] = ()
    """The attributes of a subclass that `to_dict` describes too, unless they are empty."""
    retryable: bool = False
    """Whether another server may be tried."""
    retry: RetryAdvice = "never"
    attempts: int = 0
    """How often a call was tried before this error."""
    trace: Any = None
    """The `Trace` so far, if this error ended a run of an agent."""
    messages: Any = None
    """The messages of model and tools in that trace."""
    usage: Any = None
    """The `UsageMetadata` of that trace."""

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
        """Seconds from the server's `Retry-After`."""
        self.challenge = challenge
        """The `WWW-Authenticate` header, where the server sent one."""
        if retry is not None:
            self.retry = retry
        if retryable is not None:
            self.retryable = retryable

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data; absent values are left out."""
        values: dict[str, object | None] = {
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
        known = {name: value for name, value in values.items() if value is not None}
        known |= {"retryable": self.retryable, "retry": self.retry}
        for name in self.described:
            if value := getattr(self, name):
                known[name] = [*value] if isinstance(value, tuple) else value
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a configuration."""

    file: str | None
    """The file, or `None` for Python values."""
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


class UntrustedConfigError(ConfigError):
    """A configuration was found in the working folder, and nobody has approved it."""


class NotRecordedError(ConfigError):
    """A request is not on the tape that is played; the text says which one is nearest."""


class BlockingCallError(PlaitError, RuntimeError):
    """A blocking call was made on the thread whose event loop would have to do the work."""

    kind = "config"


class ClientClosedError(PlaitError, RuntimeError):
    """The client was closed; its tools can no longer be called."""

    kind = "config"


class MCPClientError(PlaitError):
    """The server could not be reached, or did not let the client in."""

    kind = "transport"


class TransportError(MCPClientError):
    """The server could not be reached, or went away."""

    retryable = True
    retry = "if_idempotent"


class ConnectError(TransportError):
    """No session with the server could be opened; nothing was sent to a tool."""

    retry = "always"


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The server did not complete the handshake in time."""


class EndpointNotFoundError(ConnectError):
    """The URL answers 404: there is no MCP endpoint at that path."""

    retry = "never"


class McpVersionError(ConnectError):
    """The server's code needs another version of the `mcp` package than it runs with."""

    retry = "never"
    requirement: str = "mcp<2"
    """The version that it needs, as pip writes it."""


class CircuitOpenError(ConnectError):
    """The call was not tried: the server is down, and the next attempt comes too late for it."""


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
    """The server answered with a JSON-RPC error, or violated the protocol."""

    kind = "protocol"
    retryable = True


class DomainError(PlaitError):
    """The server understood the request and refused it."""

    kind = "domain"


class ToolFailedError(DomainError):
    """The tool ran and reported a failure."""


class ToolNotFoundError(DomainError):
    """The server offers no tool of that name."""


class InvalidArgumentsError(DomainError):
    """The arguments do not fit the tool's schema; the call never reached the server."""


class InputNeededError(DomainError):
    """The server requests input during a call, and the caller wants to answer it.

    `requests` are the MCP input requests by key; the call continues when it is made again with
    their answers and with `request_state`.
    """

    def __init__(
        self,
        message: str = "the server asks for input",
        *,
        requests: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.requests = dict(requests or {})
        self.request_state = request_state


class InputRefusedError(DomainError):
    """The client refused an input request of the server."""


class ResourceNotFoundError(DomainError):
    """The server has no such resource."""


class ResultExpiredError(DomainError):
    """The handle has expired, or belongs to another caller."""


class BudgetExceededError(DomainError):
    """The run has made as many calls as it may; this one never reached the server."""


class PermissionDeniedError(DomainError):
    """The policy of this client refuses the call; it never reached the server."""


class HttpError(MCPClientError):
    """The server answered with an HTTP status that is not success."""

    described = ("scopes", "login", "authorization_url")
    scopes: tuple[str, ...] = ()
    """The scopes the server requires."""
    login: str | None = None
    """The command that signs in, where there is one."""
    authorization_url: str | None = None
    """The authorization URL the user was sent to, if any."""


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
    """Content cannot be represented in the target format."""


class ReasoningError(PlaitError):
    """The reasoning server could not carry out a request."""

    kind = "domain"


class BackendError(ReasoningError):
    """The backend that writes the thoughts could not be reached, or refused.

    `retryable` is set per error, and `retry` with it: repeating a model request is safe.
    """

    kind = "transport"
    described = ("backend",)

    def __init__(
        self, message: str, *, backend: str | None = None, retryable: bool = False, **details: Any
    ) -> None:
        details.setdefault("retry", "always" if retryable else "never")
        super().__init__(message, retryable=retryable, **details)
        self.backend = backend
        """The name of the backend: `langbase`, `model`, `openai`, `sampling`, ..."""


class ReplyError(ReasoningError):
    """A model replied twice without the requested JSON."""


class HostHasNoModelError(ReasoningError):
    """The server has no model; the calling model must write the thoughts."""


class RefusedError(ReasoningError):
    """The call does not fit the session or the tool; nothing was changed, and the text says why."""


class UnknownIdError(RefusedError):
    """No value of the session has this id."""

    def __init__(self, message: str, *, key: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.key = key
        """The id that was not found."""


class SessionNotFoundError(UnknownIdError):
    """There is no session with this id."""


class ThoughtNotFoundError(UnknownIdError):
    """There is no thought with this id, or not in this session."""


class BranchNotFoundError(UnknownIdError):
    """There is no branch with this id, or not in this session."""


class CheckpointNotFoundError(UnknownIdError):
    """There is no checkpoint with this id."""


class GraphNotFoundError(UnknownIdError):
    """There is no graph with this id, or not in this session."""


class NodeNotFoundError(UnknownIdError):
    """There is no node with this id in the graph."""


class AgentError(PlaitError):
    """A run of an agent could not be made, or ended without a result."""

    kind = "domain"


class EngineError(AgentError):
    """The engine of an agent failed, or does not support the request."""


class EngineUnavailableError(EngineError):
    """The engine cannot be used here: a package or a setting is missing."""

    kind = "config"

    def __init__(
        self, message: str, reason: str | None = None, fallback: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.reason = reason or message
        """Why, in short: `missing_model_name`, or a text."""
        self.fallback = fallback
        """The engine that could be used instead."""


class AgentExecutionError(EngineError):
    """The run could not go on."""

    def __init__(
        self, message: str, stderr: str | None = None, limit_reached: bool = False, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.stderr = stderr
        """The standard error of the engine's process, if it has one."""
        self.limit_reached = limit_reached


class AgentTimeoutError(AgentExecutionError, TimeoutError):
    """The run took longer than it may."""


class AgentResponseError(EngineError):
    """The model answered nothing that can be used."""


class ParseError(EngineError):
    """An answer is not in the requested form."""

    def __init__(self, message: str, raw_response: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.raw_response = raw_response


class ManualTraceError(EngineError):
    """Recorded answers cannot be read, or cannot be used."""

    kind = "config"


class ManualEngineError(ManualTraceError):
    """Recorded answers do not support the operation."""

    def __init__(self, message: str, operation: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.operation = operation
        """The unsupported operation."""


class ManualTraceNotFoundError(ManualTraceError):
    """Nothing is recorded for this question."""

    def __init__(
        self, message: str, question_hash: str | None = None, loaded_count: int = 0, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.question_hash = question_hash
        self.loaded_count = loaded_count
        """How many recordings there are."""


class AgentServerError(AgentError):
    """The servers of a run could not be used."""

    kind = "transport"

    def __init__(self, message: str, server_name: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.server = server_name or self.server

    @property
    def server_name(self) -> str | None:
        """The server, under the name that agents have for it."""
        return self.server


class AgentServerTimeoutError(AgentServerError, TimeoutError):
    """A server of the run was not ready in time."""

    def __init__(
        self,
        message: str,
        server_name: str | None = None,
        timeout_seconds: float | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, server_name, **details)
        self.timeout_seconds = timeout_seconds


class AgentServerConnectError(AgentServerError):
    """A server of the run could not be reached, or did not answer as it should."""


class AgentServerConfigError(AgentServerError, ValueError):
    """The servers of a run are not described as they should be."""

    kind = "config"


class TraceFormatError(AgentError, ValueError):
    """A file is not a trace, or one of a version that is not known here."""

    kind = "config"


class GatewayError(PlaitError):
    """Something between an agent and its tool gateway went wrong; `url` says where."""

    described = ("url",)

    def __init__(self, message: str, *, url: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.url = url
        """The requested URL, without secrets."""


class ManifestError(GatewayError, ValueError):
    """A `ToolingManifest.json` must change."""

    kind = "config"


class DiscoveryError(GatewayError):
    """The gateway did not say which servers an agent has."""

    kind = "transport"
    retry = "always"


class TokenError(GatewayError):
    """A token is missing, malformed or expired, or was refused."""

    kind = "auth"


class ChatHistoryError(GatewayError):
    """Chat history did not arrive at the gateway."""

    kind = "transport"
    retry = "always"


class OutboxError(GatewayError):
    """The outbox is full, or its file cannot be used; nothing was stored."""

    kind = "config"
