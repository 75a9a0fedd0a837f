"""Giving agents the tools of their gateway, and their chat history back to it."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, Unpack

from plait.client.config.urls import public_url
from plait.client.connections.loop_bridge import LoopBridge
from plait.errors import ClientClosedError, ConfigError, PlaitError
from plait.gateway.chat_blocking import BlockingChatSender
from plait.gateway.configuration import GatewayOptions, McpToolServerConfigurationService
from plait.gateway.connections import ToolConnections, Wanted
from plait.gateway.credentials import TokenSource
from plait.gateway.entries import GatewayServer, Skipped
from plait.gateway.headers import GatewayRequestOptions, tool_headers
from plait.gateway.messages import Roles
from plait.gateway.port import Authorization, TurnContext
from plait.gateway.settings import GatewaySettings
from plait.gateway.turns import agent_of, user_of
from plait.langchain.client.spec import Agent, AgentSpec, name_of
from plait.langchain.tools.tool import MCPTool

logger = logging.getLogger("plait.gateway")

FROM_GATEWAY = "plait_gateway"
"""Marks, in their metadata, the tools that were added; the next turn replaces them."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a turn got from the gateway, and what it did not."""

    tools: tuple[MCPTool, ...] = ()
    servers: tuple[str, ...] = ()
    """The servers whose tools are there."""

    skipped: tuple[Skipped, ...] = ()
    """Entries that cannot be used."""

    failures: Mapping[str, PlaitError] = field(default_factory=dict[str, PlaitError])
    """Servers that have no token or cannot be reached."""

    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where the servers that failed are."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers are missing, a line each, with their names and addresses."""
        failed = (_line(name, self.urls, error) for name, error in self.failures.items())
        return (*map(str, self.skipped), *failed)


