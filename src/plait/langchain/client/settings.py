"""Types of what a client takes: connections, named as in langchain-mcp-adapters, and options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

from plait.client.options import ClientOptions

if TYPE_CHECKING:
    import httpx2
    from langchain_core.language_models import BaseChatModel

    from plait.client.calls.sampling import Sampler, Sampling
    from plait.langchain.tools.callbacks import Callbacks
    from plait.langchain.tools.content import HandlingLayer
    from plait.langchain.tools.interceptors import Hook, ToolCallInterceptor
    from plait.models.schemas.for_provider import Profile


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


class LangChainOptions(ClientOptions, total=False):
    """The options of `MultiServerMCPClient`: those of every client, and those for LangChain."""

    profile: Profile | None
    """Provider whose schema rules apply to tools."""
    resources_as_tools: bool | None
    """Add tools that list and read resources."""
    tool_interceptors: Sequence[ToolCallInterceptor] | None
    """Functions that wrap every call."""
    before_tool_call: Hook | None
    """Called before a call; may change its arguments and headers."""
    after_tool_call: Hook | None
    """Called after a call; may change its result."""
    handle_tool_errors: bool | None
    """Turn failures into messages that the model reads; `False` raises them."""
    on_auth_error: Literal["interrupt", "raise"] | None
    """Missing credentials interrupt a graph with a checkpointer, and are a message elsewhere."""
    output_handling: HandlingLayer
    """Which content the model reads, and which only the program gets."""
    use_standard_content_blocks: bool | None
    """Use LangChain's standard content blocks, or the older form."""
    callbacks: Callbacks | None
    """All callbacks in one object."""
    sampling: Sampling | BaseChatModel | Sampler | str | Mapping[str, Any] | None
    """Model that servers may use, and its limits."""
