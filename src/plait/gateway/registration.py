"""Adds the tools of the gateway's servers to agents, and sends their chat history."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import threading
import uuid
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack, cast

import httpx2
from cachetools import LRUCache
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    BaseMessage,
    ChatMessage,
    MessageLikeRepresentation,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, StateSnapshot

from plait._support.clock import SystemClock
from plait._support.mappings import entries_of as mapping_of
from plait._support.threads import in_thread
from plait.client.catalog.names import with_public_names
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_config
from plait.client.config.servers import HttpServer
from plait.client.config.urls import public_url
from plait.client.connections.credentials import CallerCredentials
from plait.client.connections.loop_bridge import LoopBridge, blocking
from plait.errors import ClientClosedError, ConfigError, GatewayError, PlaitError
from plait.gateway.configuration import (
    GatewayOptions,
    McpToolServerConfigurationService,
    SharedCache,
)
from plait.gateway.credentials import (
    GatewayRequestOptions,
    TokenSource,
    agent_of,
    tool_headers,
    user_key,
)
from plait.gateway.history import (
    Authorization,
    ChatHistoryMessage,
    OperationError,
    OperationResult,
    TurnContext,
)
from plait.gateway.manifest import GatewayServer, SkippedServer
from plait.langchain.client.client import MultiServerMCPClient
from plait.langchain.client.middleware import error_message, run_of, with_note
from plait.langchain.client.spec import Agent, AgentSpec, name_of
from plait.langchain.tools.model_support import profile_of, readable_by
from plait.langchain.tools.tool import MCPTool

MAX_USERS = 1024
"""How many credentials are kept, by user and server; the least recently used is dropped.

Far more than the tool lists that a client caches by credentials.
"""


class TurnAuth(httpx2.Auth):
    """Adds the headers of a user's latest turn to every request to one server."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Add the headers."""
        request.headers.update(self.headers)
        yield request


@dataclass(frozen=True, slots=True)
class Registration:
    """The tools that a turn got from the gateway, and the servers that failed."""

    tools: tuple[MCPTool, ...] = ()
    servers: tuple[str, ...] = ()
    """The servers whose tools are included."""
    skipped: tuple[SkippedServer, ...] = ()
    """Entries that cannot be used."""
    failures: Mapping[str, PlaitError] = field(default_factory=dict[str, PlaitError])
    """Servers without a token, or that cannot be reached."""
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """The URLs of the servers that failed."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each missing server: its name, its URL and the reason."""
        failed = (self.failure_line(name) for name in self.failures)
        return (*map(str, self.skipped), *failed)

    def failure_line(self, name: str) -> str:
        """Describe why a server failed."""
        place = f"{name} ({self.urls[name]})" if name in self.urls else name
        return f"{place}: {str(self.failures[name]).removeprefix(f'{name}: ')}"


