"""The toolbox: every server's tools, resources and prompts behind one door, for any framework."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack, cast

import mcp_types as types
from mcp.client.session import ElicitationFnT

from plait._version import __version__
from plait.catalog.catalog import Offer
from plait.catalog.deferral import Deferring
from plait.catalog.filters import ToolFilter
from plait.catalog.lock.guard import LockReport
from plait.catalog.overrides import complete_arguments
from plait.catalog.tool import Tool
from plait.config.defaults import server_with_defaults
from plait.config.policy import PolicyDecision
from plait.config.read import ClientConfig, ConfigSource, read_config, read_options
from plait.connections.access import Access, join
from plait.errors import ConnectError, PlaitError
from plait.execution.budget.bounds import OWN_SERVER, READ_MORE, ResultBounds
from plait.execution.call import OnProgress, ToolCall
from plait.execution.callbacks import OnLog, ServerCallbacks
from plait.execution.core import Core
from plait.execution.features import ServerFeatures
from plait.execution.identity import Run, access_for, mark_of
from plait.execution.options import (
    ToolOptions,
    calling_from,
    check_fallbacks,
    lock_from,
    shaping_from,
    unused_options,
)
from plait.execution.outcome import ToolResult
from plait.execution.roots import Roots, roots_callback
from plait.execution.sampling import Sampler, Sampling
from plait.execution.voice import VoiceMaker
from plait.telemetry.observer import Observer

logger = logging.getLogger("plait.execution")


class Toolbox(ServerFeatures):
    """All servers of a configuration.

    Servers are contacted when they are first needed. Used as `async with Toolbox(...)`, its
    connections live in the caller's loop; otherwise in a loop of their own, and every method can
    be called from any loop and any thread. Code without a loop uses the forms that end in
    `_blocking`, or `run_blocking` for the other methods.
    """

    OPTIONS: ClassVar = frozenset(ToolOptions.__annotations__)
    """The options that hold for every framework."""

    def __init__(
        self,
        servers: ConfigSource,
        *,
        default_tool_timeout: float | None = None,
        client_info: types.Implementation | Mapping[str, str] | None = None,
        roots: Roots | None = None,
        log_level: types.LoggingLevel | None = None,
        on_log: OnLog | None = None,
        on_elicitation: Callable[[str], ElicitationFnT] | None = None,
        on_sampling: Sampler | Sampling | None = None,
        observers: Sequence[Observer] = (),
        **options: Unpack[ToolOptions],
    ) -> None:
        self.config: ClientConfig = read_config(servers)
        self._options: dict[str, Any] = {**self.config.options, **read_options(options)}
        if unused := ", ".join(unused_options(self._options)):
            logger.warning("a toolbox makes no use of these options: %s", unused)
        check_fallbacks(self._options, self.config.servers)
        self._servers = {
            name: server_with_defaults(server, self._options)
            for name, server in self.config.servers.items()
        }
        self._reported: set[str] = set()
        callbacks = ServerCallbacks.of(self._options, on_log)
        level = log_level or self._options.get("log_level")
        if level is None and callbacks.on_message is not None:
            level = "debug"  # without being asked, modern servers send none
        self._bounds = ResultBounds(
            self._options.get("result_budget"),
            self._servers,
            counter=self._options.get("token_counter"),
        )
        calling = calling_from(
            self._options,
            default_seconds=default_tool_timeout or self.config.default_tool_timeout,
            observers=observers,
        )
        self._gate = calling.gate
        self.deferring = Deferring(
            self._options.get("defer"), self._servers, counter=self._options.get("token_counter")
        )
        super().__init__(
            partial(
                Core,
                self._servers,
                voice_for=VoiceMaker(
                    client_info=_implementation(client_info),
                    log_level=cast("types.LoggingLevel | None", level),
                    on_elicitation=on_elicitation,
                    on_roots=None if roots is None else roots_callback(roots),
                ),
                callbacks=callbacks,
                shaping=replace(
                    shaping_from(self._options),
                    lock=lock_from(self._options, self.config.source),
                ),
                calling=calling,
                sampling=Sampling.of(on_sampling),
            )
        )

    async def add_server(self, name: str, server: object) -> None:
        """Take one more server, written as in a configuration; it replaces one of that name.

        Raises:
            ConfigError: Its configuration is wrong.
        """
        added = read_config({"servers": {name: server}}).servers[name]
        self.config = replace(self.config, servers={**self.config.servers, name: added})
        self._servers[name] = server_with_defaults(added, self._options)
        await self._on_owner(lambda core: core.add(name, self._servers[name]))

    async def remove_server(self, name: str) -> None:
        """Close a server's connections, and forget it; its tools can no longer be called."""
        self.check_names([name])
        left = {known: server for known, server in self.config.servers.items() if known != name}
        self.config = replace(self.config, servers=left)
        del self._servers[name]
        await self._on_owner(lambda core: core.remove(name))

    async def tools(
        self,
        *servers: str,
        refresh: bool = False,
        include: Any = None,
        exclude: Any = None,
        access: Access | None = None,
        run: Run | None = None,
    ) -> list[Tool]:
        """List the tools of these servers, or of all of them.

        An optional server that fails is left out; `status()` says why. `include` and `exclude`
        narrow this list only, and tools that the policy denies whatever their arguments are left
        out. Servers whose credentials depend on the run are asked for `run`.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        self.check_names(servers)
        narrow = ToolFilter.of(include=include, exclude=exclude)
        names = servers or self.server_names
        accesses = {name: await self.access_for(name, run, access) for name in names}
        offer = await self._on_owner(
            lambda core: core.catalog.offer(servers, refresh=refresh, access=accesses)
        )
        await self._report(offer, named=servers)
        return [tool for tool in offer.tools if narrow.offers(tool) and not self.hides(tool)]

    async def search_tools(
        self, query: str, *servers: str, limit: int = 5, run: Run | None = None
    ) -> list[Tool]:
        """Find the tools that do what is asked for in a few words, the best first.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        index = self.deferring.index(await self.tools(*servers, run=run))
        return [match.tool for match in index.search(query, limit)]

    def is_waiting(self, server: str) -> bool:
        """Say whether a server was not needed yet, because its tools were known before."""
        return self._core.catalog.is_stored(server)

    async def access_for(
        self, server: str, run: Run | None, given: Access | None = None
    ) -> Access | None:
        """Find out whom a run acts for on a server; what is given wins.

        Raises:
            ConfigError: A function of the run failed.
        """
        self.check_names([server])
        return join(await access_for(server, self._servers[server], run), given)

    async def forget(self, thread_id: str) -> None:
        """Close the sessions that a conversation has to itself (`scope: thread`)."""
        await self._on_owner(lambda core: core.pool.forget_thread(str(thread_id)))

    async def _report(self, offer: Offer, named: Sequence[str]) -> None:
        """Raise, or say once, why servers have no tools to offer."""
        on_error = self._options.get("on_connection_error")
        self._reported &= set(offer.failures)
        for name, error in offer.failures.items():
            if name in named or self._servers[name].required:
                raise error
            if callable(on_error):
                told = on_error(name, error)
                if inspect.isawaitable(told):
                    await told
        if callable(on_error):
            return
        asked = set(named) or set(self.server_names) - self._core.catalog.shaping.unlisted
        if offer.failures and set(offer.failures) == asked:
            raise _one_error(offer.failures)
        for name in offer.failures.keys() - self._reported:
            self._reported.add(name)
            logger.warning("going on without %s: %s", name, offer.failures[name])

    def lock_report(self) -> LockReport:
        """Say how the tools that were listed so far stand to the lockfile; contacts nobody."""
        return self._core.catalog.lock_report()

    def tools_blocking(self, *servers: str, refresh: bool = False) -> list[Tool]:
        """Do what `tools` does, and block until it is done."""
        return self.run_blocking(self.tools, *servers, refresh=refresh)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
        on_question: ElicitationFnT | None = None,
        run: Run | None = None,
    ) -> ToolResult:
        """Call a tool by its wire name; what the tool itself calls a failure is a result.

        `on_question` answers what the server asks the user, in a client with `on_elicitation`; the
        time it takes does not count. `run` is what functions of the run get, such as
        `{"configurable": {"user": "ann"}}`.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        if server == OWN_SERVER:
            return await self.read_on(await self._reading_call(tool, arguments or {}, run))
        call = ToolCall(
            server=server,
            tool=tool,
            arguments=arguments or {},
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
            on_question=on_question,
            access=await self.access_for(server, run),
            run=mark_of(run),
        )
        return await self.carry_out(call)

    async def carry_out(self, call: ToolCall) -> ToolResult:
        """Make a call as overrides want it, and keep its result within the budget.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        try:
            completed = await self.completed(call, context=call)
        except PlaitError as error:
            # What overrides want is not known, because the server cannot be asked.
            result = await self._core.executor.run_instead(call, error)
        else:
            result = await self.execute(completed)
        return await self.bounded(result, call)

    async def _reading_call(
        self, tool: str, arguments: Mapping[str, Any], run: Run | None
    ) -> ToolCall:
        """Make a call of a tool of our own, for whom the run acts on the server it is about."""
        asked = self._bounds.server_of(arguments.get("handle"))
        access = await self.access_for(asked, run) if asked in self.server_names else None
        return ToolCall(
            server=OWN_SERVER, tool=tool, arguments=arguments, access=access, run=mark_of(run)
        )

    async def completed(self, call: ToolCall, *, context: object) -> ToolCall:
        """Return the call as overrides of the tool want it: renamed, filled in, injected.

        Functions among the overrides get the `context`.
        """
        tool = await self._recall(call)
        if tool is None or tool.override is None:
            return call
        return replace(call, arguments=await complete_arguments(tool, call.arguments, context))

    async def _recall(self, call: ToolCall) -> Tool | None:
        self.check_names([call.server])
        tool = self._core.catalog.known(call.server, call.tool, call.access)
        if tool is not None:
            return tool
        return await self._on_owner(
            lambda core: core.catalog.recall(call.server, call.tool, call.access)
        )

    async def decide(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> PolicyDecision:
        """Say what the policy decides about a call, without making it or asking anybody."""
        call = ToolCall(server=server, tool=tool, arguments=arguments or {})
        call = await self.completed(call, context=call)
        return self._gate.decide(call, await self._recall(call))

    async def permit(self, call: ToolCall, tool: Tool) -> ToolCall:
        """Hold a call to the policy that is not made by this toolbox itself.

        Raises:
            PermissionDeniedError: It must not be made.
        """
        return await self._gate.permit(call, tool)

    def hides(self, tool: Tool) -> bool:
        """Say whether a tool is left out of lists, because the policy denies every call of it."""
        return self._gate.hides(tool)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Make a call as it is.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        self.check_names([call.server])
        self._check_open()
        if not self._core.opened:
            await self._on_owner(_nothing)
        return await self._core.executor.run(call)

    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shorter one if it is larger than the call's budget.

        `call` does this by itself; whoever uses `execute` does it last. `reader` is the name
        under which the model knows the tool that reads on.
        """
        return await self._bounds.bounded(result, call, reader=reader)

    def own_tools(self, *, taken: Collection[str] = ()) -> list[Tool]:
        """Return the tools that the toolbox answers itself, under names that are not taken.

        With a result budget that is `read_more`, for results that are shortened; without one there
        is none. They are called like others: `call(tool.server, tool.wire_name, arguments)`.
        """
        if not self._bounds.are_set:
            return []
        name = READ_MORE
        while name in taken:
            name = f"mcp_{name}"
        return [self._bounds.reader(name)]

    async def read_on(self, call: ToolCall, *, reader: str = READ_MORE) -> ToolResult:
        """Answer a call of `read_more`, made by whoever made the call that was shortened.

        Raises:
            InvalidArgumentsError: The arguments are wrong.
            ResultExpiredError: The result is not kept (any more), or is somebody else's.
        """
        self._check_open()
        return await self._bounds.answer(call, reader=reader)

    def server_of_parked(self, handle: object) -> str | None:
        """Return the server that was asked for a result that is kept, or `None`."""
        return self._bounds.server_of(handle)

    def read_parked(self, handle: str) -> ToolResult:
        """Return the whole of a result that was shortened; for programs, whoever made the call.

        Raises:
            ResultExpiredError: It is not kept (any more).
        """
        return self._bounds.kept(handle)

    def call_blocking(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Do what `call` does, and block until it is done."""
        return self.run_blocking(
            self.call,
            server,
            tool,
            arguments,
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
        )


def _one_error(failures: Mapping[str, PlaitError]) -> PlaitError:
    if len(failures) == 1:
        return next(iter(failures.values()))
    reasons = "; ".join(str(error) for error in failures.values())
    text = f"none of the {len(failures)} servers can be used: {reasons}"
    return ConnectError(text, server=", ".join(failures))


async def _nothing(core: Core) -> None:
    """Do nothing; the parts are open after it."""
    del core


def _implementation(
    given: types.Implementation | Mapping[str, str] | None,
) -> types.Implementation:
    if given is None:
        return types.Implementation(name="plait", version=__version__)
    if isinstance(given, types.Implementation):
        return given
    return types.Implementation.model_validate(dict(given))