class McpToolRegistrationService(BlockingChatSender):
    """Registers the tool servers of agents, and sends chat history.

    Meant to live as long as the program: connections are kept between turns, each user has their
    own, and `aclose` ends them. The options are those of `McpToolServerConfigurationService`;
    `client_options` are those of `MultiServerMCPClient`, and `server_options` those of a server's
    entry in `mcp.json`, such as `connect_timeout`.
    """

    def __init__(
        self,
        configuration: McpToolServerConfigurationService | None = None,
        *,
        roles: Roles = "all",
        client_options: Mapping[str, Any] | None = None,
        server_options: Mapping[str, Any] | None = None,
        **options: Unpack[GatewayOptions],
    ) -> None:
        """Take what finds the servers, or the options to make it of."""
        if configuration is not None and options:
            raise ConfigError(f"give a configuration or {', '.join(sorted(options))}, not both")
        self.configuration = configuration or McpToolServerConfigurationService(**options)
        super().__init__(self.configuration, roles=roles)
        self._connections = ToolConnections(client_options or {}, server_options)
        self._reports: weakref.WeakKeyDictionary[Any, Registration] = weakref.WeakKeyDictionary()
        self._closed = False

    async def add_tool_servers_to_agent(
        self,
        agent: Agent | AgentSpec,
        authorization: Authorization | None,
        auth_handler_name: str | None,
        turn_context: TurnContext,
        auth_token: str | None = None,
    ) -> Agent:
        """Return a new agent that has the tools of its servers too, after its own.

        The agent that is given stays as it is. A server that fails costs its own tools only:
        `registration_of` says which. Tools of an earlier turn are replaced.

        Raises:
            TypeError: It is not known how the agent was made.
            TokenError: There is no token for the gateway.
            DiscoveryError: The gateway cannot be asked.
        """
        if agent is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigError("agent is required")
        spec = AgentSpec.of(agent)
        own = [tool for tool in spec.tools if not is_from_gateway(tool)]
        found = await self.register(
            authorization,
            auth_handler_name,
            turn_context,
            auth_token,
            taken=[name_of(tool) for tool in own],
        )
        new = spec.with_tools([*own, *found.tools]).create()
        self._reports[new] = found
        return new

    def add_tool_servers_to_agent_blocking(
        self,
        agent: Agent | AgentSpec,
        authorization: Authorization | None,
        auth_handler_name: str | None,
        turn_context: TurnContext,
        auth_token: str | None = None,
    ) -> Agent:
        """Do what `add_tool_servers_to_agent` does, and block until it is done."""
        return self.run_blocking(
            self.add_tool_servers_to_agent,
            agent,
            authorization,
            auth_handler_name,
            turn_context,
            auth_token,
        )

    def registration_of(self, agent: Agent) -> Registration:
        """Say which servers an agent got from this service, and which it did not, and why."""
        return self._reports.get(agent) or Registration()

    async def register(
        self,
        authorization: Authorization | None,
        auth_handler_name: str | None,
        turn_context: TurnContext,
        auth_token: str | None = None,
        *,
        taken: Sequence[str] = (),
    ) -> Registration:
        """Find the tools of a turn; none of them is called as something that is `taken`.

        Raises:
            TokenError: There is no token for the gateway.
            DiscoveryError: The gateway cannot be asked.
        """
        if self._closed:
            raise ClientClosedError("the service is closed")
        if turn_context is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigError("turn_context is required")
        settings = self.configuration.settings()
        options = GatewayRequestOptions(orchestrator_name=self.orchestrator_name)
        source = TokenSource(
            settings,
            authorization=authorization,
            auth_handler_name=auth_handler_name,
            turn=turn_context,
            given=auth_token or "",
            environ=self.configuration.environ,
        )
        shared = await source.shared()
        agent = agent_of(turn_context, shared)
        listed = await self.configuration.list_tool_servers(
            agent, shared, options, turn_context=turn_context
        )
        credentials = await source.for_servers(listed, shared)
        wanted = [
            Wanted(one, self._headers(settings, options, one, token, turn_context))
            for one in listed
            if (token := credentials.tokens.get(one.mcp_server_name)) is not None
        ]
        found = await self._connections.tools(user_of(turn_context, shared), wanted, taken)
        for tool in found.tools:
            tool.metadata = {**(tool.metadata or {}), FROM_GATEWAY: True}
        failures: dict[str, PlaitError] = {**credentials.failures, **found.failures}
        urls = {
            one.mcp_server_name: public_url(one.url)
            for one in listed
            if one.mcp_server_name in failures
        }
        for name, error in failures.items():
            logger.warning("going on without the tools of %s", _line(name, urls, error))
        return Registration(found.tools, found.servers, listed.skipped, failures, urls)

    def _headers(
        self,
        settings: GatewaySettings,
        options: GatewayRequestOptions,
        server: GatewayServer,
        token: str,
        turn: TurnContext,
    ) -> dict[str, str]:
        """Return the headers for a server; what its entry says wins, its own token included."""
        headers = tool_headers(
            settings, options, token=token, turn=turn, environ=self.configuration.environ
        )
        said = {name.lower() for name in server.headers}
        kept = {name: value for name, value in headers.items() if name.lower() not in said}
        return {**kept, **server.headers}

    async def aclose(self) -> None:
        """Close every connection; the tools of agents can no longer be called."""
        self._closed = True
        await self._connections.aclose()
        await self.configuration.aclose()
        await self._bridge.astop()

    def close(self) -> None:
        """Do what `aclose` does, and block until it is done."""
        helper = LoopBridge()
        try:
            helper.run_blocking(self.aclose)
        finally:
            helper.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _line(name: str, urls: Mapping[str, str], error: PlaitError) -> str:
    place = f"{name} ({urls[name]})" if name in urls else name
    return f"{place}: {str(error).removeprefix(f'{name}: ')}"


def is_from_gateway(tool: object) -> bool:
    """Say whether a tool was added by a service like this."""
    return isinstance(tool, MCPTool) and bool((tool.metadata or {}).get(FROM_GATEWAY))
