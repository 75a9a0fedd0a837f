"""The parts of an open client: connections, catalog, executor, notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import mcp_types as types

from plait.client.calls.call_routing import CallRouter, with_schema_defaults
from plait.client.calls.callbacks import ServerCallbacks, decline
from plait.client.calls.executor import CallSettings, ToolExecutor
from plait.client.catalog.catalog import ToolCatalog
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import is_modern, set_log_level
from plait.client.connections.pool import ConnectionPool
from plait.client.connections.session_options import SessionOptions
from plait.client.notifications import NotificationDispatcher
from plait.client.run_identity import without_run
from plait.client.sampling_requests import SamplingRequests, sample_from_model
from plait.client.subscriptions import Subscriptions
from plait.errors import PlaitError, ProtocolError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientRequestContext, ClientSession
    from mcp.client.session import ElicitationFnT

    from plait.client.calls.sampling import Sampling
    from plait.client.catalog.options import CatalogOptions
    from plait.client.config.servers import ServerConfig
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.session import Session
    from plait.client.connections.status import Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """An item that a server lists, with the name of the server."""

    server: str
    item: T


class Runtime:
    """Connections, catalog and executor of one client; lives in the loop of the connections."""

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        bridge: LoopBridge,
        *,
        identity: SessionOptions,
        on_elicitation: Callable[[str], ElicitationFnT] | None = None,
        callbacks: ServerCallbacks | None = None,
        catalog_options: CatalogOptions | None = None,
        call_settings: CallSettings | None = None,
        sampling: Sampling | None = None,
        follow_tools: bool = True,
    ) -> None:
        """Build the parts.

        `identity` is the same for every session; `on_elicitation` returns the callback for a
        server. With `follow_tools`, modern servers announce changes of their tools.
        """
        self._identity = identity
        self._on_elicitation = on_elicitation
        router = CallRouter(self._has_direct_calls)
        self._sampling = None if sampling is None else SamplingRequests(sampling, router)
        self._server_sampling = {name: server.sampling for name, server in servers.items()}
        shared = {name: without_run(server) for name, server in servers.items()}
        self.pool = ConnectionPool(shared, self._session_options, on_opened=self._session_opened)
        self.subscriptions = Subscriptions(self.pool)
        self._notifications = NotificationDispatcher(
            callbacks or ServerCallbacks(),
            bridge,
            on_tools_changed=self._tools_changed,
            on_resource_updated=self.subscriptions.resource_updated,
        )
        self._changes = self._notifications.listener(self.pool, follow_tools=follow_tools)
        on_late = partial(self._notifications.notify, "on_tools_list_changed", params=None)
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
            await self._close_server(name)
        self._server_sampling[name] = server.sampling
        self.pool.add(name, without_run(server))

    async def remove_server(self, name: str) -> None:
        """Close a server's connections, and drop its tools and subscriptions."""
        self.subscriptions.drop(name)
        await self._close_server(name)

    async def _close_server(self, name: str) -> None:
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
        operation: Callable[[Client], Awaitable[T]],
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
        operation: Callable[[Client], Awaitable[list[T]]],
        method: str,
        *,
        required: bool,
    ) -> list[Listed[T]]:
        """List the items of several servers; without `required`, servers that fail are skipped."""
        answers = await asyncio.gather(
            *(self._list_of(name, operation, method) for name in servers), return_exceptions=True
        )
        items: list[Listed[T]] = []
        for name, answer in zip(servers, answers, strict=True):
            if not isinstance(answer, BaseException):
                items += [Listed(name, item) for item in answer]
            elif required or not isinstance(answer, PlaitError):
                raise answer
        return items

    async def _list_of(
        self, server: str, operation: Callable[[Client], Awaitable[list[T]]], method: str
    ) -> list[T]:
        """List the items of a server; one that does not know the method has none."""
        connection = self.pool[server]
        deadline = Deadline(connection.server.timeouts.list_seconds, setting="list_timeout")
        try:
            return (await connection.read(operation, deadline, method=method)).value
        except ProtocolError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return []
            raise

    async def set_logging_level(self, servers: Iterable[str], level: types.LoggingLevel) -> None:
        """Request log messages from this level on; modern servers get the level with each call."""
        self.executor.log_level = level
        for name in servers:
            session = await self.pool[name].keeper.wait_for_session()
            if not is_modern(session.client):
                await self.request(name, partial(set_log_level, level=level), "logging/setLevel")

    def _tools_changed(self, server: str) -> None:
        self.catalog.forget(server)
        if self.catalog.options.may_wait(self.pool[server].server):
            self.pool.start(
                partial(self.catalog.forget_stored, server), name=f"plait forget {server}"
            )
        if self.executor.results is not None:
            self.executor.results.forget(server)

    def _session_options(self, server: str) -> SessionOptions:
        """Return the identity and the callbacks that a session with a server has."""
        options = replace(self._identity, on_log=partial(self._logged, server))
        # Late: the pool is built before the dispatcher.
        options.on_message = lambda message: self._notifications.message(server, message)
        options.on_notification = lambda method, params: self._notifications.raw(
            server, method, params
        )
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

    def _has_direct_calls(self, client: ClientSession) -> bool:
        return any(session.wire.direct_calls for session in self.pool.sessions_of(client))

    async def _answer_elicitation(
        self,
        default: ElicitationFnT,
        context: ClientRequestContext,
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        """Route an elicitation to the call it belongs to, or to `default`."""
        answer = await self.executor.router.answer_elicitation(context, params, default)
        return with_schema_defaults(params, answer)

    async def _logged(self, server: str, params: types.LoggingMessageNotificationParams) -> None:
        """Route a log message to the call it belongs to, or to the client's callback."""
        if not self.executor.router.dispatch_log(server, params):
            self._notifications.notify("on_message", server, params)

    def _session_opened(self, session: Session) -> None:
        self._notifications.session_opened(self.pool, self._changes, session)
        self.catalog.session_opened(session.wire.server)
