"""Dispatching the notifications of servers to the callbacks of a client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import mcp_types as types
from pydantic import ValidationError

from plait.client.calls.callbacks import CallbackContext, ServerCallbacks
from plait.client.connections.change_listener import ChangeListener, ListKind
from plait.client.connections.status import ServerInfo

if TYPE_CHECKING:
    from mcp.client.session import IncomingMessage

    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.pool import ConnectionPool
    from plait.client.connections.session import Session

logger = logging.getLogger("plait.client.calls")

_LIST_CALLBACKS: dict[ListKind, str] = {
    "tools": "on_tools_list_changed",
    "prompts": "on_prompts_list_changed",
    "resources": "on_resources_list_changed",
}


class NotificationDispatcher:
    """Dispatches server notifications to callbacks; lives in the loop of the connections.

    Callbacks run in the loop and the context in which the dispatcher is created; when that loop
    has ended, in the loop of the connections.
    """

    def __init__(
        self,
        callbacks: ServerCallbacks,
        bridge: LoopBridge,
        *,
        on_tools_changed: Callable[[str], None],
        on_resource_updated: Callable[[str, str], None],
    ) -> None:
        """Take the user's callbacks, and two of the client itself, which are called first."""
        self._callbacks = {
            name: bridge.bind_callback(callback, outlasting=True)
            for name, callback in callbacks.registered().items()
        }
        self._on_tools_changed = on_tools_changed
        self._on_resource_updated = on_resource_updated

    def listener(self, pool: ConnectionPool, *, follow_tools: bool = True) -> ChangeListener:
        """Create the listener for modern servers, which announce only the lists it names."""
        lists: set[ListKind] = {"tools"} if follow_tools else set()
        lists.update(kind for kind, name in _LIST_CALLBACKS.items() if name in self._callbacks)
        return ChangeListener(pool, frozenset(lists), self._list_changed)

    def session_opened(
        self, pool: ConnectionPool, changes: ChangeListener, session: Session
    ) -> None:
        """Call `on_initialized`, and listen to the server if there is a list callback."""
        server = session.wire.server
        self.notify("on_initialized", server, ServerInfo.of(session.client))
        if not self._callbacks.keys() & _LIST_CALLBACKS.values():
            return
        changes.begin(session)
        shared = pool.connections.get(server)
        if shared is not None and shared.keeper.session is session:
            # A session that is closed when idle would announce nothing.
            pool.start(partial(_keep_open, session), name=f"plait listen {server}")

    async def message(self, server: str, message: IncomingMessage) -> None:
        """Dispatch a message that the SDK passes on."""
        if isinstance(message, types.ToolListChangedNotification):
            self._list_changed(server, "tools", message.params)
        elif isinstance(message, types.PromptListChangedNotification):
            self._list_changed(server, "prompts", message.params)
        elif isinstance(message, types.ResourceListChangedNotification):
            self._list_changed(server, "resources", message.params)
        elif isinstance(message, types.ResourceUpdatedNotification):
            self._on_resource_updated(server, str(message.params.uri))
            self.notify("on_resources_updated", server, message.params)

    def raw(self, server: str, method: str, params: object) -> None:
        """Dispatch a notification that the SDK does not pass on."""
        try:
            if method == "notifications/cancelled":
                cancelled = types.CancelledNotificationParams.model_validate(params)
                self.notify("on_cancelled", server, cancelled)
            elif method == "notifications/roots/list_changed":
                changed = params and types.NotificationParams.model_validate(params)
                self.notify("on_roots_list_changed", server, changed or None)
        except ValidationError as error:
            logger.debug("%s: invalid params of %s: %s", server, method, error)

    def _list_changed(self, server: str, kind: ListKind, params: object = None) -> None:
        if kind == "tools":
            self._on_tools_changed(server)
        self.notify(_LIST_CALLBACKS[kind], server, params)

    def notify(self, name: str, server: str, params: object) -> None:
        """Call a callback of the user, if there is one of that name."""
        callback = self._callbacks.get(name)
        if callback is not None:
            callback(params, CallbackContext(server_name=server))


async def _keep_open(session: Session) -> None:
    with session.listened_to():
        await session.ended.wait()
