"""What a program may want to hear from its servers, as functions it gives to a client."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mcp_types import LoggingMessageNotificationParams

from plait.client.calls.call import OnProgress

OnLog = Callable[[str, LoggingMessageNotificationParams], Awaitable[None] | None]
"""Gets the server's name and the log message it sent."""


@dataclass
class CallbackContext:
    """Which server, and where it can be told which of its tools, a callback is about."""

    server_name: str
    tool_name: str | None = None


OnNotice = Callable[[Any, CallbackContext], Awaitable[None] | None]
"""Gets the params of what a server announces, `None` where there are none, and who it is."""

OnAnyProgress = Callable[[float, float | None, str | None, CallbackContext], Awaitable[None] | None]
"""Gets progress, total and message of a call, and which call it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCallbacks:
    """The functions that hear what servers announce; each may be asynchronous or not."""

    on_message: OnNotice | None = None
    """A log message that belongs to no call whose caller wants it."""

    on_initialized: OnNotice | None = None
    """A session was opened, the first one or another; the params are `ServerFacts`."""

    on_cancelled: OnNotice | None = None
    """A server takes back something that it asked."""

    on_tools_list_changed: OnNotice | None = None
    on_prompts_list_changed: OnNotice | None = None
    on_resources_list_changed: OnNotice | None = None
    on_roots_list_changed: OnNotice | None = None
    on_resources_updated: OnNotice | None = None
    """A resource changed that somebody follows."""

    @classmethod
    def of(cls, options: Mapping[str, Any], on_log: OnLog | None = None) -> ServerCallbacks:
        """Read them from the options of a client."""
        given = {name: options.get(name) for name in NOTICES}
        given["on_message"] = _message_callback(options.get("on_message"), on_log)
        return cls(**given)

    def given(self) -> dict[str, OnNotice]:
        """Return those that are there, by name."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: callback for name, callback in found.items() if callback is not None}


NOTICES = tuple(one.name for one in fields(ServerCallbacks))
"""The names of all callbacks of the form `(params, context)`."""


def progress_callback(tell: OnAnyProgress | None, server: str, tool: str) -> OnProgress | None:
    """Bind what hears of the progress of every call to one of them."""
    if tell is None:
        return None
    context = CallbackContext(server_name=server, tool_name=tool)
    return lambda progress, total, message: tell(progress, total, message, context)


async def settled(told: Awaitable[None] | None) -> None:
    """Wait for what a function of the user's returned, if it is something to wait for."""
    if inspect.isawaitable(told):
        await told


def _message_callback(on_message: OnNotice | None, on_log: OnLog | None) -> OnNotice | None:
    if on_log is None:
        return on_message

    async def told(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        await settled(on_log(context.server_name, params))
        if on_message is not None:
            await settled(on_message(params, context))

    return told
