"""The errors of runs of agents: their engines, their servers and their recordings."""

from __future__ import annotations

from typing import Any

from plait.errors.base import PlaitError


class AgentError(PlaitError):
    """A run of an agent could not be made, or ended without a result."""

    kind = "domain"


class EngineError(AgentError):
    """The engine of an agent failed, or cannot do what it was asked to."""


class EngineUnavailableError(EngineError):
    """The engine cannot be used here: a package or a setting is missing."""

    kind = "config"

    def __init__(
        self,
        message: str,
        reason: str | None = None,
        fallback: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.reason = reason or message
        """Why, in short: `missing_model_name`, or a text."""
        self.fallback = fallback
        """The engine that could be used instead."""


class AgentExecutionError(EngineError):
    """The run could not go on."""

    def __init__(
        self, message: str, stderr: str | None = None, limit_reached: bool = False, **facts: Any
    ) -> None:
        super().__init__(message, **facts)
        self.stderr = stderr
        """What the engine's own process said, where there is one."""
        self.limit_reached = limit_reached


class AgentTimeoutError(AgentExecutionError, TimeoutError):
    """The run took longer than it may."""


class AgentResponseError(EngineError):
    """The model answered nothing that can be used."""


class ParseError(EngineError):
    """An answer is not in the form that was asked for."""

    def __init__(self, message: str, raw_response: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.raw_response = raw_response


class ManualTraceError(EngineError):
    """Recorded answers cannot be read, or cannot be used."""

    kind = "config"


class ManualEngineError(ManualTraceError):
    """Something was asked for that recorded answers cannot do."""

    def __init__(self, message: str, operation: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.operation = operation
        """What was asked for."""


class ManualTraceNotFoundError(ManualTraceError):
    """Nothing is recorded for this question."""

    def __init__(
        self,
        message: str,
        question_hash: str | None = None,
        loaded_count: int = 0,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.question_hash = question_hash
        self.loaded_count = loaded_count
        """How many recordings there are."""


class AgentServerError(AgentError):
    """The servers of a run could not be used."""

    kind = "transport"

    def __init__(self, message: str, server_name: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
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
        **facts: Any,
    ) -> None:
        super().__init__(message, server_name, **facts)
        self.timeout_seconds = timeout_seconds


class AgentServerConnectError(AgentServerError):
    """A server of the run could not be reached, or did not answer as it should."""


class AgentServerConfigError(AgentServerError, ValueError):
    """The servers of a run are not described as they should be."""

    kind = "config"


class TraceFormatError(AgentError, ValueError):
    """A file is not a trace, or one of a version that is not known here."""

    kind = "config"
