"""The exit codes of the command line, and which error ends in which."""

from __future__ import annotations

import asyncio
from enum import IntEnum

from plait.cli.arguments import ArgumentError
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


class Exit(IntEnum):
    """How a command ended, as a shell sees it."""

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
        """Say in one sentence what the code stands for."""
        return _MEANINGS[self]


_MEANINGS: dict[Exit, str] = {
    Exit.OK: "Everything worked.",
    Exit.TOOL_FAILED: "The tool ran and reported a failure (`isError`).",
    Exit.USAGE: (
        "The command line is wrong: an unknown option, a missing or malformed argument, "
        "arguments that do not fit the tool, a file that cannot be written or is no trace."
    ),
    Exit.UNREACHABLE: (
        "A server could not be reached, or the connection broke before anything ran. "
        "Commands that ask several servers print what they got and end with this code "
        "when at least one is missing."
    ),
    Exit.CONFIG: (
        "The configuration is missing or wrong, names no such server, or forbids the call."
    ),
    Exit.AUTH: "The server wants credentials, or refuses the ones it got (HTTP 401, 403).",
    Exit.PROTOCOL: (
        "The server answered with a protocol error, or has no such tool, resource or prompt."
    ),
    Exit.OUTCOME_UNKNOWN: (
        "The call was sent and its answer was lost: the tool may have run. Check before repeating."
    ),
    Exit.DRIFT: "Tools are not as they were locked (`plait lock --check`).",
    Exit.AGENT_FAILED: "A run of an agent ended without a result.",
    Exit.TURNS_USED_UP: (
        "A run of an agent needed more turns than it has; what was said so far is printed."
    ),
    Exit.INTERNAL: "A defect in plait; run again with `-v` for the traceback.",
    Exit.TIMEOUT: "The tool, list, read or run gave no answer in time; a tool may have run.",
    Exit.INTERRUPTED: "Stopped with Ctrl-C; servers started by the command are closed.",
    Exit.TERMINATED: "A run of an agent was stopped with SIGTERM; its servers are closed.",
}


def exit_code_for(error: BaseException) -> Exit:
    """Say which exit code a failure ends in."""
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
        # Before the builtin timeout: a handshake that never ends is a server that is not there.
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
