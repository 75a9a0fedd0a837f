"""The exit codes of the command line, and the errors they stand for."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Final, Literal, Self

from plait import errors


class ArgumentError(ValueError):
    """An argument on the command line cannot be parsed."""

    hint: str | None = None


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
    INCOMPLETE = 11, "The last answer of an agent was cut or refused; what there is is printed."
    UNTRUSTED = (
        12,
        (
            "The configuration was found in the working folder, and is not approved; "
            "`plait trust approve` approves it."
        ),
    )
    NOT_VERIFIED = 13, "Too few runs of a suite passed, or some could not be decided."
    NOT_SOLVED = 14, "A problem has no solution, none was found in time, or a solution fails."
    INTERNAL = 70, "A defect in plait; run again with `-v` for the traceback."
    TIMEOUT = 124, "A call, list, read or run timed out; a tool may have run."
    INTERRUPTED = 130, "Stopped with Ctrl-C; servers started by the command are stopped."
    TERMINATED = 143, "An agent run was stopped with SIGTERM; its servers are stopped."


SignalName = Literal["SIGINT", "SIGTERM"]
SIGNAL_EXITS: Final = {"SIGINT": Exit.INTERRUPTED, "SIGTERM": Exit.TERMINATED}

_EXITS: tuple[tuple[Exit, tuple[type[BaseException], ...]], ...] = (
    (Exit.USAGE, (ArgumentError, errors.InvalidArgumentsError)),
    (Exit.USAGE, (errors.RefusedError, errors.TraceFormatError)),
    (Exit.INTERRUPTED, (KeyboardInterrupt, asyncio.CancelledError)),
    (Exit.UNTRUSTED, (errors.UntrustedConfigError,)),
    (Exit.CONFIG, (errors.ConfigError, errors.PermissionDeniedError, errors.ManifestError)),
    (Exit.CONFIG, (errors.OutboxError, errors.EngineUnavailableError, errors.ManualTraceError)),
    (Exit.CONFIG, (errors.AgentServerConfigError, ModuleNotFoundError)),
    (Exit.AUTH, (errors.AuthRequiredError, errors.ForbiddenError, errors.TokenError)),
    (Exit.OUTCOME_UNKNOWN, (errors.OutcomeUnknownError,)),
    (Exit.TOOL_FAILED, (errors.ToolFailedError,)),
    # Before the builtin timeout: a handshake timeout means that the server is unreachable.
    (Exit.UNREACHABLE, (errors.ConnectError,)),
    (Exit.TIMEOUT, (TimeoutError,)),
    (Exit.UNREACHABLE, (errors.MCPClientError, errors.BackendError)),
    (Exit.UNREACHABLE, (errors.GatewayError, errors.AgentServerError)),
    (Exit.AGENT_FAILED, (errors.AgentError,)),
    (Exit.PROTOCOL, (errors.ProtocolError, errors.DomainError)),
    (Exit.PROTOCOL, (errors.ContentError, errors.ReasoningError)),
)
"""The first line with a class of the error decides."""


def exit_code_for(error: BaseException) -> Exit:
    """Return the exit code for an error."""
    for code, classes in _EXITS:
        if isinstance(error, classes):
            return code
    names_a_file = isinstance(error, OSError) and error.filename is not None
    return Exit.USAGE if names_a_file else Exit.INTERNAL
