"""The exit codes of the command line, and the errors they stand for."""

from __future__ import annotations

import asyncio
from enum import IntEnum

from plait.errors import (
    AgentError,
    AgentServerConfigError,
    AgentServerError,
    AuthRequiredError,
    BackendError,
    ConfigError,
    ConnectError,
    ContentError,
    DomainError,
    EngineUnavailableError,
    ForbiddenError,
    GatewayError,
    HttpError,
    InvalidArgumentsError,
    ManifestError,
    ManualTraceError,
    OutboxError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ProtocolError,
    ReasoningError,
    RefusedError,
    TokenError,
    ToolFailedError,
    TraceFormatError,
    TransportError,
)


class ArgumentError(ValueError):
    """An argument on the command line cannot be parsed."""

    hint: str | None = None
    """The parameters of the tool."""


class Exit(IntEnum):
    """The exit code of a command."""

    OK = 0
    TOOL_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    CONFIG = 4
    AUTH = 5
    PROTOCOL = 6
    OUTCOME_UNKNOWN = 7
    DRIFT = 8
    AGENT_FAILED = 9
    TURNS_USED_UP = 10
    INTERNAL = 70
    TIMEOUT = 124
    INTERRUPTED = 130
    TERMINATED = 143

    @property
    def meaning(self) -> str:
        """The meaning of the code in a sentence."""
        return _MEANINGS[self]


_MEANINGS: dict[Exit, str] = {
    Exit.OK: "Everything worked.",
    Exit.TOOL_FAILED: "The tool ran and reported a failure (`isError`).",
    Exit.USAGE: (
        "The command line is invalid: an unknown option, a missing or malformed argument, "
        "arguments that do not match the tool, a file that cannot be written or is not a trace."
    ),
    Exit.UNREACHABLE: (
        "A server could not be reached, or the connection broke before anything ran. "
        "Commands that query several servers print the results of the others and exit with this "
        "code."
    ),
    Exit.CONFIG: (
        "The configuration is missing or invalid, has no such server, or forbids the call."
    ),
    Exit.AUTH: "The server needs credentials, or rejects them (HTTP 401, 403).",
    Exit.PROTOCOL: (
        "The server returned a protocol error, or has no such tool, resource or prompt."
    ),
    Exit.OUTCOME_UNKNOWN: (
        "The call was sent and its result was lost: the tool may have run. Check before repeating."
    ),
    Exit.DRIFT: "Tools differ from the lockfile (`plait lock --check`).",
    Exit.AGENT_FAILED: "An agent run failed.",
    Exit.TURNS_USED_UP: ("An agent run reached its turn limit; the partial answer is printed."),
    Exit.INTERNAL: "A defect in plait; run again with `-v` for the traceback.",
    Exit.TIMEOUT: "A call, list, read or run timed out; a tool may have run.",
    Exit.INTERRUPTED: "Stopped with Ctrl-C; servers started by the command are stopped.",
    Exit.TERMINATED: "An agent run was stopped with SIGTERM; its servers are stopped.",
}


def exit_code_for(error: BaseException) -> Exit:
    """Return the exit code for an error."""
    match error:
        case ArgumentError() | InvalidArgumentsError() | RefusedError() | TraceFormatError():
            return Exit.USAGE
        case KeyboardInterrupt() | asyncio.CancelledError():
            return Exit.INTERRUPTED
        case ConfigError() | PermissionDeniedError() | ManifestError() | OutboxError():
            return Exit.CONFIG
        case EngineUnavailableError() | ManualTraceError() | AgentServerConfigError():
            return Exit.CONFIG
        case AuthRequiredError() | ForbiddenError() | TokenError():
            return Exit.AUTH
        case OutcomeUnknownError():
            return Exit.OUTCOME_UNKNOWN
        case ToolFailedError():
            return Exit.TOOL_FAILED
        # Before the builtin timeout: a handshake timeout means that the server is unreachable.
        case ConnectError():
            return Exit.UNREACHABLE
        case TimeoutError():
            return Exit.TIMEOUT
        case TransportError() | HttpError() | BackendError() | GatewayError() | AgentServerError():
            return Exit.UNREACHABLE
        case AgentError():
            return Exit.AGENT_FAILED
        case ProtocolError() | DomainError() | ContentError() | ReasoningError():
            return Exit.PROTOCOL
        case OSError() if error.filename is not None:
            return Exit.USAGE
        case _:
            return Exit.INTERNAL
