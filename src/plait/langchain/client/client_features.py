"""What the LangChain client has besides tools: its life, and the servers' other offers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

import mcp_types as types
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage
from mcp.client import ClientSession

from plait.client.calls.outcome import ToolResult
from plait.client.catalog.lock.guard import LockReport
from plait.client.config.read import ClientConfig
from plait.client.connections.server_info import ServerFacts
from plait.client.connections.status import Status
from plait.client.features import Listed
from plait.client.resource_watch import ResourceWatch
from plait.client.server_handle import ServerHandle
from plait.client.subscriptions import Subscription
from plait.client.toolbox import Toolbox
from plait.errors import ConnectError, PlaitError
from plait.langchain.client.prompts import load_mcp_prompt
from plait.langchain.client.resources import convert_mcp_resource_to_langchain_blob
from plait.langchain.client.server_list import Roster
from plait.langchain.client.sessions import create_session, opened_session
from plait.langchain.tools.callbacks import CallbackContext, Callbacks

P = ParamSpec("P")
T = TypeVar("T")


class ClientFeatures:
    """Opens and closes the servers of a client, and asks them for everything but tools."""

    callbacks: Callbacks
    _roster: Roster
    _toolbox: Toolbox

    @property
    def connections(self) -> dict[str, Any]:
        """The servers; one that is added, changed or taken away here is so from the next use on."""
        return self._roster.connections

    @property
    def config(self) -> ClientConfig:
        """The configuration as it was read."""
        return self._toolbox.config

    @property
    def toolbox(self) -> Toolbox:
        """The same servers without LangChain."""
        return self._toolbox

    def status(self) -> Status:
        """Say how every server stands now, without contacting any."""
        return self._toolbox.status()

    def lock_report(self) -> LockReport:
        """Say how the tools that were listed so far stand to the lockfile; contacts nobody."""
        return self._toolbox.lock_report()

    async def ready(self, timeout_seconds: float | None = None) -> Status:
        """Open every server, and wait until each is ready or has failed, or the time is over.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        await self._synced()
        return await self._toolbox.ready(timeout_seconds)

    @asynccontextmanager
    async def session(
        self, server_name: str, *, auto_initialize: bool = True
    ) -> AsyncGenerator[ClientSession]:
        """Open a session of its own with a server; it is closed when the block ends.

        For `load_mcp_tools` and for calls by hand. The connection behind `get_tools` is another.
        """
        await self._synced()
        self._toolbox.check_names([server_name])
        context = CallbackContext(server_name=server_name)
        told = self.callbacks.to_mcp_format(context=context)
        server = self._toolbox.config.servers[server_name]
        if auto_initialize:
            async with opened_session(server_name, server, mcp_callbacks=told) as session:
                yield session
        else:
            async with create_session(server, mcp_callbacks=told) as session:
                yield session

    async def get_client(self, server_name: str) -> ServerHandle:
        """Return one server, to be asked with the methods of the MCP SDK's client; it heals."""
        await self._synced()
        self._toolbox.check_names([server_name])
        return ServerHandle(self._toolbox, server_name)

    async def get_server_info(self, *, server_name: str | None = None) -> dict[str, ServerFacts]:
        """Return who the servers say they are, what they can do, and their instructions.

        Raises:
            PlaitError: One of them cannot be reached.
        """
        await self._synced()
        found: dict[str, ServerFacts] = {}
        failed: dict[str, PlaitError] = {}
        for name in [server_name] if server_name else self._toolbox.server_names:
            try:
                found[name] = await self._toolbox.server_info(name)
            except ConnectError as error:
                failed[name] = error
        if failed:
            raise ServerInfoError(failed)
        return found

    async def get_prompt(
        self, server_name: str, prompt_name: str, *, arguments: Mapping[str, Any] | None = None
    ) -> list[HumanMessage | AIMessage]:
        """Fill in a prompt of a server, as messages."""
        client = await self.get_client(server_name)
        return await load_mcp_prompt(client, prompt_name, arguments=arguments)

    async def get_resources(
        self, server_name: str | None = None, *, uris: str | Sequence[str] | None = None
    ) -> list[Blob]:
        """Read resources: those with these URIs, or all that are listed, of one server or of all.

        Raises:
            PlaitError: One of them cannot be read.
        """
        await self._synced()
        named = [server_name] if server_name else []
        if uris is None:
            listed = await self._toolbox.resources(*named)
            wanted = [(one.server, str(one.item.uri)) for one in listed]
        else:
            addresses = [uris] if isinstance(uris, str) else list(uris)
            servers = named or list(self._toolbox.server_names)
            wanted = [(server, uri) for server in servers for uri in addresses]
        blobs: list[Blob] = []
        for server, uri in wanted:
            result = await self._toolbox.read(server, uri)
            blobs += [convert_mcp_resource_to_langchain_blob(uri, one) for one in result.contents]
        return blobs

    async def list_resources(self, *servers: str) -> list[Listed[types.Resource]]:
        """List the resources of these servers, or of all."""
        await self._synced()
        return await self._toolbox.resources(*servers)

    async def list_resource_templates(self, *servers: str) -> list[Listed[types.ResourceTemplate]]:
        """List the resource templates of these servers, or of all."""
        await self._synced()
        return await self._toolbox.resource_templates(*servers)

    async def list_prompts(self, *servers: str) -> list[Listed[types.Prompt]]:
        """List the prompts of these servers, or of all."""
        await self._synced()
        return await self._toolbox.prompts(*servers)

    async def read_resource(self, server_name: str, uri: str) -> types.ReadResourceResult:
        """Read one resource."""
        await self._synced()
        return await self._toolbox.read(server_name, uri)

    def watch_resource(
        self, server_name: str, uri: str, *more_uris: str, read: bool = False
    ) -> ResourceWatch:
        """Follow resources: `async for update in client.watch_resource("server", uri): ...`.

        An update comes whenever one of them has changed, and after a restart of the server, when
        it may have. With `read`, updates have the contents, and the first comes at once. As
        `async with client.watch_resource(...) as updates` the subscription begins and ends with
        the block; see `ResourceWatch`.
        """
        read_now = self.read_resource if read else None
        return ResourceWatch(server_name, (uri, *more_uris), self._follow, read_now)

    async def _follow(self, subscription: Subscription) -> None:
        await self._synced()
        await self._toolbox.follow(subscription)

    async def set_logging_level(self, *server_and_level: str) -> None:
        """Say from which level on servers send log messages: `(level)`, or `(server, level)`."""
        await self._synced()
        *servers, level = server_and_level
        await self._toolbox.set_log_level(cast("types.LoggingLevel", level), *servers)

    def read_parked(self, handle: str) -> ToolResult:
        """Return the whole of a result that was shortened; `artifact["plait/parked"]` names it.

        For programs: it does not matter who made the call.

        Raises:
            ResultExpiredError: It is not kept (any more).
        """
        return self._toolbox.read_parked(handle)

    async def forget(self, thread_id: str) -> None:
        """Close the sessions that a conversation has to itself (`scope: thread`)."""
        await self._toolbox.forget(thread_id)

    async def __aenter__(self) -> Self:
        await self._toolbox.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self._toolbox.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection; tools handed out raise `ClientClosedError` from now on."""
        await self._toolbox.aclose()

    def close(self) -> None:
        """Do what `aclose` does, and block until it is done."""
        self._toolbox.close()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an asynchronous method of this client, and block until it is done.

        Raises:
            BlockingCallError: The connections live in the loop of this very thread.
        """
        return self._toolbox.run_blocking(work, *args, **kwargs)

    async def _synced(self) -> None:
        """Follow what was changed about `connections`."""
        changes = self._roster.changes()
        for name in changes.gone:
            await self._toolbox.remove_server(name)
        for name, connection in changes.new.items():
            await self._toolbox.add_server(name, connection)


class ServerInfoError(ConnectError, RuntimeError):
    """Some servers could not be asked who they are."""

    def __init__(self, failures: Mapping[str, PlaitError]) -> None:
        reasons = "; ".join(str(error) for error in failures.values())
        super().__init__(
            f"{len(failures)} of the servers cannot say who they are: {reasons}",
            server=", ".join(failures),
        )
