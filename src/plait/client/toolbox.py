"""The toolbox: every server's tools, resources and prompts behind one door, for any framework."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack, cast

import mcp_types as types
from mcp.client.session import ElicitationFnT

from plait._version import __version__
from plait.client.calls.callbacks import OnLog, ServerCallbacks
from plait.client.calls.result_budget.limiter import ResultLimiter
from plait.client.calls.sampling import Sampler, Sampling
from plait.client.catalog.catalog import DiscoveredTools
from plait.client.catalog.deferral import DeferralPlan
from plait.client.catalog.filters import ToolFilter
from plait.client.catalog.lock.guard import LockReport
from plait.client.catalog.tool import Tool
from plait.client.client_identity import ClientIdentity
from plait.client.config.read import ClientConfig, ConfigSource, read_config, read_options
from plait.client.config.servers import server_with_defaults
from plait.client.connections.credentials import CallerCredentials
from plait.client.options import (
    ClientOptions,
    call_settings_from,
    catalog_options_from,
    check_fallbacks,
    lock_from,
    unused_options,
)
from plait.client.roots import Roots, roots_callback
from plait.client.run_identity import Run
from plait.client.runtime import Core
from plait.client.tool_calls import ToolCalls
from plait.errors import ConnectError, PlaitError
from plait.traces.observer import Observer

logger = logging.getLogger("plait.client.calls")


class Toolbox(ToolCalls):
    """All servers of a configuration.

    Servers are contacted when they are first needed. Used as `async with Toolbox(...)`, its
    connections live in the caller's loop; otherwise in a loop of their own, and every method can
    be called from any loop and any thread. Code without a loop uses the forms that end in
    `_blocking`, or `run_blocking` for the other methods.
    """

    OPTIONS: ClassVar = frozenset(ClientOptions.__annotations__)
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
        follow_tools: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Take the servers; whoever lists tools only once does without `follow_tools`.

        Modern servers are then not asked to announce changes of their tools.
        """
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
        self._limiter = ResultLimiter(
            self._options.get("result_budget"),
            self._servers,
            counter=self._options.get("token_counter"),
        )
        call_settings = call_settings_from(
            self._options,
            default_seconds=default_tool_timeout or self.config.default_tool_timeout,
            observers=observers,
        )
        self._policy_check = call_settings.policy_check
        self.deferring = DeferralPlan(
            self._options.get("defer"), self._servers, counter=self._options.get("token_counter")
        )
        super().__init__(
            partial(
                Core,
                self._servers,
                options_for=ClientIdentity(
                    client_info=_implementation(client_info),
                    log_level=cast("types.LoggingLevel | None", level),
                    on_elicitation=on_elicitation,
                    on_roots=None if roots is None else roots_callback(roots),
                ),
                callbacks=callbacks,
                options=replace(
                    catalog_options_from(self._options),
                    lock=lock_from(self._options, self.config.source),
                ),
                call_settings=call_settings,
                sampling=Sampling.of(on_sampling),
                follow_tools=follow_tools,
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
        access: CallerCredentials | None = None,
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
            lambda core: core.catalog.discover(servers, refresh=refresh, access=accesses)
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

    @property
    def sanitizes(self) -> bool:
        """Whether texts of servers reach a model without the characters that hide something."""
        return self._options.get("sanitize", True)

    def is_waiting(self, server: str) -> bool:
        """Say whether a server was not needed yet, because its tools were known before."""
        return self._core.catalog.is_stored(server)

    async def forget(self, thread_id: str) -> None:
        """Close the sessions that a conversation has to itself (`scope: thread`)."""
        await self._on_owner(lambda core: core.pool.forget_thread(str(thread_id)))

    async def _report(self, offer: DiscoveredTools, named: Sequence[str]) -> None:
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
        asked = set(named) or set(self.server_names) - self._core.catalog.options.unlisted
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


def _one_error(failures: Mapping[str, PlaitError]) -> PlaitError:
    if len(failures) == 1:
        return next(iter(failures.values()))
    reasons = "; ".join(str(error) for error in failures.values())
    text = f"none of the {len(failures)} servers can be used: {reasons}"
    return ConnectError(text, server=", ".join(failures))


def _implementation(
    given: types.Implementation | Mapping[str, str] | None,
) -> types.Implementation:
    if given is None:
        return types.Implementation(name="plait", version=__version__)
    if isinstance(given, types.Implementation):
        return given
    return types.Implementation.model_validate(dict(given))
