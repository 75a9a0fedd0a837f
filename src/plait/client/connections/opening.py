"""Opens one session: chooses protocol era and transport, remembering earlier sessions."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from mcp import Client, MCPError
from mcp.client.session import (
    ElicitationFnT,
    IncomingMessage,
    ListRootsFnT,
    LoggingFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    Implementation,
    LoggingLevel,
    SamplingCapability,
    SamplingToolsCapability,
    UnsupportedProtocolVersionErrorData,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from plait.client.config.servers import HttpServer, InProcessServer, ServerConfig, transport_of
from plait.client.connections.error_mapping import connect_failure, leaf_of, with_cause
from plait.client.transports.open import open_transport, sse_twin
from plait.client.transports.wire import Wire, watched_exchanges
from plait.errors import ConnectError, PlaitError

logger = logging.getLogger("plait.client.connections")

_FALLBACK_STATUS = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
    }
)
"""Statuses after which the server may know only the older SSE transport."""


_SAMPLING_WITH_TOOLS = SamplingCapability(tools=SamplingToolsCapability())


@dataclass(slots=True)
class ServerMemory:
    """What earlier sessions learned about a server."""

    era: Literal["legacy", "modern"] | None = None
    over_sse: bool = False
    ignored_probe: bool = False
    """Whether the last era probe got no answer."""

    def transport(self, server: ServerConfig) -> str:
        """Return the name of the transport that is in use."""
        return "sse" if self.over_sse else transport_of(server)


@dataclass(slots=True)
class SessionOptions:
    """Client info, log level and callbacks of a session."""

    client_info: Implementation | None = None
    log_level: LoggingLevel | None = None
    on_message: MessageHandlerFnT | None = None
    on_notification: Callable[[str, object], None] | None = None
    """Gets method and params of notifications that the SDK does not dispatch."""
    on_log: LoggingFnT | None = None
    on_elicitation: ElicitationFnT | None = None
    on_sampling: SamplingFnT | None = None
    sampling_tools: bool = False
    """Whether servers may pass tools in sampling requests."""
    on_roots: ListRootsFnT | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    def client_arguments(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the SDK's client; the server's `own` options win."""
        options = {
            "client_info": self.client_info,
            "log_level": self.log_level,
            "message_handler": self.on_message,
            "logging_callback": self.on_log,
            "elicitation_callback": self.on_elicitation,
            "sampling_callback": self.on_sampling,
            "sampling_capabilities": _SAMPLING_WITH_TOOLS if self.sampling_tools else None,
            "list_roots_callback": self.on_roots,
            # The catalog caches for all sessions; a second cache below it could only be stale.
            "cache": None,
            **self.extra,
            **own,
        }
        own_handler: MessageHandlerFnT | None = own.get("message_handler")
        if own_handler is not None and self.on_message is not None:
            options["message_handler"] = _both(self.on_message, own_handler)
        return options


def _both(first: MessageHandlerFnT, second: MessageHandlerFnT) -> MessageHandlerFnT:
    async def handle(message: IncomingMessage) -> None:
        await first(message)
        await second(message)

    return handle


async def enter_client(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client:
    """Open a session on the stack, in the caller's task.

    Raises:
        PlaitError: The server cannot be reached, or does not complete the handshake.
    """
    if isinstance(server, HttpServer) and memory.over_sse:
        return await _enter(stack, sse_twin(server), wire, memory, options)
    try:
        return await _enter(stack, server, wire, memory, options)
    except PlaitError as refused:
        if not isinstance(server, HttpServer) or not _may_be_sse(server, wire):
            raise
        wire.reply = None
        try:
            client = await _enter(stack, sse_twin(server), wire, memory, options)
        except PlaitError as second:
            text = f"{refused}; nor does it speak SSE: {second}"
            raise type(refused)(text, server=wire.server, status=refused.status) from second
        memory.over_sse = True
        logger.info("%s speaks the older SSE transport", wire.server)
        return client


def _may_be_sse(server: HttpServer, wire: Wire) -> bool:
    reply = wire.reply
    return (
        server.automatic_sse_fallback
        and reply is not None
        and reply.status in _FALLBACK_STATUS
        and reply.error_code is None
    )


async def _enter(
    stack: AsyncExitStack,
    server: ServerConfig,
    wire: Wire,
    memory: ServerMemory,
    options: SessionOptions,
) -> Client:
    # Some older servers ignore unknown requests, and the SDK waits 10 s for their answer.
    unknown = "legacy" if memory.ignored_probe else "auto"
    era = server.protocol if server.protocol != "auto" else memory.era or unknown
    mode = {"legacy": "legacy", "modern": "auto"}.get(era, era)
    memory.ignored_probe = mode == "auto"
    try:
        client = await _enter_as(stack, server, wire, mode, options)
    except ConnectError as refused:
        if server.protocol != "auto" or memory.era != "legacy" or refused.code is None:
            raise
        # It answered, but refused the handshake it knew before: probe its era again.
        memory.era = None
        client = await _enter_as(stack, server, wire, "auto", options)
    memory.ignored_probe = False
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    memory.era = "modern" if modern else "legacy"
    if options.log_level is not None and not modern:
        await set_log_level(client, options.log_level)
    return client


async def set_log_level(client: Client, level: LoggingLevel) -> None:
    """Set the log level of a handshake-era server that declares logging."""
    if client.server_capabilities.logging is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.session.set_logging_level(level)  # pyright: ignore[reportDeprecated]


async def _enter_as(
    stack: AsyncExitStack, server: ServerConfig, wire: Wire, mode: str, options: SessionOptions
) -> Client:
    arguments = options.client_arguments(server.client_options)
    if isinstance(server, InProcessServer):
        client = Client(server.server, mode=mode, **arguments)
    else:
        client = Client(open_transport(server, wire), mode=mode, **arguments)
    with watched_exchanges() as exchanges:
        try:
            async with AsyncExitStack() as attempt:
                await attempt.enter_async_context(client)
                if mode in MODERN_PROTOCOL_VERSIONS:
                    # The SDK does not verify a pinned version; discovery notices a dead server.
                    raw = await _discover(client, mode)
                    client.session.adopt(DiscoverResult.model_validate(raw))
                stack.push_async_exit(attempt.pop_all())
        except Exception as error:  # noqa: BLE001  # boundary: transports and the SDK may raise anything
            leaf = leaf_of(error, exchanges)
            failure = connect_failure(error, exchanges, wire)
        else:
            return client
    raise with_cause(failure, leaf, wire)


async def _discover(client: Client, version: str) -> dict[str, Any]:
    """Discover a modern server; retry once if it refuses a version that it then lists."""
    try:
        return await client.session.send_discover(version)
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION or version not in _supported(error):
            raise
    return await client.session.send_discover(version)


def _supported(refused: MCPError) -> list[str]:
    try:
        return UnsupportedProtocolVersionErrorData.model_validate(refused.error.data).supported
    except ValidationError:
        return []
