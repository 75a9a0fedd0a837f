"""The toolbox: tools, resources and prompts of many servers, for any agent framework."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from plait._support import mcp_types as types
from plait._support.durations import checked_limit
from plait._support.files import FileStamp, file_changes, file_stamp
from plait._support.gather import resolve
from plait._support.threads import in_thread
from plait.client.calls.pipeline import CallPipeline, run_identity_of
from plait.client.calls.result_budget import OWN_SERVER, READ_MORE, ResultLimiter
from plait.client.calls.runtime import ConnectionOwner, Lifecycle, Listed, Runtime
from plait.client.calls.sampling import Sampling
from plait.client.calls.tool_call import OnProgress, ServerCallbacks, ToolCall
from plait.client.catalog.deferral import DeferralPlan
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.names import free_name
from plait.client.config.read import ClientConfig, ConfigSource, read_config, read_options
from plait.client.config.servers import ServerConfig, server_with_defaults
from plait.client.connections import operations
from plait.client.connections.change_listener import ResourceWatch, Subscription
from plait.client.connections.credentials import CallerCredentials, Run
from plait.client.connections.loop_bridge import blocking
from plait.client.connections.status import ServerInfo, Status
from plait.client.options import (
    CLIENT_OPTIONS,
    ToolboxOptions,
    ToolPatterns,
    call_settings_from,
    catalog_options_from,
    check_fallbacks,
    identity_from,
    lock_from,
)
from plait.errors import ConfigError, ConnectError, PlaitError

if TYPE_CHECKING:
    from plait.client.calls.approval import OnApproval
    from plait.client.calls.outcome import ToolResult
    from plait.client.catalog.catalog import DiscoveredTools
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import PolicyDecision
    from plait.client.protocol.session import McpSession, OnElicitation

logger = logging.getLogger("plait.client.calls")

T = TypeVar("T")


class Toolbox(ConnectionOwner):
    """The tools, resources and prompts of many MCP servers, for any agent framework.

    Takes the servers, a whole configuration with its options, or the path of a file; options
    passed here win over those in the file. Servers are contacted on first use.

    Used as `async with Toolbox(...)`, its connections live in the caller's event loop; otherwise
    in a background loop, and every method can be called from any loop and any thread. Code without
    an event loop uses the methods that end in `_blocking`, or `run_blocking` for the others.
    """

    def __init__(self, servers: ConfigSource, **options: Unpack[ToolboxOptions]) -> None:
        # No variable here has the name of an option: editors would show it instead of the option.
        log_callback = options.pop("on_log", None)
        elicitation_callbacks = options.pop("on_elicitation", None)
        sampling = Sampling.of(options.pop("on_sampling", None))
        follows = options.pop("follow_tools", True)
        prefers_modern = options.pop("prefer_modern", False)
        modes = options.pop("elicitation_modes", None)
        self.config: ClientConfig = read_config(servers)
        self._options: dict[str, Any] = {**self.config.options, **read_options(options)}
        if unused := ", ".join(sorted(self._options.keys() - CLIENT_OPTIONS)):
            logger.warning("Toolbox ignores these options: %s", unused)
        following = None
        if self._options.get("watch"):
            if self.config.source is None:
                raise ConfigError("watch=True is for a client that is made from a file")
            path = Path(self.config.source)
            # Whoever drops the client without closing it ends this too.
            following = partial(self._watch, weakref.ref(self), path, file_stamp(path))
        check_fallbacks(self._options, self.config.servers)
        callbacks = ServerCallbacks.of(self._options, log_callback)
        identity = identity_from(self._options, receives_logs=callbacks.on_message is not None)
        identity.prefers_modern = prefers_modern
        if modes is not None:
            identity.elicitation_modes = modes
        self._plays_tape = identity.tape is not None and not identity.tape.records
        self._servers = {
            name: self._with_defaults(server) for name, server in self.config.servers.items()
        }
        self.reloads = 0
        """How often other servers were taken over from a configuration."""
        self._reported: set[str] = set()
        counter = self._options.get("token_counter")
        self.deferral = DeferralPlan(self._options.get("defer"), self._servers, counter=counter)
        call_settings = call_settings_from(self._options, self.config.default_tool_timeout)
        build_runtime = partial(
            Runtime,
            self._servers,
            identity=identity,
            on_elicitation=elicitation_callbacks,
            callbacks=callbacks,
            catalog_options=replace(
                catalog_options_from(self._options),
                lock=lock_from(self._options, self.config.source),
            ),
            call_settings=call_settings,
            sampling=sampling,
            follow_tools=follows,
            watch=following,
        )
        super().__init__(Lifecycle(build_runtime))
        self.calls = CallPipeline(
            self.lifecycle,
            self._servers,
            policy=call_settings.policy_check,
            limiter=ResultLimiter(
                self._options.get("result_budget"), self._servers, counter=counter
            ),
        )
        """The steps of a tool call, for adapters that put their own code between them."""

    def _with_defaults(self, server: ServerConfig) -> ServerConfig:
        """Return a server with the client's options; one on a tape needs no variables."""
        completed = server_with_defaults(server, self._options)
        return replace(completed, problem=None) if self._plays_tape else completed

    @property
    def server_names(self) -> tuple[str, ...]:
        """The configured servers, in their order."""
        return tuple(self.config.servers)

    @property
    def sanitizes(self) -> bool:
        """Whether invisible and control characters are removed from texts for models."""
        return self._options.get("sanitize", True)

    def check_names(self, servers: Iterable[str]) -> None:
        """Raise `UnknownServerError` unless these servers are configured."""
        for name in servers:
            self.calls.check_server(name)

    async def add_server(self, name: str, server: object) -> None:
        """Add a server, described as in a configuration; it replaces one of that name.

        A server that is disabled only removes the one of its name.
        """
        added = read_config({"servers": {name: server}}).servers.get(name)
        if added is None:
            if name in self._servers:
                await self.remove_server(name)
            return
        self.config = replace(self.config, servers={**self.config.servers, name: added})
        self._servers[name] = self._with_defaults(added)
        await self.lifecycle.run(lambda runtime: runtime.add_server(name, self._servers[name]))

    async def remove_server(self, name: str) -> None:
        """Close a server's connections and remove it; its tools can no longer be called."""
        self.check_names([name])
        left = {known: server for known, server in self.config.servers.items() if known != name}
        self.config = replace(self.config, servers=left)
        del self._servers[name]
        await self.lifecycle.run(lambda runtime: runtime.remove_server(name))

    async def reload(self) -> frozenset[str]:
        """Read the configuration file again, and use its servers; see `use_servers`.

        Raises:
            ConfigError: The file cannot be used, and nothing has changed.
        """
        source = self.config.source
        if source is None:
            raise ConfigError("this client was not made from a file, so there is none to reload")
        return await self.use_servers(await in_thread(read_config, source))

    async def follow_file(self, read: Callable[[], ClientConfig] | None = None) -> None:
        """Use the servers of the configuration file whenever it changes, until cancelled.

        A broken file changes nothing, and the log says what is wrong with it. `read` reads the
        file in another way. With the option `watch`, the client does this by itself.
        """
        source = self.config.source
        if source is None:
            raise ConfigError("this client was not made from a file, so there is none to follow")
        path = Path(source)
        async for _ in file_changes(path, await in_thread(file_stamp, path)):
            await self._use_changed(read or partial(read_config, source))

    @staticmethod
    async def _watch(client: weakref.ref[Toolbox], path: Path, known: FileStamp | None) -> None:
        """Follow the file without keeping the client alive."""
        async for _ in file_changes(path, known):
            box = client()
            if box is None or box.lifecycle.closed:
                return
            await box._use_changed(partial(read_config, str(path)))  # noqa: SLF001  # its own class
            del box

    async def _use_changed(self, read: Callable[[], ClientConfig]) -> None:
        try:
            await self.use_servers(await in_thread(read))
        except ConfigError as error:
            logger.warning("going on with the last configuration: %s", error)

    async def use_servers(self, config: ClientConfig) -> frozenset[str]:
        """Start, stop and replace what differs from the servers of a configuration.

        Returns the names of these servers. Calls under way end on the server that they began with.
        Options of the client, such as its policy, stay as they are.
        """
        if config.options != self.config.options:
            logger.warning("options of the client have changed, which a new client would use")
        fresh = {name: self._with_defaults(server) for name, server in config.servers.items()}
        names = self._servers.keys() | fresh.keys()
        changed = frozenset(name for name in names if self._servers.get(name) != fresh.get(name))
        check_fallbacks(self._options, fresh)
        self.config = replace(config, options=self.config.options)

        async def use(runtime: Runtime) -> None:
            for name in changed:
                runtime.replace_server(name, fresh.get(name))

        for name in changed - fresh.keys():
            del self._servers[name]
        # The same mapping, which other parts of the client know; in the order of the file.
        for name, server in fresh.items():
            self._servers.pop(name, None)
            self._servers[name] = server
        self.reloads += 1
        await self.lifecycle.run(use)
        return changed

    reload_blocking = blocking(reload)
    """Blocking form of `reload`."""

    async def ready(self, timeout_seconds: float | None = None) -> Status:
        """Open every server, and wait until each is ready or has failed, up to the timeout.

        Raises:
            PlaitError: A required server failed, or was not ready in time.
        """
        limit = checked_limit(timeout_seconds, "timeout_seconds")
        return await self.lifecycle.run(lambda runtime: runtime.ready(limit))

    ready_blocking = blocking(ready)
    """Blocking form of `ready`."""

    async def reconnect(self, server: str) -> None:
        """Drop the server's session and its failures; the next call opens another session."""
        self.check_names([server])

        async def reconnect(runtime: Runtime) -> None:
            runtime.pool[server].keeper.reconnect()

        await self.lifecycle.run(reconnect)

    async def tools(
        self,
        *servers: str,
        refresh: bool = False,
        include: ToolPatterns | None = None,
        exclude: ToolPatterns | None = None,
        access: CallerCredentials | None = None,
        run: Run | None = None,
        wait: float | None = None,
    ) -> list[Tool]:
        """List the tools of these servers, or of all of them.

        An optional server that fails is left out, and `status()` has the reason. If it was listed
        before, the tools of that list are returned, and its status is `tools_outdated`. `include`
        and `exclude` filter this list only; tools whose every call the policy denies are left out.
        `run` selects the credentials on servers where these depend on the run.

        A server is waited for up to `connect_timeout`, or `wait` seconds. One that was late is not
        waited for again, unless it is named or required; `on_tools_list_changed` announces it.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        self.check_names(servers)
        selected = ToolFilter.of(include=include, exclude=exclude)
        limit = checked_limit(wait, "wait")
        names = servers or self.server_names
        accesses = {name: await self.calls.access_for(name, run, access) for name in names}
        offer = await self.lifecycle.run(
            lambda runtime: runtime.catalog.discover(
                servers, refresh=refresh, access=accesses, wait=limit
            )
        )
        await self._handle_failures(offer, named=servers, may_be_none=wait is not None)
        if selected.is_open and self.calls.policy.policy is None:
            return list(offer.tools)
        if not offer.failures:
            catalog = self.lifecycle.runtime.catalog
            catalog.warn_unknown("include", include, offer.tools)
            catalog.warn_unknown("exclude", exclude, offer.tools)
        hides = self.calls.policy.hides
        return [tool for tool in offer.tools if selected.offers(tool) and not hides(tool)]

    tools_blocking = blocking(tools)
    """Blocking form of `tools`."""

    async def _handle_failures(
        self, offer: DiscoveredTools, named: Sequence[str], *, may_be_none: bool
    ) -> None:
        """Raise, or report once, to `on_connection_error` or the log, why servers list no tools."""
        failures, unlisted_now = offer.failures, {**offer.failures, **offer.outdated}
        on_error = self._options.get("on_connection_error")
        self._reported &= set(unlisted_now)
        for name, error in unlisted_now.items():
            if name in failures and (name in named or self._servers[name].required):
                raise error
            if callable(on_error) and name not in self._reported:
                await resolve(on_error(name, error))
                self._reported.add(name)
        if callable(on_error):
            return
        unlisted = self.lifecycle.runtime.catalog.options.unlisted
        everything = set(named) or set(self.server_names) - unlisted
        if failures and set(failures) == everything and on_error != "ignore" and not may_be_none:
            if len(failures) == 1:
                raise next(iter(failures.values()))
            reasons = "; ".join(str(error) for error in failures.values())
            text = f"none of the {len(failures)} servers can be used: {reasons}"
            raise ConnectError(text, server=", ".join(failures))
        for name in unlisted_now.keys() - self._reported:
            self._reported.add(name)
            how = "without" if name in failures else "with the earlier tools of"
            logger.warning("going on %s %s: %s", how, name, unlisted_now[name])

    async def search_tools(
        self, query: str, *servers: str, limit: int = 5, run: Run | None = None
    ) -> list[Tool]:
        """Find the tools that match a query in a few words, best match first."""
        index = self.deferral.index(await self.tools(*servers, run=run))
        return [match.tool for match in index.search(query, limit)]

    def own_tools(self, *, taken: Collection[str] = ()) -> list[Tool]:
        """Return the tools that the toolbox answers itself, under names that are not `taken`.

        With a result budget that is `read_more`, which reads the rest of shortened results;
        without one there is none. Call it like others: `call(tool.server, tool.wire_name, ...)`.
        """
        limiter = self.calls.limiter
        return [limiter.read_more_tool(free_name(READ_MORE, taken))] if limiter.has_limits else []

    def is_waiting(self, server: str) -> bool:
        """Say whether a server is not started yet, because its tools come from the disk cache."""
        return self.lifecycle.runtime.catalog.is_stored(server)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        on_elicitation: OnElicitation | None = None,
        on_approval: OnApproval | None = None,
        run: Run | None = None,
        reader: str = READ_MORE,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool by its wire name; a failure that the tool reports is a result.

        `on_elicitation` answers elicitations of this call, in a client that has an
        `on_elicitation` of its own; the timeout does not count that time. `on_approval` replaces
        the client's own. `run` is passed to functions that return credentials, for example
        `{"configurable": {"user": "ann"}}`. `reader` is the name under which the model knows the
        tool that reads shortened results, `call_id` the id of the call there.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        arguments, source = arguments or {}, server
        if server == OWN_SERVER:
            # Only the user who got a result may read on: the credentials are those of its server.
            found = self.calls.limiter.server_of(arguments.get("handle"))
            source = found if found in self.config.servers else None
        call = ToolCall(
            server=server,
            tool=tool,
            arguments=arguments,
            timeout_seconds=checked_limit(timeout_seconds, "timeout_seconds"),
            on_progress=on_progress,
            on_elicitation=on_elicitation,
            on_approval=on_approval,
            access=None if source is None else await self.calls.access_for(source, run),
            run=run_identity_of(run),
            call_id=call_id,
        )
        if server == OWN_SERVER:
            return await self.calls.read_more(call, reader=reader)
        return await self.calls.run(call, reader=reader)

    call_blocking = blocking(call)
    """Blocking form of `call`."""

    async def decide(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> PolicyDecision:
        """Return the policy's decision about a call, without making it or asking for approval."""
        return await self.calls.decide(
            ToolCall(server=server, tool=tool, arguments=arguments or {})
        )

    def read_full_result(self, handle: str) -> ToolResult:
        """Return the whole of a shortened result; `ToolResult.full_result` is its handle.

        Meant for programs: it does not check who made the call.

        Raises:
            ResultExpiredError: It is not kept any more.
        """
        return self.calls.limiter.full_result(handle)

    async def list_resources(self, *servers: str) -> list[Listed[types.Resource]]:
        """List the resources of these servers, or of all; those that offer none are left out."""
        return await self._list(servers, operations.list_resources, "resources/list")

    async def list_resource_templates(self, *servers: str) -> list[Listed[types.ResourceTemplate]]:
        """List the resource templates of these servers, or of all."""
        return await self._list(
            servers, operations.list_resource_templates, "resources/templates/list"
        )

    async def list_prompts(self, *servers: str) -> list[Listed[types.Prompt]]:
        """List the prompts of these servers, or of all; those that offer none are left out."""
        return await self._list(servers, operations.list_prompts, "prompts/list")

    async def read_resource(
        self, server: str, uri: str, *, access: CallerCredentials | None = None
    ) -> types.ReadResourceResult:
        """Read a resource.

        Raises:
            ResourceNotFoundError: The server has no such resource.
        """
        return await self.calls.read_resource(server, uri, access=access)

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in."""
        filled = None if arguments is None else dict(arguments)
        return await self._request(
            server, lambda client: client.get_prompt(name, filled), "prompts/get"
        )

    async def complete(
        self,
        server: str,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask the server for completions of an argument of a prompt or resource template."""
        known = None if context is None else dict(context)
        return await self._request(
            server, lambda c: c.complete(ref, dict(argument), known), "completion/complete"
        )

    async def subscribe(
        self, server: str, uri: str, on_update: Callable[[str], Awaitable[None] | None]
    ) -> Subscription:
        """Call `on_update` with the URI whenever the resource changes, or may have changed.

        The subscription survives restarts of the server; its `cancel()` ends it.
        """
        subscription = Subscription(server, uri, self.lifecycle.bridge.bind_callback(on_update))
        await self.follow(subscription)
        return subscription

    def watch_resource(
        self, server: str, uri: str, *more_uris: str, read: bool = False
    ) -> ResourceWatch:
        """Iterate over changes: `async for update in box.watch_resource("server", uri): ...`.

        An update comes whenever one of the resources changes, and after a restart of the server,
        when it may have changed. With `read`, updates have the contents, and the first comes at
        once. As `async with box.watch_resource(...) as updates` the subscription begins and ends
        with the block; see `ResourceWatch`.
        """
        uris = (uri, *more_uris)
        return ResourceWatch(server, uris, self.follow, self.read_resource if read else None)

    async def follow(self, subscription: Subscription) -> None:
        """Start a subscription, and wait until the server has accepted it.

        Raises:
            PlaitError: The server cannot be reached, or refuses.
        """
        self.check_names([subscription.server])
        try:
            await self.lifecycle.run(lambda runtime: runtime.subscriptions.add(subscription))
        except BaseException:
            subscription.cancel()
            raise

    async def set_logging_level(self, level: types.LoggingLevel, *servers: str) -> None:
        """Set the lowest level of log messages that servers send, if they can log.

        Without `servers`, those that cannot be reached get it with their next session.
        Modern servers get the level with each request, so it holds from their next session on.
        """
        self.check_names(servers)
        names = servers or self.server_names
        checked = read_options({"log_level": str(level).lower()})["log_level"]
        required = bool(servers)
        await self.lifecycle.run(
            lambda runtime: runtime.set_logging_level(names, checked, required=required)
        )

    async def server_info(self, server: str) -> ServerInfo:
        """Return a server's name, version, capabilities and instructions."""
        self.check_names([server])

        async def read_info(runtime: Runtime) -> ServerInfo:
            session = await runtime.pool[server].keeper.wait_for_session()
            return ServerInfo.of(session.client)

        return await self.lifecycle.run(read_info)

    async def ping(self, server: str) -> float:
        """Measure one round trip to the server, in seconds."""
        return await self._request(server, operations.ping, "ping")

    async def health(self) -> Mapping[str, PlaitError | None]:
        """Ping every server; the value is `None` for a healthy one."""

        async def check(name: str) -> PlaitError | None:
            try:
                await self.ping(name)
            except PlaitError as error:
                return error
            return None

        errors = await asyncio.gather(*(check(name) for name in self.server_names))
        return dict(zip(self.server_names, errors, strict=True))

    async def _list(
        self,
        servers: Sequence[str],
        operation: Callable[[McpSession], Awaitable[list[T]]],
        method: str,
    ) -> list[Listed[T]]:
        """List items of these servers, or of all; a server that was not named may fail."""
        self.check_names(servers)
        names = servers or self.server_names
        return await self.lifecycle.run(
            lambda runtime: runtime.list_items(names, operation, method, required=bool(servers))
        )

    async def _request(
        self, server: str, operation: Callable[[McpSession], Awaitable[T]], method: str
    ) -> T:
        self.check_names([server])
        return await self.lifecycle.run(lambda runtime: runtime.request(server, operation, method))


