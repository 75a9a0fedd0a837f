"""What servers offer besides tools: resources, prompts, completion, logs, signs of life."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import mcp_types as types
from mcp import Client

from plait.client.config.read import ClientConfig
from plait.client.connections import operations
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.pool import unknown_server
from plait.client.connections.server_info import ServerInfo
from plait.client.connections.status import Event, Status
from plait.client.lifecycle import ClientLife
from plait.client.resource_watch import ResourceWatch
from plait.client.runtime import Core
from plait.client.subscriptions import Subscription
from plait.errors import PlaitError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Something a server lists, and which server it was."""

    server: str
    item: T


class ServerFeatures(ClientLife):
    """Asks the servers of a client for everything but tools."""

    config: ClientConfig

    @property
    def server_names(self) -> tuple[str, ...]:
        """The configured servers, in their order."""
        return tuple(self.config.servers)

    def status(self) -> Status:
        """Say how every server stands now, without contacting any."""
        return self._core.pool.status()

    def events(self) -> tuple[Event, ...]:
        """Return what happened to connections lately, as in `status()`; the last is the newest."""
        return self._core.pool.events

    async def ready(self, timeout_seconds: float | None = None) -> Status:
        """Open every server, and wait until each is ready or has failed, or the time is over.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        return await self._on_owner(lambda core: core.ready(timeout_seconds))

    def ready_blocking(self, timeout_seconds: float | None = None) -> Status:
        """Do what `ready` does, and block until it is done."""
        return self.run_blocking(self.ready, timeout_seconds)

    async def resources(self, *servers: str) -> list[Listed[types.Resource]]:
        """List the resources of these servers, or of all; those that offer none are left out."""
        return await self._listed(servers, operations.list_resources, "resources/list")

    async def resource_templates(self, *servers: str) -> list[Listed[types.ResourceTemplate]]:
        """List the resource templates of these servers, or of all."""
        return await self._listed(
            servers, operations.list_resource_templates, "resources/templates/list"
        )

    async def prompts(self, *servers: str) -> list[Listed[types.Prompt]]:
        """List the prompts of these servers, or of all; those that offer none are left out."""
        return await self._listed(servers, operations.list_prompts, "prompts/list")

    async def read(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource.

        Raises:
            ResourceNotFoundError: The server has no such resource.
        """
        return await self._ask(
            server, lambda c: c.read_resource(uri), "resources/read", access=access
        )

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        filled = None if arguments is None else dict(arguments)
        return await self._ask(server, lambda c: c.get_prompt(name, filled), "prompts/get")

    async def complete(
        self,
        server: str,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask the server how an argument of a prompt or a template may go on."""
        known = None if context is None else dict(context)
        return await self._ask(
            server, lambda c: c.complete(ref, dict(argument), known), "completion/complete"
        )

    async def subscribe(
        self, server: str, uri: str, on_update: Callable[[str], Awaitable[None] | None]
    ) -> Subscription:
        """Have `on_update` called with the URI whenever the resource changes, or may have.

        The subscription outlives restarts of the server; `cancel()` on it ends it.
        """
        subscription = Subscription(server, uri, self._bridge.bind_callback(on_update))
        await self.follow(subscription)
        return subscription

    def watch_resource(
        self, server: str, uri: str, *more_uris: str, read: bool = False
    ) -> ResourceWatch:
        """Follow resources: `async for update in box.watch_resource("server", uri): ...`.

        An update comes whenever one of them has changed, and after a restart of the server, when
        it may have. With `read`, updates have the contents, and the first comes at once. As
        `async with box.watch_resource(...) as updates` the subscription begins and ends with the
        block; see `ResourceWatch`.
        """
        return ResourceWatch(server, (uri, *more_uris), self.follow, self.read if read else None)

    async def follow(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until the server has agreed.

        Raises:
            PlaitError: The server cannot be reached, or refuses.
        """
        self.check_names([subscription.server])
        try:
            await self._on_owner(lambda core: core.subscriptions.add(subscription))
        except BaseException:
            subscription.cancel()
            raise

    async def set_log_level(self, level: types.LoggingLevel, *servers: str) -> None:
        """Say from which level on servers shall send log messages; servers without logs are left.

        Modern servers take it with each request, so it holds from their next session on.
        """
        self.check_names(servers)

        names = servers or self.server_names
        await self._on_owner(lambda core: core.set_log_level(names, level))

    async def server_info(self, server: str) -> ServerInfo:
        """Return who the server says it is, what it can do, and its instructions."""
        self.check_names([server])

        async def work(core: Core) -> ServerInfo:
            session = await core.pool[server].wait_for_session()
            return ServerInfo.of(session.client)

        return await self._on_owner(work)

    async def ping(self, server: str) -> float:
        """Measure one cheap round trip to the server, in seconds."""
        return await self._ask(server, operations.ping, "ping")

    async def health(self) -> Mapping[str, PlaitError | None]:
        """Ask every server for a sign of life; `None` stands for a healthy one."""

        async def look(name: str) -> PlaitError | None:
            try:
                await self.ping(name)
            except PlaitError as error:
                return error
            return None

        answers = await asyncio.gather(*(look(name) for name in self.server_names))
        return dict(zip(self.server_names, answers, strict=True))

    async def reconnect(self, server: str) -> None:
        """Drop the server's session, and forget that it failed; the next call opens another."""
        self.check_names([server])

        async def work(core: Core) -> None:
            core.pool[server].reconnect()

        await self._on_owner(work)

    async def _listed(
        self,
        servers: Sequence[str],
        operation: Callable[[Client], Awaitable[list[T]]],
        method: str,
    ) -> list[Listed[T]]:
        """List something of several servers; one that was not named may fail."""
        self.check_names(servers)

        async def work(core: Core) -> list[Listed[T]]:
            names = servers or self.server_names
            answers = await asyncio.gather(
                *(core.listed(name, operation, method) for name in names), return_exceptions=True
            )
            found: list[Listed[T]] = []
            for name, answer in zip(names, answers, strict=True):
                if not isinstance(answer, BaseException):
                    found += [Listed(name, item) for item in answer]
                elif servers or not isinstance(answer, PlaitError):
                    raise answer
            return found

        return await self._on_owner(work)

    async def _ask(
        self,
        server: str,
        operation: Callable[[Client], Awaitable[T]],
        method: str,
        *,
        access: CallerCredentials | None = None,
    ) -> T:
        self.check_names([server])

        async def work(core: Core) -> T:
            return await core.ask(server, operation, method, access=access)

        return await self._on_owner(work)

    def check_names(self, servers: Iterable[str]) -> None:
        """Refuse names of servers that are not configured.

        Raises:
            UnknownServerError: There is no such server.
        """
        for name in servers:
            if name not in self.config.servers:
                raise unknown_server(name, self.config.servers)
