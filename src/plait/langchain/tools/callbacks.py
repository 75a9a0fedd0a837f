"""What users are told about: log messages, progress, questions, and what servers announce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT, LoggingFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

from plait.client.calls.callbacks import (
    NOTIFICATION_CALLBACKS,
    CallbackContext,
    OnAnyProgress,
    OnNotification,
    resolve,
)
from plait.errors import ConfigError

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
    """The callbacks of a client.

    Those after the first three hold for the connections of a client, and may be plain functions.
    """

    on_logging_message: LoggingMessageCallback | None = None
    on_progress: ProgressCallback | OnAnyProgress | None = None
    on_elicitation: ElicitationCallback | None = None
    on_message: OnNotification | None = None
    """Gets log messages, as `on_logging_message` does."""
    on_initialized: OnNotification | None = None
    on_cancelled: OnNotification | None = None
    on_tools_list_changed: OnNotification | None = None
    on_prompts_list_changed: OnNotification | None = None
    on_resources_list_changed: OnNotification | None = None
    on_roots_list_changed: OnNotification | None = None
    on_resources_updated: OnNotification | None = None

    def joined(self, options: Mapping[str, Any]) -> Callbacks:
        """Return these, and those among the options of a client.

        Raises:
            ConfigError: One is in both places.
        """
        given = {
            name: options[name]
            for name in (*NOTIFICATION_CALLBACKS, "on_progress")
            if options.get(name)
        }
        for name in given:
            if getattr(self, name) is not None:
                raise ConfigError(f"{name} is given twice: as an option, and in `callbacks`")
        return replace(self, **given) if given else self

    def notices(self) -> dict[str, OnNotification]:
        """Return those of the connections of a client, but for log messages."""
        found = {
            name: getattr(self, name) for name in NOTIFICATION_CALLBACKS if name != "on_message"
        }
        return {name: callback for name, callback in found.items() if callback is not None}

    async def logged(
        self, params: LoggingMessageNotificationParams, context: CallbackContext
    ) -> None:
        """Tell of a log message."""
        if self.on_logging_message is not None:
            await resolve(self.on_logging_message(params, context))
        if self.on_message is not None:
            await resolve(self.on_message(params, context))

    @property
    def hears_logs(self) -> bool:
        """Whether anybody wants log messages."""
        return self.on_logging_message is not None or self.on_message is not None

    def to_mcp_format(self, *, context: CallbackContext) -> MCPCallbacks:
        """Bind the callbacks to a context, in the form that the MCP SDK takes."""
        on_progress, on_question = self.on_progress, self.on_elicitation

        async def log(params: LoggingMessageNotificationParams) -> None:
            await self.logged(params, context)

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                await resolve(on_progress(progress, total, message, context))

        about = context

        async def ask(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            if on_question is None:
                return ElicitResult(action="decline")
            return await on_question(context, params, about)

        return MCPCallbacks(
            logging_callback=log if self.hears_logs else None,
            progress_callback=progressed if on_progress is not None else None,
            elicitation_callback=ask if on_question is not None else None,
        )
