"""What users are told about while tools run: log messages, progress, questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT, LoggingFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

__all__ = [
    "CallbackContext",
    "Callbacks",
    "ElicitRequestParams",
    "ElicitResult",
    "ElicitationCallback",
    "LoggingMessageCallback",
    "LoggingMessageNotificationParams",
    "ProgressCallback",
]


@dataclass
class CallbackContext:
    """Which server, and where it can be told which of its tools, a callback is about."""

    server_name: str
    tool_name: str | None = None


@runtime_checkable
class LoggingMessageCallback(Protocol):
    """Gets each log message of a server."""

    async def __call__(
        self, params: LoggingMessageNotificationParams, context: CallbackContext
    ) -> None:
        """Take a message."""
        ...


@runtime_checkable
class ProgressCallback(Protocol):
    """Gets each sign of progress of a call."""

    async def __call__(
        self, progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        """Take a sign of progress."""
        ...


@runtime_checkable
class ElicitationCallback(Protocol):
    """Answers what a server asks the user."""

    async def __call__(
        self,
        mcp_context: ClientRequestContext,
        params: ElicitRequestParams,
        context: CallbackContext,
    ) -> ElicitResult:
        """Answer a question."""
        ...


@dataclass
class MCPCallbacks:
    """Callbacks as the MCP SDK takes them."""

    logging_callback: LoggingFnT | None = None
    progress_callback: ProgressFnT | None = None
    elicitation_callback: ElicitationFnT | None = None


@dataclass
class Callbacks:
    """The callbacks of a client."""

    on_logging_message: LoggingMessageCallback | None = None
    on_progress: ProgressCallback | None = None
    on_elicitation: ElicitationCallback | None = None

    def to_mcp_format(self, *, context: CallbackContext) -> MCPCallbacks:
        """Bind the callbacks to a context, in the form that the MCP SDK takes."""
        on_log, on_progress, on_question = (
            self.on_logging_message,
            self.on_progress,
            self.on_elicitation,
        )

        async def log(params: LoggingMessageNotificationParams) -> None:
            if on_log is not None:
                await on_log(params, context)

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                await on_progress(progress, total, message, context)

        about = context

        async def ask(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            if on_question is None:
                return ElicitResult(action="decline")
            return await on_question(context, params, about)

        return MCPCallbacks(
            logging_callback=log if on_log is not None else None,
            progress_callback=progressed if on_progress is not None else None,
            elicitation_callback=ask if on_question is not None else None,
        )
