"""The MCP client for LangChain and LangGraph."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast

import mcp_types as types
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool
from mcp.client import ClientSession

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.catalog.deferral import Split
from plait.client.catalog.lock.guard import LockReport
from plait.client.catalog.schemas import Profile
from plait.client.config.read import ClientConfig, ConfigSource, read_options
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.server_info import ServerInfo
from plait.client.connections.status import Status
from plait.client.options import CLIENT_OPTIONS, ToolPatterns
from plait.client.resource_watch import ResourceWatch
from plait.client.runtime import Listed
from plait.client.server_handle import ServerHandle
from plait.client.subscriptions import Subscription
from plait.client.toolbox import Toolbox
from plait.errors import ConnectError, PlaitError
from plait.langchain.client.deferred import Selection, deferred_tools
from plait.langchain.client.prompts import load_mcp_prompt
from plait.langchain.client.read_more import read_more_tools
from plait.langchain.client.resource_tools import resource_tools
from plait.langchain.client.resources import convert_mcp_resource_to_langchain_blob
from plait.langchain.client.sampling import sampling_from
from plait.langchain.client.server_list import ServerList
from plait.langchain.client.sessions import create_session, opened_session
from plait.langchain.client.settings import LangChainOptions, settings_from
from plait.langchain.tools.callbacks import CallbackContext, Callbacks
from plait.langchain.tools.interceptors import ToolCallInterceptor
from plait.langchain.tools.runner import ToolRunner
from plait.langchain.tools.tool import MCPTool

logger = logging.getLogger("plait.langchain")

P = ParamSpec("P")
T = TypeVar("T")


class MultiServerMCPClient:
    """The tools, prompts and resources of many MCP servers, for LangChain and LangGraph.

    Takes the servers, a configuration with options, or the path of a file; arguments win over
    options in the file. The client connects when a server is first needed, keeps connections open
    and reconnects. `close`, `aclose` or a `with` block closes them.
    """

    def __init__(
        self, connections: ConfigSource | None = None, **options: Unpack[LangChainOptions]
    ) -> None:
        own = read_options(options)
        self._server_list = ServerList(connections)
        config = self._server_list.config
        merged: dict[str, Any] = {**config.options, **own}
        # No variable here has the name of an option: editors would show it instead of the option.
        base = cast("Callbacks", merged.get("callbacks") or Callbacks())
        self.callbacks = base.with_options(merged)
        # Log messages and progress reach `callbacks` through `on_log` and the tools.
        shared = CLIENT_OPTIONS - {"on_message", "on_progress"}
        toolbox_options: dict[str, Any] = {
            name: value for name, value in merged.items() if name in shared
        }
        toolbox_options |= self.callbacks.notification_callbacks()
        self._toolbox = Toolbox(
            replace(config, options={}),
            on_log=self.callbacks.log_callback(),
            on_elicitation=self.callbacks.elicitation_callback,
            on_sampling=sampling_from(merged.get("sampling")),
            **toolbox_options,
        )
        self.tool_interceptors: list[ToolCallInterceptor] = list(
            merged.get("tool_interceptors") or ()
        )
        self.handle_tool_errors = bool(merged.get("handle_tool_errors", True))
        self.raises_auth_errors = merged.get("on_auth_error") == "raise"
        self.profile: Profile | None = merged.get("profile")
        self._options = merged

    @property
    def connections(self) -> dict[str, Any]:
        """The servers; changes of this dictionary take effect at the next use of the client."""
        return self._server_list.connections

    @property
    def config(self) -> ClientConfig:
        """The configuration."""
        return self._toolbox.config

    @property
    def toolbox(self) -> Toolbox:
        """The toolbox that holds the connections, without LangChain."""
        return self._toolbox

    def status(self) -> Status:
        """Return the status of every server, without contacting any."""
        return self._toolbox.status()

    def lock_report(self) -> LockReport:
        """Compare the tools listed so far with the lockfile, without contacting servers."""
        return self._toolbox.lock_report()

    async def get_tools(
        self,
        *servers: str | Sequence[str],
        server_name: str | None = None,
        include: ToolPatterns | None = None,
        exclude: ToolPatterns | None = None,
        refresh: bool = False,
        profile: Profile | None = None,
        headers: Mapping[str, Any] | None = None,
        auth: Any = None,
        config: Mapping[str, Any] | None = None,
        defer: bool = True,
        messages: Sequence[BaseMessage] | None = None,
    ) -> list[BaseTool]:
        """Return the tools of these servers, or of all.

        Optional servers that fail are left out; `status()` has the errors. Tools keep working
        when their server restarts. With `headers` or `auth`, tools are listed and called with
        these credentials; `config` is the run for servers whose credentials depend on it.

        Deferred tools are replaced by `search_tools` and `call_tool`. With the `messages` of a
        conversation, they are replaced by `search_tools` and the tools that it has found so far;
        `defer=False` returns all tools.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        await self._apply_server_changes()
        names = _flat(servers, server_name)
        if not names and not self._toolbox.server_names:
            return []
        selection = Selection(
            toolbox=self._toolbox,
            servers=tuple(names),
            include=include,
            exclude=exclude,
            access=CallerCredentials.of(headers, auth),
        )
        listed = await selection.list_tools(config, refresh=refresh)
        split = self._toolbox.deferral.split(listed) if defer else Split(tuple(listed))
        taken = {tool.name for tool in listed}
        settings = self.runner(selection.access).settings
        readers = read_more_tools(
            self._toolbox, taken=taken, settings=settings, access=selection.access
        )
        reader = readers[0].name if readers else READ_MORE
        runner = self.runner(selection.access, reader=reader)
        profile = profile or self.profile
        tools: list[BaseTool] = [MCPTool(tool, runner, profile=profile) for tool in split.shown]
        if self._options.get("resources_as_tools"):
            taken |= {reader}
            tools += resource_tools(
                self._toolbox, names, taken=taken, settings=settings, reader=reader
            )
        own = [*readers, *deferred_tools(split, runner, selection, taken, messages)]
        return [*tools, *(tool.with_profile(profile) for tool in own)]

    def get_tools_blocking(
        self,
        *servers: str | Sequence[str],
        server_name: str | None = None,
        include: ToolPatterns | None = None,
        exclude: ToolPatterns | None = None,
        refresh: bool = False,
        profile: Profile | None = None,
        defer: bool = True,
    ) -> list[BaseTool]:
        """Do what `get_tools` does, and block until it is done."""
        return self.run_blocking(
            self.get_tools,
            *servers,
            server_name=server_name,
            include=include,
            exclude=exclude,
            refresh=refresh,
            profile=profile,
            defer=defer,
        )

    async def refresh_tools(self, *servers: str) -> list[BaseTool]:
        """List the tools anew, and return them.

        Raises:
            PlaitError: It failed; the client keeps the tools listed before.
        """
        return await self.get_tools(*servers, refresh=True)

    async def initialize_connections(self) -> dict[str, list[BaseTool]]:
        """Connect to every server, and return the tools of each."""
        tools = await self.get_tools()
        by_server: dict[str, list[BaseTool]] = {name: [] for name in self._toolbox.server_names}
        for tool in tools:
            if isinstance(tool, MCPTool) and tool.tool.server in by_server:
                by_server[tool.tool.server].append(tool)
        return by_server

    def runner(
        self,
        access: CallerCredentials | None = None,
        *,
        handle_tool_errors: bool | None = None,
        reader: str = READ_MORE,
    ) -> ToolRunner:
        """Return the runner of the tools; `reader` is the name of the tool for long results."""
        options = {
            **self._options,
            "callbacks": self.callbacks,
            "tool_interceptors": self.tool_interceptors,
            "handle_tool_errors": self.handle_tool_errors
            if handle_tool_errors is None
            else handle_tool_errors,
        }
        settings = settings_from(options, self._toolbox.config.servers)
        return ToolRunner(self._toolbox.calls, settings, access=access, reader=reader)

    async def ready(self, timeout_seconds: float | None = None) -> Status:
        """Connect to every server; wait until each is ready or has failed, or for the timeout.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        await self._apply_server_changes()
        return await self._toolbox.ready(timeout_seconds)

    @asynccontextmanager
    async def session(
        self, server_name: str, *, auto_initialize: bool = True
    ) -> AsyncGenerator[ClientSession]:
        """Open a new session with a server; it is closed when the block ends.

        Use it with `load_mcp_tools`, or directly. `get_tools` uses other connections.
        """
        await self._apply_server_changes()
        self._toolbox.check_names([server_name])
        context = CallbackContext(server_name=server_name)
        callbacks = self.callbacks.to_mcp_format(context=context)
        server = self._toolbox.config.servers[server_name]
        opening = (
            opened_session(server_name, server, mcp_callbacks=callbacks)
            if auto_initialize
            else create_session(server, mcp_callbacks=callbacks)
        )
        async with opening as session:
            yield session

    async def get_client(self, server_name: str) -> ServerHandle:
        """Return one server with the methods of the MCP SDK's client; it reconnects."""
        await self._apply_server_changes()
        self._toolbox.check_names([server_name])
        return ServerHandle(self._toolbox, server_name)

    async def get_server_info(self, *, server_name: str | None = None) -> dict[str, ServerInfo]:
        """Return the name, version, capabilities and instructions of servers.

        Raises:
            PlaitError: One of them cannot be reached.
        """
        await self._apply_server_changes()
        facts: dict[str, ServerInfo] = {}
        failures: dict[str, PlaitError] = {}
        for name in [server_name] if server_name else self._toolbox.server_names:
            try:
                facts[name] = await self._toolbox.server_info(name)
            except ConnectError as error:
                failures[name] = error
        if failures:
            raise ServerInfoError(failures)
        return facts

    async def get_prompt(
        self, server_name: str, prompt_name: str, *, arguments: Mapping[str, Any] | None = None
    ) -> list[HumanMessage | AIMessage]:
        """Get a prompt of a server as messages."""
        client = await self.get_client(server_name)
        return await load_mcp_prompt(client, prompt_name, arguments=arguments)

    async def get_resources(
        self, server_name: str | None = None, *, uris: str | Sequence[str] | None = None
    ) -> list[Blob]:
        """Read the resources with these URIs, or all that are listed, of one server or of all.

        Raises:
            PlaitError: One of them cannot be read.
        """
        await self._apply_server_changes()
        named = [server_name] if server_name else []
        if uris is None:
            listed = await self._toolbox.list_resources(*named)
            selected = [(entry.server, str(entry.item.uri)) for entry in listed]
        else:
            uris = [uris] if isinstance(uris, str) else uris
            servers = named or self._toolbox.server_names
            selected = [(server, uri) for server in servers for uri in uris]
        blobs: list[Blob] = []
        for server, uri in selected:
            contents = (await self._toolbox.read_resource(server, uri)).contents
            blobs += [convert_mcp_resource_to_langchain_blob(uri, part) for part in contents]
        return blobs

    async def list_resources(self, *servers: str) -> list[Listed[types.Resource]]:
        """List the resources of these servers, or of all."""
        await self._apply_server_changes()
        return await self._toolbox.list_resources(*servers)

    async def list_resource_templates(self, *servers: str) -> list[Listed[types.ResourceTemplate]]:
        """List the resource templates of these servers, or of all."""
        await self._apply_server_changes()
        return await self._toolbox.list_resource_templates(*servers)

    async def list_prompts(self, *servers: str) -> list[Listed[types.Prompt]]:
        """List the prompts of these servers, or of all."""
        await self._apply_server_changes()
        return await self._toolbox.list_prompts(*servers)

    async def read_resource(self, server_name: str, uri: str) -> types.ReadResourceResult:
        """Read one resource."""
        await self._apply_server_changes()
        return await self._toolbox.read_resource(server_name, uri)

    def watch_resource(
        self, server_name: str, uri: str, *more_uris: str, read: bool = False
    ) -> ResourceWatch:
        """Follow resources: `async for update in client.watch_resource("server", uri): ...`.

        There is an update when one of them changes, and after a restart of the server, when it
        may have changed. With `read`, updates have the contents, and the first comes at once. With
        `async with client.watch_resource(...) as updates`, the subscription begins and ends with
        the block; see `ResourceWatch`.
        """
        read_now = self.read_resource if read else None
        return ResourceWatch(server_name, (uri, *more_uris), self._follow, read_now)

    async def _follow(self, subscription: Subscription) -> None:
        await self._apply_server_changes()
        await self._toolbox.follow(subscription)

    async def set_logging_level(self, *server_and_level: str) -> None:
        """Set the lowest level of server log messages: `(level)`, or `(server, level)`."""
        await self._apply_server_changes()
        *servers, level = server_and_level
        await self._toolbox.set_logging_level(cast("types.LoggingLevel", level), *servers)

    def read_full_result(self, handle: str) -> ToolResult:
        """Return the full result of a shortened one, by `artifact["plait/full_result"]`.

        For programs: it does not matter who made the call.

        Raises:
            ResultExpiredError: It is not kept (any more).
        """
        return self._toolbox.read_full_result(handle)

    async def forget(self, thread_id: str) -> None:
        """Close the sessions of one conversation (`scope: thread`)."""
        await self._toolbox.forget(thread_id)

    async def __aenter__(self) -> Self:
        await self._toolbox.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self._toolbox.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection; tools of this client then raise `ClientClosedError`."""
        await self._toolbox.aclose()

    def close(self) -> None:
        """Do what `aclose` does, and block until it is done."""
        self._toolbox.close()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an asynchronous method of this client, and block until it is done.

        Raises:
            BlockingCallError: The connections live in the event loop of this thread.
        """
        return self._toolbox.run_blocking(work, *args, **kwargs)

    async def _apply_server_changes(self) -> None:
        """Apply changes of `connections` to the toolbox."""
        changes = self._server_list.changes()
        for name in changes.removed:
            await self._toolbox.remove_server(name)
        for name, connection in changes.new.items():
            await self._toolbox.add_server(name, connection)


class ServerInfoError(ConnectError, RuntimeError):
    """Servers could not be reached for their information."""

    def __init__(self, failures: Mapping[str, PlaitError]) -> None:
        reasons = "; ".join(str(error) for error in failures.values())
        super().__init__(
            f"no information from {len(failures)} of the servers: {reasons}",
            server=", ".join(failures),
        )


def _flat(servers: Sequence[str | Sequence[str]], server_name: str | None) -> list[str]:
    names: list[str] = []
    for server in servers:
        names += [server] if isinstance(server, str) else server
    return names if server_name is None else [*names, server_name]