class ServerHandle:
    """One server, with the methods of the MCP SDK's client; survives restarts of the server.

    Filters and overrides of the toolbox apply. Lists are complete: `cursor` is ignored.
    """

    def __init__(self, toolbox: Toolbox, name: str) -> None:
        self._toolbox = toolbox
        self.name = name

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """List the tools of the server, under their wire names."""
        del cursor
        tools = await self._toolbox.tools(self.name)
        return types.ListToolsResult(
            tools=[
                types.Tool.model_validate(
                    {
                        **tool.to_dict(),
                        "name": tool.wire_name,
                        "annotations": tool.annotations or None,
                        "icons": tool.icons or None,
                    }
                )
                for tool in tools
            ]
        )

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        progress_callback: OnProgress | None = None,
    ) -> types.CallToolResult:
        """Call a tool by its wire name.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        call = ToolCall(
            server=self.name,
            tool=name,
            arguments=arguments or {},
            timeout_seconds=checked_limit(read_timeout_seconds, "read_timeout_seconds"),
            on_progress=progress_callback,
        )
        return (await self._toolbox.calls.run(call)).to_mcp()

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List the resources."""
        del cursor
        resources = await self._toolbox.list_resources(self.name)
        return types.ListResourcesResult(resources=[listed.item for listed in resources])

    async def list_resource_templates(
        self, *, cursor: str | None = None
    ) -> types.ListResourceTemplatesResult:
        """List the resource templates."""
        del cursor
        templates = await self._toolbox.list_resource_templates(self.name)
        return types.ListResourceTemplatesResult(
            resource_templates=[listed.item for listed in templates]
        )

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read_resource(self.name, str(uri))

    def watch_resource(self, uri: str, *more_uris: str, read: bool = False) -> ResourceWatch:
        """Iterate over changes of resources; see `Toolbox.watch_resource`."""
        return self._toolbox.watch_resource(self.name, uri, *more_uris, read=read)

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """List the prompts."""
        del cursor
        prompts = await self._toolbox.list_prompts(self.name)
        return types.ListPromptsResult(prompts=[listed.item for listed in prompts])

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in."""
        return await self._toolbox.get_prompt(self.name, name, arguments)

    async def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: Mapping[str, str],
        context_arguments: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask for completions of an argument of a prompt or resource template."""
        return await self._toolbox.complete(self.name, ref, argument, context_arguments)

    async def ping(self) -> float:
        """Measure one round trip, in seconds."""
        return await self._toolbox.ping(self.name)

    async def server_info(self) -> ServerInfo:
        """Return the server's name, version, capabilities and instructions."""
        return await self._toolbox.server_info(self.name)
