"""Tools of the program: functions that a model may call, under the rules for tools of servers."""

from __future__ import annotations

import contextvars
import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast, get_type_hints

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, create_model

from plait._support.gather import resolve
from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.client.calls.outcome import ToolResult
from plait.client.catalog.names import legal_name
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError
from plait.traces.messages.from_langchain import message_from_any

PROGRAM: Final = "plait/program"
"""The server of these tools in policies and budgets; no configured server can have that name."""


@dataclass(frozen=True, slots=True)
class StaticTool:
    """A tool of the program; without a function, calls of it are errors.

    The policy, budgets and timeouts of the run hold for it as for tools of servers.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    function: Callable[..., Awaitable[Any] | Any] | None = None
    """Takes the arguments by name, and returns the result for the model: a text, or data that
    becomes JSON. A function that is not asynchronous runs in a thread."""

    @classmethod
    def of(cls, tool: ToolLike) -> StaticTool:
        """Describe a function by its name, its docstring and the types of its parameters.

        Raises:
            ConfigError: It cannot be described, or is neither a function nor a tool.
        """
        if isinstance(tool, StaticTool):
            return tool
        if hasattr(tool, "tool_call_schema"):
            other: Any = tool  # of LangChain
            declared = other.tool_call_schema
            schema = entries_of(declared) or declared.model_json_schema()
            return cls(other.name, other.description, schema, partial(_call_langchain, other))
        if not callable(tool):
            kind = type(cast("object", tool)).__name__
            raise ConfigError(f"a tool of the program is a function or a StaticTool, not a {kind}")
        inner = _inner(tool)
        name = str(getattr(inner, "__name__", type(inner).__name__))
        if name == "<lambda>":
            raise ConfigError("a lambda has no name for the model: use StaticTool(name, ...)")
        return cls(name, inspect.getdoc(inner) or "", _schema_of(tool, name), tool)

    async def call(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Run the function; returns a text for the model, and whether it is an error."""
        if self.function is None:
            return f"{self.name} cannot be called: it has no function", True
        try:
            return text_from_value(await _run(self.function, arguments)), False
        except Exception as error:  # noqa: BLE001  # boundary: the model reads the error
            return f"{self.name} failed: {type(error).__name__}: {error}", True

    async def result(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the function; returns the result as that of a server."""
        text, failed = await self.call(arguments)
        content = (types.TextContent(text=text),)
        return ToolResult(server=PROGRAM, tool=self.name, is_error=failed, content=content)


class LangChainTool(Protocol):
    """What a tool of LangChain has: the package need not be installed."""

    tool_call_schema: Any


ToolLike: TypeAlias = StaticTool | Callable[..., Any] | LangChainTool
"""A tool of the program, or a function or a tool of LangChain that becomes one."""


def text_from_value(value: object) -> str:
    """Write a result for the model: a text as it is, data as JSON, `None` as an empty text."""
    match value:
        case str():
            return value
        case None:
            return ""
        case BaseModel():
            return value.model_dump_json()
        case _:
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                value = dataclasses.asdict(value)
            elif isinstance(value, set | frozenset):
                value = list(cast("Iterable[Any]", value))
            return json.dumps(value, ensure_ascii=False, default=str)


async def _call_langchain(tool: Any, /, **arguments: Any) -> object:
    """Call a tool of LangChain; a line of text describes a block of content that is not text."""
    value: Any = await tool.ainvoke(arguments)
    blocks = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all("type" in entries_of(block) for block in blocks):
        return cast("object", value)
    return message_from_any({"type": "tool", "content": blocks}).tool_results[0].content


async def _run(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function; one that may block runs in a thread, in the context of the caller."""
    is_async = inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an asynchronous call
    )
    if is_async:
        return await resolve(function(**arguments))
    context = contextvars.copy_context()
    return await resolve(await in_thread(context.run, partial(function, **arguments)))


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a `functools.partial`, and others as they are."""
    return cast("Callable[..., Any]", getattr(function, "func", function))


def _schema_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = get_type_hints(_inner(function), include_extras=True)
        fields: dict[str, Any] = {
            each.name: (
                hints.get(each.name, Any),
                Field() if each.default is inspect.Parameter.empty else Field(default=each.default),
            )
            for each in parameters
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        }
        extra = any(each.kind is each.VAR_KEYWORD for each in parameters)
        config = ConfigDict(extra="allow" if extra else "forbid", arbitrary_types_allowed=True)
        return create_model(name, __config__=config, **fields).model_json_schema()
    except Exception as error:  # boundary: annotations may be anything
        raise ConfigError(
            f"the parameters of {name} cannot be described: {error}; use a StaticTool with an "
            "input_schema"
        ) from error


def named_tools(tools: Sequence[ToolLike]) -> dict[str, StaticTool]:
    """Return the tools by names that every provider accepts.

    Raises:
        ConfigError: Two tools have the same name.
    """
    named: dict[str, StaticTool] = {}
    for tool in map(StaticTool.of, tools):
        if any(other.name == tool.name for other in named.values()):
            raise ConfigError(f"two tools of the program are called {tool.name!r}")
        name = legal_name(tool.name)
        if name in named:  # two names that differ in illegal characters only
            number = 2
            while f"{name}_{number}" in named:
                number += 1
            name = f"{name}_{number}"
        named[name] = tool
    return named


def listed_tool(name: str, tool: StaticTool) -> Tool:
    """Describe a tool for the policy and the checks of calls."""
    return Tool(
        server=PROGRAM,
        wire_name=tool.name,
        name=name,
        description=tool.description,
        input_schema=tool.input_schema,
    )
