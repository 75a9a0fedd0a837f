"""The MCP client for LangChain and LangGraph."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import langchain_core  # noqa: F401  # pyright: ignore[reportUnusedImport]

from plait._support.durations import checked_limit
from plait._support.threads import import_in_thread
from plait.client.calls.result_budget import READ_MORE
from plait.client.calls.runtime import ConnectionOwner
from plait.client.catalog.tool import prepare_schemas
from plait.client.config.read import (
    ClientConfig,
    ConfigSource,
    is_server_entry,
    read_config,
    read_options,
)
from plait.client.connections.change_listener import ResourceWatch
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.loop_bridge import blocking
from plait.client.options import CLIENT_OPTIONS, ToolPatterns
from plait.client.toolbox import ServerHandle, Toolbox
from plait.errors import ConfigError, ConnectError, PlaitError
from plait.langchain.tools.callbacks import CallbackContext, Callbacks

if TYPE_CHECKING:
    import mcp_types as types
    from langchain_core.documents.base import Blob
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.tools import BaseTool
    from mcp.client import ClientSession

    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.runtime import Listed
    from plait.client.catalog.tool import Tool
    from plait.client.connections.change_listener import Subscription
    from plait.client.connections.status import ServerInfo, Status
    from plait.langchain.client.settings import LangChainOptions
    from plait.langchain.tools.interceptors import ToolCallInterceptor
    from plait.langchain.tools.runner import ToolRunner
    from plait.models.schemas.for_provider import Profile


logger = logging.getLogger("plait.langchain")


class MultiServerMCPClient(ConnectionOwner):
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
        if not isinstance(base := merged.get("callbacks"), Callbacks | None):
            raise ConfigError("callbacks takes plait.Callbacks(...)")
        self.callbacks = (base or Callbacks()).with_options(merged)
        # Log messages and progress reach `callbacks` through `on_log` and the tools.
        shared = CLIENT_OPTIONS - {"on_message", "on_progress"}
        toolbox_options: dict[str, Any] = {
            name: value for name, value in merged.items() if name in shared
        }
        toolbox_options |= self.callbacks.notification_callbacks()
        # Under another name than the option, whose sentence editors show.
        model = merged.get("sampling")
        if model is not None:
            from plait.langchain.client.sampling import sampling_from  # noqa: PLC0415  # slow to import

            model = sampling_from(model)
        self.toolbox = Toolbox(
            replace(config, options={}),
            on_log=self.callbacks.log_callback(),
            on_elicitation=self.callbacks.elicitation_callback,
            on_sampling=model,
            **toolbox_options,
        )
        """The toolbox that holds the connections, without LangChain."""
        self._server_list.toolbox = self.toolbox
        super().__init__(self.toolbox.lifecycle)
        self.tool_interceptors: list[ToolCallInterceptor] = list(
            merged.get("tool_interceptors") or ()
        )
        self.handle_tool_errors = bool(merged.get("handle_tool_errors", True))
        self.raises_auth_errors = merged.get("on_auth_error") == "raise"
        self.profile: Profile | None = merged.get("profile")
        self._options = merged

    @property
    def tool_name_prefix(self) -> bool:
        """Whether the names of tools begin with the server; the option, which is not changed."""
        return bool(self._options.get("tool_name_prefix"))

    @property
    def connections(self) -> dict[str, Any]:
        """The servers; a change takes effect when the client or a tool of the server is used."""
        return self._server_list.connections

    @connections.setter
    def connections(self, connections: dict[str, Any]) -> None:
        self._server_list.connections = connections

    @property
    def config(self) -> ClientConfig:
        """The configuration as it was read, with the options that were passed."""
        return replace(self.toolbox.config, options=self._options)

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
        wait: float | None = None,
    ) -> list[BaseTool]:
        """Return the tools of these servers, or of all.

        Optional servers that fail are left out; `status()` has the errors. One that was listed
        before keeps its tools, and its status is `tools_outdated`. Tools keep working when their
        server restarts. With `headers` or `auth`, tools are listed and called with these
        credentials; `config` is the run for servers whose credentials depend on it.

        A server is waited for up to `connect_timeout`, or `wait` seconds (0 takes what is ready).
        One that was late is not waited for again, unless it is named or required.

        Deferred tools are replaced by `search_tools` and `call_tool`. With the `messages` of a
        conversation, they are replaced by `search_tools` and the tools that it has found so far;
        `defer=False` returns all tools.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        checked_limit(wait, "wait")
        await self._current_toolbox()
        names = [] if server_name is None else [server_name]
        for server in reversed(servers):
            names[:0] = [server] if isinstance(server, str) else server
        if not names and not self.toolbox.server_names:
            return []
        selection = Selection(
            toolbox=self.toolbox,
            servers=tuple(names),
            include=include,
            exclude=exclude,
            access=CallerCredentials.of(headers, auth),
        )
        listed, _ = await asyncio.gather(
            selection.list_tools(config, refresh=refresh, wait=wait),
            import_in_thread("plait.langchain.client.tool_list"),
        )
        from plait.langchain.client.tool_list import langchain_tools  # noqa: PLC0415  # slow

        profile = read_options({"profile": profile}).get("profile", self.profile)
        await prepare_schemas(listed, profile)
        return langchain_tools(
            self,
            selection,
            listed,
            profile=profile,
            with_resources=bool(self._options.get("resources_as_tools")),
            defer=defer,
            messages=messages,
        )

    get_tools_blocking = blocking(get_tools)
    """Blocking form of `get_tools`."""

    async def refresh_tools(self, *servers: str) -> list[BaseTool]:
        """List the tools anew, and return them.

        Raises:
            PlaitError: It failed; the client keeps the tools listed before.
        """
        return await self.get_tools(*servers, refresh=True)

    async def initialize_connections(self) -> dict[str, list[BaseTool]]:
        """Connect to every server, and return the tools of each."""
        tools = await self.get_tools()
        from plait.langchain.tools.tool import MCPTool  # noqa: PLC0415  # slow to import

        by_server: dict[str, list[BaseTool]] = {name: [] for name in self.toolbox.server_names}
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
        from plait.langchain.tools.runner import (  # noqa: PLC0415  # slow to import
            RunnerSettings,
            ToolRunner,
        )

        options = {
            **self._options,
            "callbacks": self.callbacks,
            "tool_interceptors": self.tool_interceptors,
            "handle_tool_errors": self.handle_tool_errors
            if handle_tool_errors is None
            else handle_tool_errors,
        }
        settings = RunnerSettings.of(options, self.toolbox.config.servers)
        calls, change_of = self.toolbox.calls, self._server_list.change_of
        return ToolRunner(calls, settings, access=access, reader=reader, change_of=change_of)

    async def ready(self, timeout_seconds: float | None = None) -> Status:
        """Connect to every server; wait until each is ready or has failed, or for the timeout.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        return await (await self._current_toolbox()).ready(timeout_seconds)

    @asynccontextmanager
    async def session(
        self, server_name: str, *, auto_initialize: bool = True
    ) -> AsyncGenerator[ClientSession]:
        """Open a new session with a server; it is closed when the block ends.

        Use it with `load_mcp_tools`, or directly. `get_tools` uses other connections.
        """
        await self._current_toolbox()
        self.toolbox.check_names([server_name])
        await import_in_thread("plait.langchain.client.sessions")
        from plait.langchain.client.sessions import (  # noqa: PLC0415  # slow to import
            create_session,
            opened_session,
        )

        context = CallbackContext(server_name=server_name)
        callbacks = self.callbacks.to_mcp_format(context=context)
        server = self.toolbox.config.servers[server_name]
        opening = (
            opened_session(server_name, server, mcp_callbacks=callbacks)
            if auto_initialize
            else create_session(server, mcp_callbacks=callbacks)
        )
        async with opening as session:
            yield session

    async def get_client(self, server_name: str) -> ServerHandle:
        """Return one server with the methods of the MCP SDK's client; it reconnects."""
        toolbox = await self._current_toolbox()
        toolbox.check_names([server_name])
        return ServerHandle(toolbox, server_name)

    async def get_server_info(self, *, server_name: str | None = None) -> dict[str, ServerInfo]:
        """Return the name, version, capabilities and instructions of servers.

        Raises:
            PlaitError: One of them cannot be reached.
        """
        await self._current_toolbox()
        facts: dict[str, ServerInfo] = {}
        failures: dict[str, PlaitError] = {}
        for name in [server_name] if server_name else self.toolbox.server_names:
            try:
                facts[name] = await self.toolbox.server_info(name)
            except ConnectError as error:
                failures[name] = error
        if failures:
            names = ", ".join(repr(name) for name in failures)
            reasons = "; ".join(str(error) for error in failures.values())
            missing = f"{len(failures)} of {len(facts) + len(failures)} servers ({names})"
            raise ServerInfoError(
                f"no information from {missing}: {reasons}", server=", ".join(failures)
            )
        return facts

    async def get_prompt(
        self, server_name: str, prompt_name: str, *, arguments: Mapping[str, Any] | None = None
    ) -> list[HumanMessage | AIMessage]:
        """Get a prompt of a server as messages."""
        client = await self.get_client(server_name)
        await import_in_thread("plait.langchain.client.resources")
        from plait.langchain.client.resources import load_mcp_prompt  # noqa: PLC0415  # slow to import

        return await load_mcp_prompt(client, prompt_name, arguments=arguments)

    async def get_resources(
        self, server_name: str | None = None, *, uris: str | Sequence[str] | None = None
    ) -> list[Blob]:
        """Read the resources with these URIs, or all that are listed, of one server or of all.

        Raises:
            PlaitError: One of them cannot be read.
        """
        await self._current_toolbox()
        await import_in_thread("plait.langchain.client.resources")
        from plait.langchain.client.resources import get_mcp_resource  # noqa: PLC0415  # slow

        named = [server_name] if server_name else []
        if uris is None:
            listed = await self.toolbox.list_resources(*named)
            selected = [(entry.server, str(entry.item.uri)) for entry in listed]
        else:
            uris = [uris] if isinstance(uris, str) else uris
            servers = named or self.toolbox.server_names
            selected = [(server, uri) for server in servers for uri in uris]
        blobs: list[Blob] = []
        for server, uri in selected:
            blobs += await get_mcp_resource(ServerHandle(self.toolbox, server), uri)
        return blobs

    async def list_resources(self, *servers: str) -> list[Listed[types.Resource]]:
        """List the resources of these servers, or of all."""
        return await (await self._current_toolbox()).list_resources(*servers)

    async def list_resource_templates(self, *servers: str) -> list[Listed[types.ResourceTemplate]]:
        """List the resource templates of these servers, or of all."""
        return await (await self._current_toolbox()).list_resource_templates(*servers)

    async def list_prompts(self, *servers: str) -> list[Listed[types.Prompt]]:
        """List the prompts of these servers, or of all."""
        return await (await self._current_toolbox()).list_prompts(*servers)

    async def read_resource(self, server_name: str, uri: str) -> types.ReadResourceResult:
        """Read one resource."""
        return await (await self._current_toolbox()).read_resource(server_name, uri)

    def watch_resource(
        self, server_name: str, uri: str, *more_uris: str, read: bool = False
    ) -> ResourceWatch:
        """Follow resources: `async for update in client.watch_resource("server", uri): ...`.

        See `Toolbox.watch_resource`.
        """
        read_now = self.read_resource if read else None
        return ResourceWatch(server_name, (uri, *more_uris), self._follow, read_now)

    async def _follow(self, subscription: Subscription) -> None:
        await (await self._current_toolbox()).follow(subscription)

    async def set_logging_level(self, server_or_level: str, level: str | None = None) -> None:
        """Set the lowest level of server log messages: `(level)`, or `(server, level)`."""
        toolbox = await self._current_toolbox()
        servers = () if level is None else (server_or_level,)
        await toolbox.set_logging_level(
            cast("types.LoggingLevel", level or server_or_level), *servers
        )

    def read_full_result(self, handle: str) -> ToolResult:
        """Return the full result of a shortened one, by `artifact["plait/full_result"]`.

        See `Toolbox.read_full_result`.
        """
        return self.toolbox.read_full_result(handle)

    async def reload(self) -> frozenset[str]:
        """Read the configuration file again, and start, stop and replace what has changed.

        Returns the names of these servers. See `Toolbox.reload`.

        Raises:
            ConfigError: The file cannot be used, and nothing has changed.
        """
        changed = await (await self._current_toolbox()).reload()
        self._server_list.take_reloaded()
        return changed

    reload_blocking = blocking(reload)
    """Blocking form of `reload`."""

    async def _current_toolbox(self) -> Toolbox:
        """Return the toolbox, after applying changes of `connections` to it."""
        self._server_list.take_reloaded()
        for apply in self._server_list.changes():
            await apply()
        return self.toolbox


