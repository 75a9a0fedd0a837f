"""The parts of an open client, which event loop owns its connections, and for how long."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from pydantic import ValidationError

from plait._support import mcp_types as types
from plait._support.logs import show_debug_log
from plait.client.calls.call_routing import CallRouter, with_schema_defaults
from plait.client.calls.executor import CallSettings, ToolExecutor
from plait.client.calls.sampling import Sampling, SamplingRequests, sample_from_model
from plait.client.calls.tool_call import CallbackContext, ServerCallbacks, decline
from plait.client.catalog.catalog import CatalogOptions, ToolCatalog
from plait.client.connections.change_listener import ChangeListener, ListKind, Subscriptions
from plait.client.connections.connection import ConnectionPool
from plait.client.connections.credentials import CallerCredentials, without_run
from plait.client.connections.deadline import Deadline
from plait.client.connections.loop_bridge import LoopBridge
from plait.client.connections.operations import is_modern, set_log_level
from plait.client.connections.session_keeper import Session, SessionOptions
from plait.client.connections.status import Event, ServerInfo, Status
from plait.client.protocol.peer import RequestError
from plait.errors import ClientClosedError, PlaitError, ProtocolError

if TYPE_CHECKING:
    from plait.client.catalog.lock import LockReport
    from plait.client.config.servers import ServerConfig
    from plait.client.protocol.session import IncomingMessage, McpSession, OnElicitation

logger = logging.getLogger("plait.client.calls")

_LIST_CALLBACKS: dict[ListKind, str] = {
    "tools": "on_tools_list_changed",
    "prompts": "on_prompts_list_changed",
    "resources": "on_resources_list_changed",
}

P = ParamSpec("P")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """An item that a server lists, with the name of the server."""

    server: str
    item: T


class Runtime:
    """Connections, catalog and executor of one client; lives in the loop of the connections.

    Callbacks for notifications run in the loop and the context in which it is created; when that
    loop has ended, in the loop of the connections.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        bridge: LoopBridge,
        *,
        identity: SessionOptions,
        on_elicitation: Callable[[str], OnElicitation] | None = None,
        callbacks: ServerCallbacks | None = None,
        catalog_options: CatalogOptions | None = None,
        call_settings: CallSettings | None = None,
        sampling: Sampling | None = None,
        follow_tools: bool = True,
        watch: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Build the parts.

        `identity` is the same for every session; `on_elicitation` returns the callback for a
        server. With `follow_tools`, modern servers announce changes of their tools.
        """
        self._watch = watch
        self._identity = identity
        self._on_elicitation = on_elicitation
        self._callbacks = {
            name: bridge.bind_callback(callback, outlasting=True)
            for name, callback in (callbacks or ServerCallbacks()).registered().items()
        }
        router = CallRouter(lambda client: self.pool.sessions_of(client))  # noqa: PLW0108  # built below
        sanitize = catalog_options is None or catalog_options.sanitize
        self._sampling = (
            None if sampling is None else SamplingRequests(sampling, router, sanitize=sanitize)
        )
        self._server_sampling = {name: server.sampling for name, server in servers.items()}
        self.pool = ConnectionPool(
            {name: without_run(server) for name, server in servers.items()},
            self._session_options,
            on_opened=self._session_opened,
            observers=() if call_settings is None else call_settings.observers,
        )
        self.subscriptions = Subscriptions(self.pool)
        lists: set[ListKind] = {
            kind for kind, name in _LIST_CALLBACKS.items() if name in self._callbacks
        }
        if follow_tools:
            lists.add("tools")
        self._changes = ChangeListener(self.pool, frozenset(lists), self._list_changed)
        on_late = partial(self._notify, "on_tools_list_changed", params=None)
        self.catalog = ToolCatalog(self.pool, self._changes, catalog_options, on_late=on_late)
        self.executor = ToolExecutor(
            self.pool,
            self.catalog,
            bridge,
            call_settings,
            router=router,
            sample=None if sampling is None else partial(sample_from_model, sampling),
        )

    @property
    def elicits(self) -> bool:
        """Whether servers may send elicitation requests."""
        return self._on_elicitation is not None

    async def add_server(self, name: str, server: ServerConfig) -> None:
        """Add a server, or replace the one of that name."""
        if name in self.pool.connections:
            await self.remove_server(name, keep_subscriptions=True)
        self._server_sampling[name] = server.sampling
        self.pool.add(name, without_run(server))

    def begin(self) -> None:
        """Start what goes on while the client is open."""
        self.pool.tasks.open()
        if self._watch is not None:
            self.pool.tasks.start(self._watch, name="plait watch")
            self._watch = None

    async def announce_roots(self) -> None:
        """Tell servers that the roots have changed; those of the modern era ask in each call."""
        for connection in self.pool.connections.values():
            session = connection.keeper.session
            if session is not None and not is_modern(session.client):
                with suppress(RequestError, PlaitError):
                    await session.client.send_roots_list_changed()

    def replace_server(self, name: str, server: ServerConfig | None) -> None:
        """Add, replace or remove a server; calls under way end where they began."""
        if name in self.pool.connections:
            if server is None:
                self.subscriptions.drop(name)
            self.catalog.drop(name)
            self.pool.retire(name)
        if server is not None:
            self._server_sampling[name] = server.sampling
            self.pool.add(name, without_run(server))

    async def remove_server(self, name: str, *, keep_subscriptions: bool = False) -> None:
        """Close a server's connections, and drop its tools and subscriptions."""
        if not keep_subscriptions:
            self.subscriptions.drop(name)
        self.catalog.drop(name)
        await self.pool.remove(name)

    async def ready(self, timeout_seconds: float | None) -> Status:
        """Open every connection, and wait until each is ready or has failed, up to the timeout."""
        tasks = {
            asyncio.ensure_future(connection.keeper.wait_for_session()): connection
            for connection in self.pool.connections.values()
        }
        _, unfinished = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in unfinished:
            task.cancel()
        for task, connection in tasks.items():
            if task in unfinished:
                error = connection.keeper.not_ready_error(timeout_seconds or 0)
            else:
                error = task.exception()
            if error is not None and (
                connection.server.required or not isinstance(error, PlaitError)
            ):
                raise error
        return self.pool.status()

    async def request(
        self,
        server: str,
        operation: Callable[[McpSession], Awaitable[T]],
        method: str,
        *,
        access: CallerCredentials | None = None,
    ) -> T:
        """Make a request that changes nothing, so it may be sent again."""
        connection = self.pool.connection(server, access)
        deadline = Deadline(connection.server.timeouts.read_seconds, setting="read_timeout")
        return (await connection.read(operation, deadline, method=method)).value

    async def list_items(
        self,
        servers: Sequence[str],
        operation: Callable[[McpSession], Awaitable[list[T]]],
        method: str,
        *,
        required: bool,
    ) -> list[Listed[T]]:
        """List the items of several servers; without `required`, servers that fail are skipped."""

        async def list_of(server: str) -> list[T]:
            connection = self.pool[server]
            deadline = Deadline(connection.server.timeouts.list_seconds, setting="list_timeout")
            try:
                return (await connection.read(operation, deadline, method=method)).value
            except ProtocolError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return []  # it has none
                raise

        answers = await asyncio.gather(*map(list_of, servers), return_exceptions=True)
        items: list[Listed[T]] = []
        for name, answer in zip(servers, answers, strict=True):
            if not isinstance(answer, BaseException):
                items += [Listed(name, item) for item in answer]
            elif required or not isinstance(answer, PlaitError):
                raise answer
        return items

    async def set_logging_level(
        self, servers: Iterable[str], level: types.LoggingLevel, *, required: bool
    ) -> None:
        """Request log messages from this level on; modern servers get the level with each call.

        A server without a session gets the level with its next one, unless it is `required` now.
        """
        names = list(servers)
        for name in names:
            self.pool.set_log_level(name, level)
            self.executor.log_levels[name] = level
        for name in names:
            keeper = self.pool[name].keeper
            session = await keeper.wait_for_session() if required else keeper.ready_session
            if session is not None and not is_modern(session.client):
                await self.request(name, partial(set_log_level, level=level), "logging/setLevel")

    def _session_options(self, server: str) -> SessionOptions:
        """Return the identity and the callbacks that a session with a server has."""
        options = replace(self._identity)
        options.on_log = partial(self._log_sent, server, options)
        options.on_message = partial(self._message_sent, server)
        options.on_notification = partial(self._notification_sent, server)
        if self._on_elicitation is not None:
            default = self._on_elicitation(server)
            options.on_elicitation = partial(self._answer_elicitation, default)
            options.answers = default is not decline
        requests = self._sampling
        if requests is not None and requests.sampling.may_sample(
            server, own=self._server_sampling.get(server)
        ):
            options.on_sampling = partial(requests.answer, server)
            options.sampling_tools = requests.sampling.allow_tools
            options.answers = True
        return options

    async def _answer_elicitation(
        self, default: OnElicitation, context: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Route an elicitation to the call it belongs to, or to `default`."""
        answer = await self.executor.router.answer_elicitation(context, params, default)
        return with_schema_defaults(params, answer)

    async def _log_sent(
        self, server: str, source: object, params: types.LoggingMessageNotificationParams
    ) -> None:
        """Route a log message to the call it belongs to, or to the client's callback."""
        if not self.executor.router.dispatch_log(server, source, params):
            self._notify("on_message", server, params)

    async def _message_sent(self, server: str, message: IncomingMessage) -> None:
        """Dispatch a notification that a session passes on."""
        if isinstance(message, types.ToolListChangedNotification):
            self._list_changed(server, "tools", message.params)
        elif isinstance(message, types.PromptListChangedNotification):
            self._list_changed(server, "prompts", message.params)
        elif isinstance(message, types.ResourceListChangedNotification):
            self._list_changed(server, "resources", message.params)
        elif isinstance(message, types.ResourceUpdatedNotification):
            self.subscriptions.resource_updated(server, str(message.params.uri))
            self._notify("on_resources_updated", server, message.params)
        elif isinstance(message, types.ElicitCompleteNotification):
            self._notify("on_elicitation_complete", server, message.params)

    def _notification_sent(self, server: str, method: str, params: object) -> None:
        """Dispatch a notification that a session does not pass on, or not as early."""
        try:
            if method == "notifications/tools/list_changed":
                self._forget_tools(server)
            elif method == "notifications/cancelled":
                cancelled = types.CancelledNotificationParams.model_validate(params)
                self._notify("on_cancelled", server, cancelled)
            elif method == "notifications/roots/list_changed":
                changed = params and types.NotificationParams.model_validate(params)
                self._notify("on_roots_list_changed", server, changed or None)
        except ValidationError as error:
            logger.debug("%s: invalid params of %s: %s", server, method, error)

    def _list_changed(self, server: str, kind: ListKind, params: object = None) -> None:
        if kind == "tools":
            self._forget_tools(server)
            if self.catalog.options.may_wait(self.pool[server].server):
                forget = partial(self.catalog.forget_stored, server)
                self.pool.tasks.start(forget, name=f"plait forget {server}")
        self._notify(_LIST_CALLBACKS[kind], server, params)

    def _forget_tools(self, server: str) -> None:
        """Forget what is out of date; also outside of a task, where bytes arrive."""
        self.catalog.forget(server)
        if self.executor.results is not None:
            self.executor.results.forget(server)

    def _notify(self, name: str, server: str, params: object) -> None:
        """Call a callback of the user, if there is one of that name."""
        callback = self._callbacks.get(name)
        if callback is not None:
            callback(params, CallbackContext(server_name=server))

    def _session_opened(self, session: Session) -> None:
        server = session.wire.server
        self._notify("on_initialized", server, ServerInfo.of(session.client))
        if self._callbacks.keys() & _LIST_CALLBACKS.values():
            self._changes.begin(session)
            shared = self.pool.connections.get(server)
            if shared is not None and shared.keeper.session is session:

                async def keep_open() -> None:
                    # A session that is closed when idle would announce nothing.
                    with session.listened_to():
                        await session.ended.wait()

                self.pool.tasks.start(keep_open, name=f"plait listen {server}")
        self.catalog.session_opened(server)


class Lifecycle:
    """Owns the runtime of a client, and runs work in the event loop that its connections live in.

    That is the caller's loop after `use_current_loop`; otherwise a loop in a thread of its own,
    started on first use.
    """

    def __init__(self, build: Callable[[LoopBridge], Runtime]) -> None:
        """Take the function that builds the runtime.

        It must not refer to this object, or an unclosed client is never garbage-collected.
        """
        show_debug_log()
        self._build = build
        self.closed = False
        """Whether the client was closed."""
        self._start()
        _lifecycles.add(self)

    def _start(self) -> None:
        self.bridge = LoopBridge()
        self.runtime = self._build(self.bridge)
        # Ends the child processes of a client that is dropped without `close`. It runs wherever
        # garbage is collected, also in the event loop of the user, so it waits for nothing.
        self._finalizer = weakref.finalize(self, self.bridge.forget)

    def begin_in_fork(self) -> None:
        """Open connections of its own in a process that was forked from the one that had them."""
        self._finalizer.detach()
        # Kept for good: the objects would close what belongs to the other process.
        _inherited.append((self.bridge, self.runtime))
        self._start()

    async def use_current_loop(self) -> None:
        """Move the connections to the running loop, closing those that are open elsewhere."""
        self.check_open()
        if self.bridge.started:
            await self._shut_down()
        self.bridge.use_current_loop()
        # Rebuilt, so that callbacks run in this loop and this context.
        self.runtime = self._build(self.bridge)

    async def aclose(self) -> None:
        """Close every connection."""
        self.closed = True
        if self.bridge.started:
            await self._shut_down()

    def close(self) -> None:
        """Blocking form of `aclose`."""
        self.closed = True
        if not self.bridge.started:
            return
        if (loop := self.bridge.stopped_loop()) is not None:
            if not loop.is_closed():
                loop.run_until_complete(self.runtime.pool.close())
            return  # what ends a loop has ended its tasks, and with them the connections
        self.bridge.run_blocking(self.runtime.pool.close)
        self.bridge.stop()

    async def _shut_down(self) -> None:
        if self.bridge.stopped_loop() is not None:
            await asyncio.to_thread(self.close)
            return
        await self.bridge.run(self.runtime.pool.close)
        await self.bridge.astop()

    def check_open(self) -> None:
        """Raise `ClientClosedError` after the client was closed."""
        if self.closed:
            raise ClientClosedError("the client is closed; its tools can no longer be called")

    async def open(self) -> Runtime:
        """Return the runtime, usable for calls; no server is contacted."""
        self.check_open()
        if not self.runtime.pool.tasks.opened:
            await self.run(lambda _: asyncio.sleep(0))
        return self.runtime

    async def run(self, work: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the open runtime, in the loop that owns it."""
        self.check_open()

        async def run() -> T:
            self.check_open()
            self.runtime.begin()
            return await work(self.runtime)

        return await self.bridge.run(run)

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function in the owning loop, and block until it is done."""
        self.check_open()
        return self.bridge.run_blocking(work, *args, **kwargs)


_lifecycles: weakref.WeakSet[Lifecycle] = weakref.WeakSet()
_inherited: list[object] = []


def _begin_in_fork() -> None:
    for lifecycle in tuple(_lifecycles):
        lifecycle.begin_in_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    # The thread of the connections does not exist in the new process: calls would wait for ever.
    os.register_at_fork(after_in_child=_begin_in_fork)


class ConnectionOwner:
    """Base of clients: opens and closes their connections, and calls methods without a loop."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle

    async def __aenter__(self) -> Self:
        await self.lifecycle.use_current_loop()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self.lifecycle.check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection; tools raise `ClientClosedError` from now on."""
        await self.lifecycle.aclose()

    def close(self) -> None:
        """Blocking form of `aclose`."""
        self.lifecycle.close()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an async method of this client, and block until it is done."""
        return self.lifecycle.run_blocking(work, *args, **kwargs)

    def status(self) -> Status:
        """Return the state of every server, without contacting any."""
        return self.lifecycle.runtime.pool.status()

    def events(self) -> tuple[Event, ...]:
        """Return recent connection events, as in `status()`; the last is the newest."""
        return self.lifecycle.runtime.pool.events

    async def forget(self, thread_id: str) -> None:
        """Close the sessions that belong to one conversation (`scope: thread`)."""
        await self.lifecycle.run(lambda runtime: runtime.pool.forget_thread(str(thread_id)))

    def lock_report(self) -> LockReport:
        """Compare the tools listed so far with the lockfile, without contacting servers."""
        return self.lifecycle.runtime.catalog.lock_report()
