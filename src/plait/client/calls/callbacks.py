"""Callbacks for server notifications, progress and log messages."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext

    from plait.client.calls.tool_call import OnProgress

T = TypeVar("T")

OnLog = Callable[[str, LoggingMessageNotificationParams], Awaitable[None] | None]
"""Gets the server's name and its log message."""


@dataclass
class CallbackContext:
    """The server, and the tool where it is known, that a callback is about."""

    server_name: str
    tool_name: str | None = None


OnNotification = Callable[[Any, CallbackContext], Awaitable[None] | None]
"""Gets the params of a notification, or `None` if it has none, and the server's name."""

OnAnyProgress = Callable[[float, float | None, str | None, CallbackContext], Awaitable[None] | None]
"""Gets progress, total and message of any call, and which call it is."""


@dataclass(kw_only=True)
class ServerCallbacks:
    """Callbacks for server notifications; each may be sync or async."""

    on_message: OnNotification | None = None
    """A log message that no callback of a call takes."""
    on_initialized: OnNotification | None = None
    """A session was opened, the first one or a later one; the params are `ServerInfo`."""
    on_cancelled: OnNotification | None = None
    """A server cancelled a request of its own."""
    on_tools_list_changed: OnNotification | None = None
    on_prompts_list_changed: OnNotification | None = None
    on_resources_list_changed: OnNotification | None = None
    on_roots_list_changed: OnNotification | None = None
    on_resources_updated: OnNotification | None = None
    """A subscribed resource changed."""

    @classmethod
    def of(cls, options: Mapping[str, Any], on_log: OnLog | None = None) -> ServerCallbacks:
        """Read them from the options of a client."""
        callbacks = {name: options.get(name) for name in NOTIFICATION_CALLBACKS}
        callbacks["on_message"] = _message_callback(options.get("on_message"), on_log)
        return cls(**callbacks)

    def registered(self) -> dict[str, OnNotification]:
        """Return the callbacks that are set, by name."""
        callbacks = {name: getattr(self, name) for name in NOTIFICATION_CALLBACKS}
        return {name: callback for name, callback in callbacks.items() if callback is not None}


NOTIFICATION_CALLBACKS = tuple(field.name for field in fields(ServerCallbacks))
"""The names of all callbacks of the form `(params, context)`."""


def progress_callback(callback: OnAnyProgress | None, server: str, tool: str) -> OnProgress | None:
    """Bind a progress callback of the client to one call."""
    if callback is None:
        return None
    context = CallbackContext(server_name=server, tool_name=tool)
    return lambda progress, total, message: callback(progress, total, message, context)


async def decline(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Decline an elicitation, in a client that only a paused run answers."""
    del context, params
    return ElicitResult(action="decline")


async def resolve(value: Awaitable[T] | T) -> T:
    """Await a value if it is awaitable."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast("T", value)


def _message_callback(
    on_message: OnNotification | None, on_log: OnLog | None
) -> OnNotification | None:
    if on_log is None:
        return on_message

    async def notify(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        await resolve(on_log(context.server_name, params))
        if on_message is not None:
            await resolve(on_message(params, context))

    return notify
