"""The parts of an open client, built together in the loop that owns them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp_types import (
    METHOD_NOT_FOUND,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    LoggingLevel,
    LoggingMessageNotificationParams,
)

from plait.client.calls.call_routing import CallRouter, with_schema_defaults
from plait.client.calls.callbacks import ServerCallbacks
from plait.client.calls.executor import CallSettings, ToolExecutor
from plait.client.calls.sampling import Sampling
from plait.client.catalog.catalog import ToolCatalog
from plait.client.catalog.options import CatalogOptions
from plait.client.config.servers import ServerConfig
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.deadline import Deadline
from plait.client.connections.loop_bridge import LoopBridge
from plait.client.connections.opening import SessionOptions, set_log_level
from plait.client.connections.operations import is_modern
from plait.client.connections.pool import ConnectionPool
from plait.client.connections.session import Session
from plait.client.connections.status import Status
from plait.client.notifications import Hearing
from plait.client.run_identity import without_run
from plait.client.sampling_requests import SamplingDesk, ask_model
from plait.client.subscriptions import Subscriptions
from plait.errors import PlaitError, ProtocolError

T = TypeVar("T")


class Core:
    """Connections, catalogue and executor of one client."""

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        bridge: LoopBridge,
        *,
        options_for: Callable[[str], SessionOptions],
        callbacks: ServerCallbacks | None = None,
        options: CatalogOptions | None = None,
        call_settings: CallSettings | None = None,
        sampling: Sampling | None = None,
        follow_tools: bool = True,
    ) -> None:
        """Take the servers, and what the client wants of them.

        Without `follow_tools`, modern servers are not asked to announce changes of their tools.
        """
        self._options_for = options_for
        router = CallRouter()
        self._desk = None if sampling is None else SamplingDesk(sampling, router)
        self._own_sampling = {name: server.sampling for name, server in servers.items()}
        common = {name: without_run(server) for name, server in servers.items()}
        self.pool = ConnectionPool(common, self._options, on_opened=self._session_opened)
        self.subscriptions = Subscriptions(self.pool)
        self._hearing = Hearing(
            callbacks or ServerCallbacks(),
            bridge,
            on_tools_changed=self._tools_changed,
            on_resource_updated=self.subscriptions.updated,
        )
        self._changes = self._hearing.listener(self.pool, follow_tools=follow_tools)
        self.catalog = ToolCatalog(self.pool, self._changes, options)
        self.executor = ToolExecutor(
            self.pool,
            self.catalog,
            bridge,
            call_settings,
            router=router,
            sample=None if sampling is None else partial(ask_model, sampling),
        )

    @property
    def opened(self) -> bool:
        """Whether everything is usable."""
        return self.pool.opened

    def open(self) -> None:
        """Make everything usable; no server is contacted."""
        self.pool.open()

    async def close(self) -> None:
        """Close every connection."""
        await self.pool.close()

    async def add(self, name: str, server: ServerConfig) -> None:
        """Take one more server; one of the same name is closed first."""
        if name in self.pool.connections:
            await self._close(name)
        self._own_sampling[name] = server.sampling
        self.pool.add(name, without_run(server))

    async def remove(self, name: str) -> None:
        """Close a server's connections, and forget its tools and who follows its resources."""
        self.subscriptions.drop(name)
        await self._close(name)

    async def _close(self, name: str) -> None:
        self.catalog.drop(name)
        await self.pool.remove(name)

    async def ready(self, timeout_seconds: float | None) -> Status:
        """Open every connection, and wait for all of them at most so long.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        opening = {
            asyncio.ensure_future(connection.wait_for_session()): connection
            for connection in self.pool.connections.values()
        }
        _, late = await asyncio.wait(opening, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        for task, connection in opening.items():
            if task in late:
                error = connection.not_ready_within(timeout_seconds or 0)
            else:
                error = task.exception()
            if error is not None and (
                connection.server.required or not isinstance(error, PlaitError)
            ):
                raise error
        return self.pool.status()

    async def ask(
        self,
        server: str,
        operation: Callable[[Client], Awaitable[T]],
        method: str,
        *,
        access: CallerCredentials | None = None,
    ) -> T:
        """Make a request that changes nothing."""
        connection = self.pool.connection(server, access)
        deadline = Deadline(connection.server.timeouts.read_seconds, setting="read_timeout")
        return await connection.ask(operation, deadline, method=method)

    async def listed(
        self, server: str, operation: Callable[[Client], Awaitable[list[T]]], method: str
    ) -> list[T]:
        """List something; a server that does not know the method has nothing of it."""
        connection = self.pool[server]
        deadline = Deadline(connection.server.timeouts.list_seconds, setting="list_timeout")
        try:
            return await connection.ask(operation, deadline, method=method)
        except ProtocolError as error:
            if error.code == METHOD_NOT_FOUND:
                return []
            raise

    async def set_log_level(self, servers: Iterable[str], level: LoggingLevel) -> None:
        """Ask for log messages; modern servers are asked with each call."""
        self.executor.log_level = level
        for name in servers:
            session = await self.pool[name].wait_for_session()
            if not is_modern(session.client):
                await self.ask(name, partial(set_log_level, level=level), "logging/setLevel")

    def _tools_changed(self, server: str) -> None:
        self.catalog.forget(server)
        if self.catalog.options.may_wait(self.pool[server].server):
            self.pool.start(
                partial(self.catalog.forget_stored, server), name=f"plait forget {server}"
            )
        if self.executor.results is not None:
            self.executor.results.forget(server)

    def _options(self, server: str) -> SessionOptions:
        options = self._options_for(server)
        # Connections are made before there is anybody to hear them.
        options.on_message = lambda message: self._hearing.message(server, message)
        options.on_notification = lambda method, params: self._hearing.untold(
            server, method, params
        )
        options.on_log = partial(self._logged, server)
        if options.on_elicitation is not None:
            options.on_elicitation = self._answering(options.on_elicitation)
        if self._desk is not None:
            own = self._own_sampling.get(server)
            if self._desk.sampling.may_sample(server, own=own):
                options.on_sampling = self._desk.for_server(server)
                options.sampling_tools = self._desk.sampling.allow_tools
        return options

    def _answering(self, otherwise: ElicitationFnT) -> ElicitationFnT:
        """Have a question answered where the call was made that it must belong to."""

        async def answer(
            context: ClientRequestContext, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            answered = await self.executor.router.answer_elicitation(context, params, otherwise)
            return with_schema_defaults(params, answered)

        return answer

    async def _logged(self, server: str, params: LoggingMessageNotificationParams) -> None:
        """Pass a log message on to the call it must belong to, or else to the whole client."""
        if not self.executor.router.dispatch_log(server, params):
            self._hearing.logged(server, params)

    def _session_opened(self, session: Session) -> None:
        self._hearing.opened(self.pool, self._changes, session)
