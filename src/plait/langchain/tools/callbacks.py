"""Callbacks for log messages, progress, elicitation and notifications of servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait.client.calls.tool_call import (
    NOTIFICATION_CALLBACKS,
    CallbackContext,
    OnAnyProgress,
    OnLog,
    OnNotification,
    ServerCallbacks,
    decline,
)
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.client.protocol.exchange import OnProgress
    from plait.client.protocol.session import OnElicitation, RequestContext
    from plait.client.protocol.session import OnLog as OnServerLog


@runtime_checkable
class LoggingMessageCallback(Protocol):
    """Receives each log message of a server."""

    async def __call__(
        self, params: types.LoggingMessageNotificationParams, context: CallbackContext
    ) -> None:
        """Handle a log message."""
        ...


@runtime_checkable
class ProgressCallback(Protocol):
    """Receives each progress notification of a call."""

    async def __call__(
        self, progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        """Handle a progress notification."""
        ...


@runtime_checkable
class ElicitationCallback(Protocol):
    """Answers the elicitation requests of servers."""

    async def __call__(
        self,
        mcp_context: Any,  # `RequestContext`; callbacks may name the type of an SDK
        params: types.ElicitRequestParams,
        context: CallbackContext,
    ) -> types.ElicitResult:
        """Answer an elicitation request."""
        ...


@dataclass
class MCPCallbacks:
    """Callbacks in the form of the MCP SDK."""

    logging_callback: OnServerLog | None = None
    progress_callback: OnProgress | None = None
    elicitation_callback: OnElicitation | None = None


@dataclass
class Callbacks(ServerCallbacks):
    """The callbacks of a client: three coroutine functions, and those for notifications."""

    on_logging_message: LoggingMessageCallback | None = None
    on_progress: ProgressCallback | OnAnyProgress | None = None
    on_elicitation: ElicitationCallback | None = None

    def with_options(self, options: Mapping[str, Any]) -> Callbacks:
        """Add the callbacks among the options of a client; none may be in both places."""
        names = (*NOTIFICATION_CALLBACKS, "on_progress")
        callbacks = {name: options[name] for name in names if options.get(name)}
        for name in callbacks:
            if getattr(self, name) is not None:
                raise ConfigError(f"{name} is set twice: as an option, and in `callbacks`")
        return replace(self, **callbacks) if callbacks else self

    def notification_callbacks(self) -> dict[str, OnNotification]:
        """Return the callbacks for notifications other than log messages, by option name."""
        callbacks = self.registered()
        callbacks.pop("on_message", None)
        return callbacks

    def log_callback(self) -> OnLog | None:
        """Return the callback for log messages outside of calls, or `None` if there is none."""
        if not self._has_log_callback:
            return None
        return lambda server, params: self._log(params, CallbackContext(server_name=server))

    def elicitation_callback(self, server: str) -> OnElicitation:
        """Return the callback for elicitation by a server; without one, requests are declined."""
        context = CallbackContext(server_name=server)
        return self.to_mcp_format(context=context).elicitation_callback or decline

    def to_mcp_format(self, *, context: CallbackContext) -> MCPCallbacks:
        """Bind the callbacks to a context, in the form of the MCP SDK."""
        on_progress, on_elicitation = self.on_progress, self.on_elicitation
        bound = MCPCallbacks()
        if self._has_log_callback:
            bound.logging_callback = partial(self._log, context=context)
        if on_progress is not None:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                await resolve(on_progress(progress, total, message, context))

            bound.progress_callback = progressed
        if on_elicitation is not None:

            async def elicited(
                asked: RequestContext, params: types.ElicitRequestParams
            ) -> types.ElicitResult:
                return await on_elicitation(asked, params, context)

            bound.elicitation_callback = elicited
        return bound

    @property
    def _has_log_callback(self) -> bool:
        return self.on_logging_message is not None or self.on_message is not None

    async def _log(
        self, params: types.LoggingMessageNotificationParams, context: CallbackContext
    ) -> None:
        if self.on_logging_message is not None:
            await resolve(self.on_logging_message(params, context))
        if self.on_message is not None:
            await resolve(self.on_message(params, context))
