"""The exit codes of the command line, and the errors they stand for."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Self

from plait import errors


class ArgumentError(ValueError):
    """An argument on the command line cannot be parsed."""

    hint: str | None = None
    """The parameters of the tool."""


class Exit(IntEnum):
    """The exit code of a command, and its meaning in a sentence."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Make a member whose value is the code."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "Everything worked."
    TOOL_FAILED = 1, "The tool ran and reported a failure (`isError`)."
    USAGE = (
        2,
        (
            "The command line is invalid: an unknown option, a missing or malformed argument, "
            "arguments that do not match the tool, a file that cannot be written or is not a trace."
        ),
    )
    UNREACHABLE = (
        3,
        (
            "A server could not be reached, or the connection broke before anything ran. Commands "
            "that query several servers print the results of the others and exit with this code."
        ),
    )
    CONFIG = 4, "The configuration is missing or invalid, has no such server, or forbids the call."
    AUTH = 5, "The server needs credentials, or rejects them (HTTP 401, 403)."
    PROTOCOL = 6, "The server returned a protocol error, or has no such tool, resource or prompt."
    OUTCOME_UNKNOWN = (
        7,
        "The call was sent and its result was lost: the tool may have run. Check before repeating.",
    )
    DRIFT = 8, "Tools differ from the lockfile (`plait lock --check`)."
    AGENT_FAILED = 9, "An agent run failed."
    TURNS_USED_UP = 10, "An agent run reached its turn limit; the partial answer is printed."
    INTERNAL = 70, "A defect in plait; run again with `-v` for the traceback."
    TIMEOUT = 124, "A call, list, read or run timed out; a tool may have run."
    INTERRUPTED = 130, "Stopped with Ctrl-C; servers started by the command are stopped."
    TERMINATED = 143, "An agent run was stopped with SIGTERM; its servers are stopped."


def exit_code_for(error: BaseException) -> Exit:
    """Return the exit code for an error."""
    match error:
        case ArgumentError() | errors.InvalidArgumentsError():
            return Exit.USAGE
        case errors.RefusedError() | errors.TraceFormatError():
            return Exit.USAGE
        case KeyboardInterrupt() | asyncio.CancelledError():
            return Exit.INTERRUPTED
        case errors.ConfigError() | errors.PermissionDeniedError() | errors.ManifestError():
            return Exit.CONFIG
        case errors.OutboxError() | errors.EngineUnavailableError() | errors.ManualTraceError():
            return Exit.CONFIG
        case errors.AgentServerConfigError():
            return Exit.CONFIG
        case errors.AuthRequiredError() | errors.ForbiddenError() | errors.TokenError():
            return Exit.AUTH
        case errors.OutcomeUnknownError():
            return Exit.OUTCOME_UNKNOWN
        case errors.ToolFailedError():
            return Exit.TOOL_FAILED
        # Before the builtin timeout: a handshake timeout means that the server is unreachable.
        case errors.ConnectError():
            return Exit.UNREACHABLE
        case TimeoutError():
            return Exit.TIMEOUT
        case errors.TransportError() | errors.HttpError() | errors.BackendError():
            return Exit.UNREACHABLE
        case errors.GatewayError() | errors.AgentServerError():
            return Exit.UNREACHABLE
        case errors.AgentError():
            return Exit.AGENT_FAILED
        case (
            errors.ProtocolError()
            | errors.DomainError()
            | errors.ContentError()
            | errors.ReasoningError()
        ):
            return Exit.PROTOCOL
        case OSError() if error.filename is not None:
            return Exit.USAGE
        case _:
            return Exit.INTERNAL
