"""The servers a client talks to, as typed and validated values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from plait.config.policies import ReconnectPolicy, Timeouts

if TYPE_CHECKING:
    from mcp.server import MCPServer, Server

Protocol = Literal["auto", "legacy", "2026-07-28"]
"""Which protocol era to speak: probe for it, the `initialize` handshake, or the modern one."""

TransportName = Literal["stdio", "http", "sse", "websocket", "in-process"]

Seconds = float | int | timedelta

Headers = Mapping[str, str] | Callable[..., Any]
"""Fixed headers, or a function that gives them for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What every kind of server may set."""

    required: bool = False
    """Whether a client without this server must fail."""

    protocol: Protocol = "auto"

    timeouts: Timeouts = field(default_factory=Timeouts)

    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)

    idle_seconds: float | None = None
    """Close the session after this long without a call; it is opened again on the next."""

    max_concurrency: int | None = None
    """Calls in flight at once; `None` is no limit."""

    include: Sequence[str] | None = None
    """Tools to offer, by wire name or glob; `None` is all of them, an empty list none."""

    exclude: Sequence[str] = ()

    output_handling: str | Mapping[str, str] | None = None

    client_options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """Further keyword arguments for the MCP SDK's client (`session_kwargs` of other adapters)."""

    source: str | None = None
    """The file this server was read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer(ServerOptions):
    """A program on this machine that speaks MCP on its standard input and output."""

    command: str

    args: Sequence[str] = ()

    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    inherit_env: bool | Sequence[str] = False
    """Variables passed on besides the usual ones: names, or `True` for all of them."""

    cwd: str | None = None

    encoding: str = "utf-8"

    encoding_error_handler: Literal["strict", "ignore", "replace"] = "replace"

    stderr: Literal["pipe", "inherit", "ignore", "overlapped"] = "pipe"
    """Where the child's standard error goes; with `pipe` its last lines are kept for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions(ServerOptions):
    """What every server with a URL may set."""

    url: str = field(repr=False)

    headers: Headers = field(default_factory=dict[str, str], repr=False)

    auth: Any = field(default=None, repr=False)
    """An `httpx2.Auth`, or an OAuth provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer(RemoteOptions):
    """A server on Streamable HTTP, with automatic fallback to the older SSE transport."""

    exchange_seconds: float = 30.0
    """One HTTP exchange: connecting, sending, and getting the first byte of a plain answer."""

    stream_read_seconds: float = 300.0
    """Silence allowed on an event stream."""

    automatic_sse_fallback: bool = True

    terminate_on_close: bool = True

    max_sse_event_size: int | None = None

    http_client_factory: Callable[..., Any] | None = field(default=None, repr=False)

    idle_seconds: float | None = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SseServer(RemoteOptions):
    """A server on the older HTTP+SSE transport."""

    exchange_seconds: float = 5.0

    stream_read_seconds: float = 300.0

    max_sse_event_size: int | None = None

    http_client_factory: Callable[..., Any] | None = field(default=None, repr=False)

    idle_seconds: float | None = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketServer(RemoteOptions):
    """A server on a WebSocket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessServer(ServerOptions):
    """An MCP server object in this process."""

    server: MCPServer | Server[Any] = field(repr=False)


ServerConfig = StdioServer | HttpServer | SseServer | WebSocketServer | InProcessServer
"""Any configured server."""


def transport_of(server: ServerConfig) -> TransportName:
    """Name the transport that reaches the server."""
    match server:
        case StdioServer():
            return "stdio"
        case HttpServer():
            return "http"
        case SseServer():
            return "sse"
        case WebSocketServer():
            return "websocket"
        case InProcessServer():
            return "in-process"
