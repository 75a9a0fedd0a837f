"""The client for LangChain and LangGraph: the tools of many servers, in one list."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, ParamSpec, TypeVar, cast

import mcp_types as types
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from plait.client.calls.approval import OnApproval
from plait.client.calls.callbacks import OnAnyProgress, OnNotice
from plait.client.calls.fallback import BeforeFallback
from plait.client.calls.result_budget.bounds import READ_MORE
from plait.client.calls.sampling import Sampler, Sampling
from plait.client.catalog.deferral import Split
from plait.client.catalog.lock.guard import LockMode
from plait.client.catalog.schemas import Profile
from plait.client.catalog.tokens import TokenCounter
from plait.client.config.policy_file import PolicySource
from plait.client.config.read import ConfigSource, read_options
from plait.client.connections.credentials import Access
from plait.client.roots import Roots
from plait.client.toolbox import Toolbox
from plait.langchain.client.client_features import ClientFeatures
from plait.langchain.client.deferred import Selection, deferred_tools
from plait.langchain.client.loading import log_callback, question_callback
from plait.langchain.client.read_more import read_more_tools
from plait.langchain.client.resource_tools import resource_tools
from plait.langchain.client.sampling import sampling_from
from plait.langchain.client.server_list import Roster
from plait.langchain.client.settings import HEARD, OPTIONS, settings_from
from plait.langchain.tools.callbacks import Callbacks
from plait.langchain.tools.interceptors import Hook, ToolCallInterceptor
from plait.langchain.tools.output_handling import HandlingLayer
from plait.langchain.tools.runner import ToolRunner
from plait.langchain.tools.tool import MCPTool
from plait.traces.observer import Observer

logger = logging.getLogger("plait.langchain")

P = ParamSpec("P")
T = TypeVar("T")


class MultiServerMCPClient(ClientFeatures):
    """The tools, prompts and resources of many MCP servers, for LangChain and LangGraph.

    Takes the servers, a whole configuration with its options, or the path of a file; options
    given here win over those in the file. Servers are contacted when they are first needed, and
    connections last and heal. `close`, `aclose` or a `with` block ends them.
    """

    def __init__(
        self,
        connections: ConfigSource | None = None,
        *,
        callbacks: Callbacks | None = None,
        tool_interceptors: Sequence[ToolCallInterceptor] | None = None,
        tool_name_prefix: bool | None = None,
        handle_tool_errors: bool | None = None,
        throw_on_load_error: bool | None = None,
        prefix_tool_name_with_server_name: bool | None = None,
        additional_tool_name_prefix: str | None = None,
        use_standard_content_blocks: bool | None = None,
        output_handling: HandlingLayer = None,
        default_tool_timeout: Any = None,
        tool_timeouts: Mapping[str, Any] | None = None,
        on_connection_error: Literal["throw", "ignore"] | Callable[..., Any] | None = None,
        on_auth_error: Literal["interrupt", "raise"] | None = None,
        before_tool_call: Hook | None = None,
        after_tool_call: Hook | None = None,
        include: Any = None,
        exclude: Any = None,
        tool_filter: Callable[..., bool] | None = None,
        tool_overrides: Mapping[str, Any] | None = None,
        on_collision: Literal["prefix", "error"] | None = None,
        fallbacks: Mapping[str, str] | None = None,
        before_fallback: BeforeFallback | None = None,
        cache: bool | float | None = None,
        result_cache: Any = None,
        result_budget: Any = None,
        token_counter: TokenCounter | None = None,
        call_budget: Any = None,
        defer: Any = None,
        validate_arguments: bool | None = None,
        policy: PolicySource | None = None,
        on_approval: OnApproval | None = None,
        resources_as_tools: bool | None = None,
        profile: Profile | None = None,
        lockfile: str | os.PathLike[str] | bool | None = None,
        lock: LockMode | None = None,
        sanitize: bool | None = None,
        client_info: types.Implementation | Mapping[str, str] | None = None,
        roots: Roots | None = None,
        sampling: Sampling | BaseChatModel | Sampler | str | Mapping[str, Any] | None = None,
        log_level: types.LoggingLevel | None = None,
        observers: Sequence[Observer] | None = None,
        on_message: OnNotice | None = None,
        on_progress: OnAnyProgress | None = None,
        on_initialized: OnNotice | None = None,
        on_cancelled: OnNotice | None = None,
        on_tools_list_changed: OnNotice | None = None,
        on_prompts_list_changed: OnNotice | None = None,
        on_resources_list_changed: OnNotice | None = None,
        on_roots_list_changed: OnNotice | None = None,
        on_resources_updated: OnNotice | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in OPTIONS}
        given = read_options({name: value for name, value in given.items() if value is not None})
        self._roster = Roster(connections)
        config = self._roster.config
        options: dict[str, Any] = {**config.options, **given}
        if unused := ", ".join(sorted(options.keys() - OPTIONS)):
            logger.warning("a LangChain client makes no use of these options: %s", unused)
        callbacks = cast("Callbacks", options.get("callbacks") or Callbacks())
        self.callbacks = callbacks.joined(options)
        own = {name: options[name] for name in options.keys() & Toolbox.OPTIONS - HEARD}
        own |= self.callbacks.notices()
        self._toolbox = Toolbox(
            replace(config, options={}),
            default_tool_timeout=given.get("default_tool_timeout"),
            client_info=options.get("client_info"),
            roots=options.get("roots"),
            log_level=options.get("log_level"),
            on_log=log_callback(self.callbacks),
            on_elicitation=question_callback(self.callbacks),
            on_sampling=sampling_from(options.get("sampling")),
            observers=options.get("observers") or (),
            **own,
        )
        self.tool_interceptors: list[ToolCallInterceptor] = list(
            options.get("tool_interceptors") or ()
        )
        self.handle_tool_errors = bool(options.get("handle_tool_errors", True))
        self.raises_auth_errors = options.get("on_auth_error") == "raise"
        self.profile: Profile | None = options.get("profile")
        self._options = options

    async def get_tools(
        self,
        *servers: str | Sequence[str],
        server_name: str | None = None,
        include: Any = None,
        exclude: Any = None,
        refresh: bool = False,
        profile: Profile | None = None,
        headers: Mapping[str, Any] | None = None,
        auth: Any = None,
        config: Mapping[str, Any] | None = None,
        defer: bool = True,
        messages: Sequence[BaseMessage] | None = None,
    ) -> list[BaseTool]:
        """Return the tools of these servers, or of all of them.

        An optional server that fails is left out; `status()` says why. Tools that were returned
        keep working when their server is restarted. With `headers` or `auth` the tools are
        listed and called with these credentials; `config` is the run for which they are listed
        on servers whose credentials depend on the run.

        Where the client defers tools, those are not in the list, but `search_tools` and
        `call_tool` are. With the `messages` of a conversation it has those that were found in it,
        and no `call_tool`; `defer=False` returns all tools.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        await self._synced()
        names = _flat(servers, server_name)
        if not names and not self._toolbox.server_names:
            return []
        selection = Selection(
            toolbox=self._toolbox,
            servers=tuple(names),
            include=include,
            exclude=exclude,
            access=Access.of(headers, auth),
        )
        found = await selection.listed(config, refresh=refresh)
        split = self._toolbox.deferring.split(found) if defer else Split(tuple(found))
        taken = {tool.name for tool in found}
        settings = self.runner(selection.access).settings
        readers = read_more_tools(
            self._toolbox, taken=taken, settings=settings, access=selection.access
        )
        reader = readers[0].name if readers else READ_MORE
        runner = self.runner(selection.access, reader=reader)
        shape = profile or self.profile
        tools: list[BaseTool] = []
        tools += [MCPTool(tool, runner, profile=shape) for tool in split.shown]
        if self._options.get("resources_as_tools"):
            taken |= {reader}
            tools += resource_tools(
                self._toolbox, names, taken=taken, settings=settings, reader=reader
            )
        own = [*readers, *deferred_tools(split, runner, selection, taken, messages)]
        return [*tools, *(tool.with_profile(shape) for tool in own)]

    def get_tools_blocking(
        self,
        *servers: str | Sequence[str],
        server_name: str | None = None,
        include: Any = None,
        exclude: Any = None,
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
        """Ask the servers for their tools again, and return them.

        Raises:
            PlaitError: That failed; the tools listed before are kept.
        """
        return await self.get_tools(*servers, refresh=True)

    async def initialize_connections(self) -> dict[str, list[BaseTool]]:
        """Open every server, and return the tools of each."""
        tools = await self.get_tools()
        found: dict[str, list[BaseTool]] = {name: [] for name in self._toolbox.server_names}
        for tool in tools:
            if isinstance(tool, MCPTool) and tool.tool.server in found:
                found[tool.tool.server].append(tool)
        return found

    def runner(
        self,
        access: Access | None = None,
        *,
        handle_tool_errors: bool | None = None,
        reader: str = READ_MORE,
    ) -> ToolRunner:
        """Return what runs the tools of this client; `reader` is the tool that reads on."""
        handled = self.handle_tool_errors if handle_tool_errors is None else handle_tool_errors
        options = {
            **self._options,
            "callbacks": self.callbacks,
            "tool_interceptors": self.tool_interceptors,
            "handle_tool_errors": handled,
        }
        settings = settings_from(options, self._toolbox.config.servers)
        return ToolRunner(self._toolbox, settings, access=access, reader=reader)


def _flat(servers: Sequence[str | Sequence[str]], server_name: str | None) -> list[str]:
    names: list[str] = []
    for one in servers:
        names += [one] if isinstance(one, str) else one
    return names if server_name is None else [*names, server_name]
