"""What users put around tool calls: interceptors, and the hooks before and after a call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypedDict, Unpack, cast, runtime_checkable

from langchain_core.messages import ToolMessage
from langgraph.types import Command
from mcp_types import CallToolResult, TextContent

from plait.errors import ConfigError

MCPToolCallResult = CallToolResult | ToolMessage | Command[Any]
"""What a call, or an interceptor in its place, may come to."""

Handler = Callable[["MCPToolCallRequest"], Awaitable[MCPToolCallResult]]


class _Overrides(TypedDict, total=False):
    name: str
    args: dict[str, Any]
    headers: dict[str, Any] | None


@dataclass
class MCPToolCallRequest:
    """A tool call on its way to the server."""

    name: str
    """The server's name for the tool."""

    args: dict[str, Any] = field(repr=False)

    server_name: str

    headers: dict[str, Any] | None = field(default=None, repr=False)
    """HTTP headers for this call, on top of the server's own.

    Calls with headers of their own get sessions of their own, shared by those with the same.
    """

    runtime: object | None = field(default=None, repr=False)
    """The LangGraph tool runtime (state, context, store), inside a graph."""

    def override(self, **overrides: Unpack[_Overrides]) -> MCPToolCallRequest:
        """Return the request with a new name, arguments or headers; this one stays as it is."""
        return replace(self, **overrides)


@runtime_checkable
class ToolCallInterceptor(Protocol):
    """Wraps calls: it may change the request, call the handler once, often or never, and answer."""

    async def __call__(self, request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        """Answer the request, usually by way of the handler."""
        ...


def chained(handler: Handler, interceptors: Sequence[ToolCallInterceptor]) -> Handler:
    """Wrap a handler in interceptors; the first of them is outermost."""
    for interceptor in reversed(interceptors):
        handler = _wrapped(interceptor, handler)
    return handler


def _wrapped(interceptor: ToolCallInterceptor, inner: Handler) -> Handler:
    async def handle(request: MCPToolCallRequest) -> MCPToolCallResult:
        return await interceptor(request, inner)

    return handle


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """A call that is over, as `after_tool_call` gets it."""

    server_name: str
    name: str
    args: Mapping[str, Any] = field(repr=False)
    result: MCPToolCallResult = field(repr=False)


Hook = Callable[..., Any]
"""Takes a call, and, if it has parameters for them, the graph's state and the run's config."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The interceptor that runs the hooks before and after a call."""

    config: Mapping[str, Any]
    before: Hook | None = None
    after: Hook | None = None

    async def __call__(self, request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        """Run the first hook, the call, and the second hook."""
        if self.before is not None:
            changes = await self._told(self.before, request, request)
            request = _changed(request, changes)
        result = await handler(request)
        if self.after is not None:
            end = ToolCallEnd(request.server_name, request.name, request.args, result)
            result = _answer(await self._told(self.after, end, request), result)
        return result

    async def _told(self, hook: Hook, subject: object, request: MCPToolCallRequest) -> Any:
        state = getattr(request.runtime, "state", None)
        told = hook(*(subject, state, self.config)[: _positions(hook)])
        return await told if inspect.isawaitable(told) else told


def _positions(hook: Hook) -> int:
    """Count how many of call, state and config a hook takes."""
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return 3
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return min(3, sum(one.kind in positional for one in parameters))


def _changed(request: MCPToolCallRequest, changes: Any) -> MCPToolCallRequest:
    if changes is None:
        return request
    if isinstance(changes, MCPToolCallRequest):
        return changes
    if isinstance(changes, Mapping):
        given = cast("Mapping[str, Any]", changes)
        unknown = sorted(set(given) - {"args", "headers"})
        if not unknown:
            return replace(
                request,
                args=dict(given["args"]) if "args" in given else request.args,
                headers=given.get("headers", request.headers),
            )
    raise ConfigError(
        "before_tool_call returns nothing, a request, or a mapping with args and headers"
    )


def _answer(given: Any, result: MCPToolCallResult) -> MCPToolCallResult:
    if isinstance(given, Mapping) and "result" in given:
        given = cast("Mapping[str, Any]", given)["result"]
    if given is None:
        return result
    if isinstance(given, CallToolResult | ToolMessage | Command):
        return cast("MCPToolCallResult", given)
    if isinstance(given, str):
        return CallToolResult(content=[TextContent(text=given)])
    raise ConfigError(
        "after_tool_call returns nothing, a text, a CallToolResult, a ToolMessage or a Command"
    )
