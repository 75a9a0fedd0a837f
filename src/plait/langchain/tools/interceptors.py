"""Interceptors around tool calls, and the hooks before and after a call."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
    runtime_checkable,
)

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait._support.own_types import own_type
from plait.errors import ConfigError
from plait.langchain.tools.content import ToolOutput

if TYPE_CHECKING:
    MCPToolCallResult: TypeAlias = types.CallToolResult | ToolMessage | Command[Any]
    """What a call, or an interceptor instead of it, returns."""

Handler = Callable[["MCPToolCallRequest"], Awaitable["MCPToolCallResult"]]


def __getattr__(name: str) -> Any:
    # The types of MCP are imported when somebody asks for the alias.
    if name == "MCPToolCallResult":
        return types.CallToolResult | ToolMessage | Command[Any]
    raise AttributeError(name)


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
    """HTTP headers besides the server's own; calls with the same headers share a session."""
    runtime: object | None = field(default=None, repr=False)
    """The LangGraph tool runtime (state, context, store), inside a graph."""

    def override(self, **overrides: Unpack[_Overrides]) -> MCPToolCallRequest:
        """Return a copy of the request with another name, arguments or headers."""
        return replace(self, **overrides)


@runtime_checkable
class ToolCallInterceptor(Protocol):
    """Wraps calls: it may change the request, the result, and how often the handler is called."""

    async def __call__(self, request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        """Return the result of the request, usually that of the handler."""
        ...


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """A finished call, the first argument of `after_tool_call`."""

    server_name: str
    name: str
    args: Mapping[str, Any] = field(repr=False)
    result: MCPToolCallResult = field(repr=False)


Hook = Callable[..., Any]
"""A function of a call and, if it has parameters for them, the graph state and the config."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The interceptor that runs the hooks before and after a call."""

    config: Mapping[str, Any]
    before: Hook | None = None
    after: Hook | None = None

    async def __call__(self, request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        """Run the first hook, the call, and the second hook."""
        if self.before is not None:
            changes = await self._run(self.before, request, request)
            if isinstance(changes, MCPToolCallRequest):
                request = changes
            elif changes is not None:
                fields = entries_of(changes)
                if (
                    not isinstance(changes, Mapping)
                    or fields.keys() - {"args", "headers"}
                    or not isinstance(fields.get("args", {}), Mapping)
                ):
                    raise ConfigError(
                        "before_tool_call returns nothing, a request, or a mapping with args and "
                        "headers"
                    )
                request = replace(request, **fields)
        result = await handler(request)
        if self.after is None:
            return result
        end = ToolCallEnd(request.server_name, request.name, request.args, result)
        returned = await self._run(self.after, end, request)
        returned = entries_of(returned).get("result", returned)
        returned = cast("Any", own_type(types.CallToolResult, returned))
        match returned:
            case None:
                return result
            case types.CallToolResult() | ToolMessage() | Command():
                return cast("MCPToolCallResult", returned)
            case str(text):
                return types.CallToolResult(content=[types.TextContent(text=text)])
            case [content, artifact]:
                return cast("Any", ToolOutput(content, artifact))
            case _:
                raise ConfigError(
                    "after_tool_call returns nothing, a text, a CallToolResult, a ToolMessage, a "
                    "Command, or a pair of content and artifact"
                )

    async def _run(self, hook: Hook, subject: object, request: MCPToolCallRequest) -> Any:
        """Call a hook with as many of call, state and config as it takes."""
        state = getattr(request.runtime, "state", None) or dict[str, Any]()
        try:
            kinds = [one.kind for one in inspect.signature(hook).parameters.values()]
        except (TypeError, ValueError):
            kinds = [inspect.Parameter.POSITIONAL_ONLY]
        positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        count = sum(kind in positional for kind in kinds)
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            count = 3
        return await resolve(hook(*(subject, state, self.config)[:count]))
