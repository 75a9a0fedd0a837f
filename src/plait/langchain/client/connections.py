"""Types of connection dictionaries, with the names of langchain-mcp-adapters."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    import httpx2


class McpHttpClientFactory(Protocol):
    """Makes the HTTP client of a connection."""

    def __call__(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Return a client with these headers, limits and credentials."""
        ...


class StdioConnection(TypedDict):
    """A local program that speaks MCP on stdin and stdout."""

    transport: NotRequired[Literal["stdio"]]
    command: str
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str] | None]
    cwd: NotRequired[str | os.PathLike[str] | None]
    encoding: NotRequired[str]
    encoding_error_handler: NotRequired[Literal["strict", "ignore", "replace"]]
    session_kwargs: NotRequired[dict[str, Any] | None]


class _HttpConnection(TypedDict):
    url: str
    headers: NotRequired[dict[str, Any] | None]
    timeout: NotRequired[float | timedelta]
    sse_read_timeout: NotRequired[float | timedelta]
    session_kwargs: NotRequired[dict[str, Any] | None]
    httpx_client_factory: NotRequired[McpHttpClientFactory | None]
    auth: NotRequired[Any]


class SSEConnection(_HttpConnection):
    """A server on the older HTTP+SSE transport."""

    transport: Literal["sse"]


class StreamableHttpConnection(_HttpConnection):
    """A server on Streamable HTTP."""

    transport: NotRequired[Literal["http", "streamable_http", "streamable-http", "streamableHttp"]]
    terminate_on_close: NotRequired[bool]


class WebsocketConnection(TypedDict):
    """A server on a WebSocket."""

    transport: Literal["websocket", "ws"]
    url: str
    session_kwargs: NotRequired[dict[str, Any] | None]


Connection = StdioConnection | SSEConnection | StreamableHttpConnection | WebsocketConnection
"""A connection of any transport; the reference lists further keys."""
