"""Adds the tools of the gateway's servers to agents, and sends their chat history."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import MessageLikeRepresentation
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from plait._support.threads import in_thread
from plait.client.config.urls import public_url
from plait.client.connections.loop_bridge import LoopBridge, blocking
from plait.errors import ClientClosedError, ConfigError, PlaitError
from plait.gateway.configuration import GatewayOptions, McpToolServerConfigurationService
from plait.gateway.connections import Registration, ToolConnections
from plait.gateway.credentials import TokenSource
from plait.gateway.headers import GatewayRequestOptions, agent_of, tool_headers, user_key
from plait.gateway.history import OperationError, OperationResult
from plait.gateway.messages import LimitFrom, Roles, history_from_messages, limited
from plait.gateway.port import Authorization, TurnContext
from plait.langchain.client.spec import Agent, AgentSpec, name_of
from plait.langchain.tools.tool import MCPTool

logger = logging.getLogger("plait.gateway")

FROM_GATEWAY = "plait_gateway"
"""The metadata key of the tools that were added; the next turn replaces them."""

P = ParamSpec("P")
T = TypeVar("T")


class McpToolRegistrationService:
    """Adds tool servers to agents, and sends chat history.

    Create one for the whole program: connections are kept between turns, separately for each user,
    until `aclose`. The options are those of `McpToolServerConfigurationService`; `client_options`
    are those of `MultiServerMCPClient`, and `server_options` those of a server in `mcp.json`, such
    as `connect_timeout`. With `roles="strict"` messages of tools and functions are sent with the
    role of the assistant.

    Chat history: failures are returned; a missing argument raises `ConfigError`. `limit` keeps so
    many messages, the newest unless `limit_from` is `"start"`.
    """

    orchestrator_name = "LangChain"

    def __init__(
        self,
        configuration: McpToolServerConfigurationService | None = None,
        *,
        roles: Roles = "all",
        client_options: Mapping[str, Any] | None = None,
        server_options: Mapping[str, Any] | None = None,
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Take the service that lists servers, or the options to create it."""
        if configuration is not None and options:
            raise ConfigError(f"give a configuration or {', '.join(sorted(options))}, not both")
        self.configuration = configuration or McpToolServerConfigurationService(**options)
        self._roles: Roles = roles
        self._bridge = LoopBridge()
        self._connections = ToolConnections(client_options or {}, server_options)
        self._registrations: weakref.WeakKeyDictionary[Any, Registration] = (
            weakref.WeakKeyDictionary()
        )
        self._closed = False

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an asynchronous method of this service, and block until it is done."""
        return self._bridge.run_blocking(work, *args, **kwargs)

    async def add_tool_servers_to_agent(
        self,
        agent: Agent | AgentSpec,
        authorization: Authorization | None,
        auth_handler_name: str | None,
        turn_context: TurnContext,
        auth_token: str | None = None,
    ) -> Agent:
        """Return a new agent with the tools of its servers after its own.

        The original agent is not changed. A server that fails is left out; `registration_of` tells
        which. Tools of an earlier turn are replaced.

        Raises:
            TypeError: It is not known how the agent was made.
            TokenError: There is no token for the gateway.
            DiscoveryError: The gateway cannot be reached.
        """
        _require(agent=agent)
        spec = AgentSpec.of(agent)
        own = [tool for tool in spec.tools if not is_from_gateway(tool)]
        registration = await self.register(
            authorization,
            auth_handler_name,
            turn_context,
            auth_token,
            taken=[name_of(tool) for tool in own],
        )
        new = spec.with_tools([*own, *registration.tools]).create()
        self._registrations[new] = registration
        return new

    add_tool_servers_to_agent_blocking = blocking(add_tool_servers_to_agent)

    def registration_of(self, agent: Agent) -> Registration:
        """Return what an agent got from this service, and why servers are missing."""
        return self._registrations.get(agent) or Registration()

    async def register(
        self,
        authorization: Authorization | None,
        auth_handler_name: str | None,
        turn_context: TurnContext,
        auth_token: str | None = None,
        *,
        taken: Sequence[str] = (),
    ) -> Registration:
        """List the tools of a turn, under names that are not `taken`.

        Raises:
            TokenError: There is no token for the gateway.
            DiscoveryError: The gateway cannot be reached.
        """
        if self._closed:
            raise ClientClosedError("the service is closed")
        _require(turn_context=turn_context)
        settings = self.configuration.settings()
        options = GatewayRequestOptions(orchestrator_name=self.orchestrator_name)
        source = TokenSource(
            settings,
            authorization=authorization,
            auth_handler_name=auth_handler_name,
            turn=turn_context,
            token=auth_token or "",
            environ=self.configuration.environ,
        )
        shared = await source.shared()
        servers = await self.configuration.list_tool_servers(
            agent_of(turn_context, shared), shared, options, turn_context=turn_context
        )
        credentials = await source.for_servers(servers, shared)
        headers = functools.partial(
            tool_headers, settings, options, turn=turn_context, environ=self.configuration.environ
        )
        ready = [
            server.with_headers(headers(token=token))
            for server in servers
            if (token := credentials.tokens.get(server.mcp_server_name)) is not None
        ]
        user = user_key(turn_context, shared, accepted=not settings.use_manifest)
        listed = await self._connections.tools(user, ready, taken)
        for tool in listed.tools:
            tool.metadata = {**(tool.metadata or {}), FROM_GATEWAY: True}
        failures: dict[str, PlaitError] = {**credentials.failures, **listed.failures}
        urls = {
            server.mcp_server_name: public_url(server.url)
            for server in servers
            if server.mcp_server_name in failures
        }
        registration = replace(listed, skipped=servers.skipped, failures=failures, urls=urls)
        for name in failures:
            logger.warning("going on without the tools of %s", registration.failure_line(name))
        return registration

    async def send_chat_history(
        self,
        turn_context: TurnContext,
        graph: Any,
        config: RunnableConfig,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages in the state of a graph."""
        _require(turn_context=turn_context, graph=graph, config=config)
        try:
            read = getattr(graph, "aget_state", None) or functools.partial(
                in_thread, graph.get_state
            )
            state = cast("StateSnapshot", await read(config))
        except Exception as error:  # noqa: BLE001  # boundary: a checkpointer may raise anything
            return OperationResult.failed(OperationError(error))
        return await self.send_chat_history_from_state(
            turn_context, state, limit, tool_options, limit_from=limit_from
        )

    async def send_chat_history_from_state(
        self,
        turn_context: TurnContext,
        state_snapshot: StateSnapshot,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages of a state."""
        _require(turn_context=turn_context, state_snapshot=state_snapshot)
        values: object = state_snapshot.values
        messages = (
            cast("Mapping[str, Any]", values).get("messages")
            if isinstance(values, Mapping)
            else getattr(values, "messages", None)
        )
        if not isinstance(messages, list | tuple):
            raise ConfigError("state_snapshot must contain messages")
        return await self.send_chat_history_from_messages(
            turn_context,
            cast("Sequence[MessageLikeRepresentation]", messages),
            limit,
            tool_options,
            limit_from=limit_from,
        )

    async def send_chat_history_from_chat_history(
        self,
        turn_context: TurnContext,
        chat_history: BaseChatMessageHistory,
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send the messages of a message store."""
        _require(turn_context=turn_context, chat_history=chat_history)
        try:
            messages = await chat_history.aget_messages()
        except Exception as error:  # noqa: BLE001  # boundary: a store may raise anything
            return OperationResult.failed(OperationError(error))
        return await self.send_chat_history_from_messages(
            turn_context, messages, limit, tool_options, limit_from=limit_from
        )

    async def send_chat_history_from_messages(
        self,
        turn_context: TurnContext,
        messages: Sequence[MessageLikeRepresentation],
        limit: int | None = None,
        tool_options: GatewayRequestOptions | None = None,
        *,
        limit_from: LimitFrom = "end",
    ) -> OperationResult:
        """Send messages; those without text are left out, and an empty list is sent too."""
        _require(turn_context=turn_context, messages=messages)
        kept = limited(messages, limit, limit_from)
        try:
            history = history_from_messages(kept, datetime.now(UTC), roles=self._roles)
        except ConfigError as error:
            return OperationResult.failed(OperationError(error))
        name = None if tool_options is None else tool_options.orchestrator_name
        options = GatewayRequestOptions(orchestrator_name=name or self.orchestrator_name)
        return await self.configuration.send_chat_history(turn_context, history, options)

    send_chat_history_blocking = blocking(send_chat_history)
    send_chat_history_from_state_blocking = blocking(send_chat_history_from_state)
    send_chat_history_from_chat_history_blocking = blocking(send_chat_history_from_chat_history)
    send_chat_history_from_messages_blocking = blocking(send_chat_history_from_messages)

    async def aclose(self) -> None:
        """Close every connection; the tools of agents can no longer be called."""
        self._closed = True
        await self._connections.aclose()
        await self.configuration.aclose()
        await self._bridge.astop()

    def close(self) -> None:
        """Blocking form of `aclose`."""
        # Not in the loop of this service, which `aclose` stops.
        bridge = LoopBridge()
        try:
            bridge.run_blocking(self.aclose)
        finally:
            bridge.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _require(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ConfigError(f"{name} is required")


def is_from_gateway(tool: object) -> bool:
    """Say whether a tool was added by a registration service."""
    return isinstance(tool, MCPTool) and bool((tool.metadata or {}).get(FROM_GATEWAY))
