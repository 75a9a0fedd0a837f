"""What servers say without being asked, brought to whoever wants to hear it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import mcp_types as types
from mcp.client.session import IncomingMessage
from pydantic import ValidationError

from plait.client.calls.callbacks import CallbackContext, ServerCallbacks
from plait.client.connections.change_listener import ChangeListener, ListKind
from plait.client.connections.loop_bridge import LoopBridge
from plait.client.connections.pool import ConnectionPool
from plait.client.connections.server_info import ServerInfo
from plait.client.connections.session import Session

logger = logging.getLogger("plait.client.calls")

_LIST_CALLBACKS: dict[ListKind, str] = {
    "tools": "on_tools_list_changed",
    "prompts": "on_prompts_list_changed",
    "resources": "on_resources_list_changed",
}


class Hearing:
    """Hears all servers of a client; lives in the loop that owns the connections.

    Callbacks run in the loop and the context in which it is made; when that loop has ended, in
    the owning one.
    """

    def __init__(
        self,
        callbacks: ServerCallbacks,
        bridge: LoopBridge,
        *,
        on_tools_changed: Callable[[str], None],
        on_resource_updated: Callable[[str, str], None],
    ) -> None:
        """Take who is told; the two functions are parts of the client itself, and come first."""
        self._callbacks = {
            name: bridge.bind_callback(callback, outlasting=True)
            for name, callback in callbacks.registered().items()
        }
        self._on_tools_changed = on_tools_changed
        self._on_resource_updated = on_resource_updated

    def listener(self, pool: ConnectionPool, *, follow_tools: bool = True) -> ChangeListener:
        """Make what listens to modern servers; `follow_tools` is the wish of the catalogue."""
        lists: set[ListKind] = {"tools"} if follow_tools else set()
        lists.update(kind for kind, name in _LIST_CALLBACKS.items() if name in self._callbacks)
        return ChangeListener(pool, lists, self._list_changed)

    def opened(self, pool: ConnectionPool, changes: ChangeListener, session: Session) -> None:
        """Tell of a new session, and have the server tell what is wanted of it."""
        server = session.wire.server
        self._tell("on_initialized", server, ServerInfo.of(session.client))
        if not self._callbacks.keys() & _LIST_CALLBACKS.values():
            return
        changes.begin(session)
        shared = pool.connections.get(server)
        if shared is not None and shared.session is session:
            # Whoever wants to hear of changes hears of none from a server that idles away.
            pool.start(partial(_keep_awake, session), name=f"plait hear {server}")

    async def message(self, server: str, message: IncomingMessage) -> None:
        """Act on a message that the SDK hands on."""
        match message:
            case types.ToolListChangedNotification():
                self._list_changed(server, "tools", message.params)
            case types.PromptListChangedNotification():
                self._list_changed(server, "prompts", message.params)
            case types.ResourceListChangedNotification():
                self._list_changed(server, "resources", message.params)
            case types.ResourceUpdatedNotification():
                self._on_resource_updated(server, str(message.params.uri))
                self._tell("on_resources_updated", server, message.params)
            case _:
                pass

    def untold(self, server: str, method: str, params: object) -> None:
        """Act on a notification that the SDK keeps to itself."""
        try:
            if method == "notifications/cancelled":
                cancelled = types.CancelledNotificationParams.model_validate(params)
                self._tell("on_cancelled", server, cancelled)
            elif method == "notifications/roots/list_changed":
                changed = params and types.NotificationParams.model_validate(params)
                self._tell("on_roots_list_changed", server, changed or None)
        except ValidationError as error:
            logger.debug("%s: %s makes no sense: %s", server, method, error)

    def logged(self, server: str, params: types.LoggingMessageNotificationParams) -> None:
        """Tell of a log message."""
        self._tell("on_message", server, params)

    def _list_changed(self, server: str, kind: ListKind, params: object = None) -> None:
        if kind == "tools":
            self._on_tools_changed(server)
        self._tell(_LIST_CALLBACKS[kind], server, params)

    def _tell(self, name: str, server: str, params: object) -> None:
        callback = self._callbacks.get(name)
        if callback is not None:
            callback(params, CallbackContext(server_name=server))


async def _keep_awake(session: Session) -> None:
    with session.listened_to():
        await session.ended.wait()