class ToolConnections:
    """Connects to the servers of all agents of a service.

    Agents whose servers have the same name and URL share their configuration, and nothing else.
    """

    def __init__(
        self, options: Mapping[str, Any], server_options: Mapping[str, Any] | None = None
    ) -> None:
        """Take the options of the client and of its servers."""
        entry = {**(server_options or {}), "url": "http://localhost"}
        self._template = read_config({"mcpServers": {"server": entry}}).servers["server"]
        self._client = MultiServerMCPClient({}, **options)
        self._lock = threading.Lock()
        self._names: dict[tuple[str, str], str] = {}
        """The name of a server in the client, by its own name and URL."""
        self._added: SharedCache[None] = SharedCache(math.inf, SystemClock(), max_entries=2**31)
        self._auths: LRUCache[tuple[str, str], TurnAuth] = LRUCache(MAX_USERS)

    async def tools(
        self, user: str, servers: Sequence[GatewayServer], taken: Sequence[str] = ()
    ) -> Registration:
        """List the tools of these servers, each with the headers of one turn, for a user.

        Tools with the same name, or one that is taken, are prefixed with their server's name.
        """
        failures: dict[str, PlaitError] = {}
        own_names: list[str] = []
        auths: dict[str, TurnAuth] = {}
        for server in servers:
            own_name = server.mcp_server_name
            try:
                name = self._name(server)
                # Typed, since variables in the URL of an untyped configuration would be expanded.
                config = replace(cast("HttpServer", self._template), url=server.url)
                # Once; its connections close by themselves when they are idle.
                add = partial(self._client.toolbox.add_server, name, config)
                await self._added.get(name, add)
            except ConfigError as error:  # such as a name that no server may have
                failures[own_name] = error
                continue
            own_names.append(own_name)
            # The same credentials for the same user, with the headers of this turn.
            with self._lock:
                auths[name] = self._auths.setdefault((user, name), TurnAuth())
            auths[name].headers = dict(server.headers)
        results = await asyncio.gather(
            *(self._client.get_tools(name, auth=auth) for name, auth in auths.items()),
            return_exceptions=True,
        )
        listed: list[Tool] = []
        for name, result in zip(own_names, results, strict=True):
            if isinstance(result, PlaitError):
                failures[name] = result
            elif isinstance(result, BaseException):
                raise result
            else:
                listed += [tool.tool for tool in result if isinstance(tool, MCPTool)]
        runners = {
            name: self._client.runner(CallerCredentials(auth=auth)) for name, auth in auths.items()
        }
        named = with_public_names(listed, taken=taken)
        tools = tuple(MCPTool(tool, runners[tool.server]) for tool in named)
        reached = tuple(name for name in own_names if name not in failures)
        return Registration(tools, reached, failures=failures)

    def _name(self, server: GatewayServer) -> str:
        with self._lock:
            key = (server.mcp_server_name, server.url)
            if key not in self._names:
                # Another server may have such a name by itself: credentials must not go there.
                longer = f"{key[0]}_{hashlib.sha256(server.url.encode()).hexdigest()[:8]}"
                names = chain([key[0], longer], (f"{longer}_{number}" for number in count(2)))
                taken = set(self._names.values())
                self._names[key] = next(name for name in names if name not in taken)
            return self._names[key]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


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
        own = [
            tool
            for tool in spec.tools
            if not (isinstance(tool, MCPTool) and (tool.metadata or {}).get(FROM_GATEWAY))
        ]
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
        # The host exchanges tokens for the user whom it has signed in; others may be forged.
        is_exchanged = not (source.token or settings.development)
        servers = await self.configuration.list_tool_servers(
            agent_of(turn_context, shared),
            shared,
            options,
            turn_context=turn_context,
            owner=user_key(turn_context, shared) if is_exchanged else "",
        )
        credentials = await source.for_servers(servers, shared)
        headers = partial(
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
            read = getattr(graph, "aget_state", None) or partial(in_thread, graph.get_state)
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
        messages = mapping_of(values).get("messages", getattr(values, "messages", None))
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
        messages: Iterable[MessageLikeRepresentation],
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


Roles = Literal["all", "strict"]
"""Whether messages of tools and functions keep their roles, or get that of the assistant."""

LimitFrom = Literal["end", "start"]
"""Which messages a limit keeps: the newest, or the oldest."""

_TOOL_ROLES = frozenset({"tool", "function"})
_ROLES = {"human": "user", "ai": "assistant", "system": "system"}


def limited(messages: Iterable[T], limit: int | None, limit_from: LimitFrom) -> Sequence[T]:
    """Keep at most `limit` messages; a negative limit is ignored.

    Raises:
        ConfigError: The messages are no list of messages, or the limit is no whole number.
    """
    given, kind = cast("object", messages), type(messages).__name__
    if isinstance(given, str | Mapping | BaseMessage) or not isinstance(given, Iterable):
        raise ConfigError(f"messages takes a list of messages, not one {kind}")
    kept = list(messages)
    if limit is None:
        return kept
    if not isinstance(limit, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"limit takes a whole number, not {limit!r}")
    if limit < 0:
        return kept
    return kept[:limit] if limit_from == "start" else kept[max(0, len(kept) - limit) :]


def history_from_messages(
    messages: Sequence[MessageLikeRepresentation], now: datetime, *, roles: Roles = "all"
) -> list[ChatHistoryMessage]:
    """Convert messages; those without text, or that cannot be read, are left out."""
    history: list[ChatHistoryMessage] = []
    for place, item in enumerate(messages):
        message = item
        if not isinstance(message, BaseMessage):
            try:
                (message,) = convert_to_messages([item])
            except Exception as error:
                kind = type(item).__name__
                text = f"message {place + 1} is no message, but of type {kind}"
                raise ConfigError(text) from error
        try:
            content = text_of(message)
            role = role_of(message, roles)
            identity = message.id or str(uuid.uuid4())
        except Exception as error:  # noqa: BLE001  # boundary: messages may be of any class
            logger.warning("message %d cannot be read: %s", place + 1, type(error).__name__)
            continue
        if not content.strip():
            logger.debug("message %d (%s) has no text", place + 1, role)
            continue
        history.append(ChatHistoryMessage(id=identity, role=role, content=content, timestamp=now))
    return history


def role_of(message: BaseMessage, roles: Roles = "all") -> str:
    """Return the role of a message."""
    kind = message.type.removesuffix("MessageChunk").lower()
    role = kind if kind in _TOOL_ROLES else _ROLES.get(kind, "user")
    if isinstance(message, ChatMessage) or kind == "chat":
        role = str(getattr(message, "role", "") or "user")
    return "assistant" if roles == "strict" and role in _TOOL_ROLES else role


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: its `text`, its content, or its parts joined."""
    text = str(message.text)
    if text.strip():
        return text
    content: Any = message.content
    if isinstance(content, str):
        return content
    parts: list[object] = [mapping_of(part).get("text", part) for part in content]
    return " ".join(part for part in parts if isinstance(part, str) and part)


ToolAnswer = ToolMessage | Command[Any]

TurnOf = Callable[[Mapping[str, Any]], TurnContext]
"""Returns the turn of a run."""


def turn_of(run: Mapping[str, Any]) -> TurnContext:
    """Return the turn of a run: `turn_context` in its `configurable`, or in its context."""
    context: Any = run.get("context")
    sources: tuple[Any, ...] = (run.get("configurable"), context)
    for source in sources:
        if isinstance(source, Mapping):
            turn: object = cast("Mapping[str, Any]", source).get("turn_context")
        else:
            turn = getattr(source, "turn_context", None)
        if turn is not None:
            return cast("TurnContext", turn)
    if hasattr(context, "activity"):
        return cast("TurnContext", context)
    raise ConfigError(
        "the run has no turn: give the context of the agent a turn_context, or "
        '{"configurable": {"turn_context": ...}}'
    )


class GatewayToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Offers the tools of the gateway to the model, for the user of each turn.

    If the gateway fails, the run continues without its tools; a note tells the model, unless
    `report_unavailable` is false.
    """

    def __init__(
        self,
        service: McpToolRegistrationService,
        authorization: Authorization | None = None,
        auth_handler_name: str | None = None,
        *,
        turn_of: TurnOf = turn_of,
        report_unavailable: bool = True,
    ) -> None:
        super().__init__()
        self._service = service
        self._authorization = authorization
        self._handler = auth_handler_name
        self._turn_of = turn_of
        self._report_unavailable = report_unavailable
        self._turns: weakref.WeakKeyDictionary[
            Any, tuple[weakref.ReferenceType[Any], Registration]
        ] = weakref.WeakKeyDictionary()
        """The turn itself and its registration, of each turn in use: another may be equal to it."""

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Add the tools to a model call."""
        return await handler(await self._with_tools(request, run_of(request)))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Blocking form of `awrap_model_call`."""
        return handler(self._service.run_blocking(self._with_tools, request, run_of(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Run a tool of the gateway, or return an error if there is none."""
        if request.tool is not None:
            return await handler(request)
        tool = await self._find(request.tool_call["name"], run_of(request))
        return (
            _unknown_tool(request) if tool is None else await handler(request.override(tool=tool))
        )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Blocking form of `awrap_tool_call`."""
        if request.tool is not None:
            return handler(request)
        name = request.tool_call["name"]
        tool = self._service.run_blocking(self._find, name, run_of(request))
        return _unknown_tool(request) if tool is None else handler(request.override(tool=tool))

    async def _with_tools(
        self, request: ModelRequest[Any], run: Mapping[str, Any]
    ) -> ModelRequest[Any]:
        taken = [name_of(tool) for tool in request.tools]
        registration = await self._registration(run, taken)
        profile = profile_of(request.model)
        tools = [*request.tools, *(tool.with_profile(profile) for tool in registration.tools)]
        messages = readable_by(request.model, request.messages)
        changed = request.override(tools=tools, messages=messages)
        skipped = (server.name for server in registration.skipped)
        names = sorted({*registration.failures, *skipped})
        if not names or not self._report_unavailable:
            return changed
        note = f"These tool servers are unavailable at the moment: {', '.join(names)}."
        return changed.override(system_message=with_note(request.system_message, note))

    async def _registration(self, run: Mapping[str, Any], taken: list[str]) -> Registration:
        turn = self._turn_of(run)
        with contextlib.suppress(TypeError):  # a turn that cannot be hashed is not cached
            known = self._turns.get(turn)
            if known is not None and known[0]() is turn:
                return known[1]
        try:
            registration = await self._service.register(
                self._authorization, self._handler, turn, taken=taken
            )
        except GatewayError as error:
            logger.warning("going on without the gateway: %s", error)
            return Registration(failures={"the gateway": error})
        with contextlib.suppress(TypeError):
            self._turns[turn] = (weakref.ref(turn), registration)
        return registration

    async def _find(self, name: str, run: Mapping[str, Any]) -> BaseTool | None:
        registration = await self._registration(run, [])
        return next((tool for tool in registration.tools if tool.name == name), None)


def _unknown_tool(request: ToolCallRequest) -> ToolMessage:
    name = request.tool_call["name"]
    return error_message(request, f"There is no tool {name!r}. Use one of those that are offered.")