class ServerInfoError(ConnectError, RuntimeError):
    """Servers could not be reached for their information."""


class ServerList:
    """Holds the dictionary of connections, and detects changes to it."""

    toolbox: Toolbox

    def __init__(self, source: ConfigSource | None) -> None:
        if not source:
            self.config = ClientConfig(servers={})
            self.connections: dict[str, Any] = source if isinstance(source, dict) else {}
        else:
            self.config = read_config(source)
            self.connections = dict(self.config.servers)
            # The user's own dictionary, if it has nothing but servers, so that changes are seen.
            entries = cast("dict[str, Any]", source if isinstance(source, dict) else {})
            if set(entries) == set(self.config.servers) and all(
                is_server_entry(entry) or not isinstance(entry, Mapping)
                for entry in entries.values()
            ):
                self.connections = entries
        self._seen = _copy(self.connections)
        self._reloads = 0

    def take_reloaded(self) -> None:
        """Take over what the toolbox has reloaded from its file."""
        if self._reloads != self.toolbox.reloads:
            self._reloads = self.toolbox.reloads
            self.connections = dict(self.toolbox.config.servers)
            self._seen = _copy(self.connections)

    def changes(self) -> list[Callable[[], Awaitable[None]]]:
        """Return what applies each change since the last call to the toolbox."""
        removed = self._seen.keys() - self.connections.keys()
        changes = [self.change_of(name) for name in self.connections]
        return [*(partial(self._remove, name) for name in removed), *filter(None, changes)]

    def change_of(self, server: str) -> Callable[[], Awaitable[None]] | None:
        """Return what adds or replaces a server, if it is new or was changed."""
        seen = self._seen.get(server)
        is_same = self.connections.get(server, seen) == seen
        return None if is_same else partial(self._replace, server)

    async def _replace(self, server: str) -> None:
        if self.change_of(server) is not None:  # not applied meanwhile
            self._seen |= _copy({server: self.connections[server]})
            await self.toolbox.add_server(server, self.connections[server])

    async def _remove(self, server: str) -> None:
        if self._seen.pop(server, None) is not None:
            await self.toolbox.remove_server(server)


def _copy(connections: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            key: copy(cast("Any", value)) if isinstance(value, dict | list) else value
            for key, value in cast("Mapping[str, Any]", entry).items()
        }
        if isinstance(entry, Mapping)
        else entry
        for name, entry in connections.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of a toolbox's tools, and the credentials for listing them."""

    toolbox: Toolbox
    servers: tuple[str, ...] = ()
    include: ToolPatterns | None = None
    exclude: ToolPatterns | None = None
    access: CallerCredentials | None = None

    async def list_tools(
        self, run: Mapping[str, Any] | None, *, refresh: bool = False, wait: float | None = None
    ) -> list[Tool]:
        """List the tools."""
        return await self.toolbox.tools(
            *self.servers,
            refresh=refresh,
            include=self.include,
            exclude=self.exclude,
            access=self.access,
            run=run,
            wait=wait,
        )
