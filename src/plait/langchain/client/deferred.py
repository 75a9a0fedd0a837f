"""Tools that an agent is not shown at once: it searches for them, and then has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, cast

import mcp_types as types
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from typing_extensions import override

from plait._support.exception_groups import one_line
from plait.client.calls.arguments import argument_error_text, prepare_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.deferral import Split
from plait.client.catalog.tokens import definition_text
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import prepare
from plait.client.connections.credentials import Access
from plait.client.toolbox import Toolbox
from plait.errors import InvalidArgumentsError, PlaitError, ToolNotFoundError
from plait.langchain.tools.caller import PlainCaller
from plait.langchain.tools.failures import failed
from plait.langchain.tools.output_handling import DEFAULT_HANDLING
from plait.langchain.tools.runner import (
    Answered,
    Invocation,
    Outcome,
    ToolRunner,
)
from plait.langchain.tools.tool import MCPTool

OWN_SERVER: Final = "plait/tools"
"""Where the two tools stand instead of a server; no server can have that name."""

SEARCH_TOOLS: Final = "search_tools"
CALL_TOOL: Final = "call_tool"

_FOUND: Final = "plait/found"
"""Where the artifact of a search has the names of what was found."""

_MOST_FOUND: Final = 5
_MOST_SERVERS: Final = 12
_LONGEST_DESCRIPTION: Final = 200

_SEARCH_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What you want to do"}},
    "required": ["query"],
}

_CALL_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool"},
        "arguments": {"type": "object", "description": "What its parameters ask for"},
    },
    "required": ["name"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which tools of a toolbox are meant, and with whose credentials they are listed."""

    toolbox: Toolbox
    servers: tuple[str, ...] = ()
    include: Any = None
    exclude: Any = None
    access: Access | None = None

    async def listed(self, run: Mapping[str, Any] | None, *, refresh: bool = False) -> list[Tool]:
        """List the tools.

        Raises:
            PlaitError: A required server failed, one that was named, or every one.
        """
        return await self.toolbox.tools(
            *self.servers,
            refresh=refresh,
            include=self.include,
            exclude=self.exclude,
            access=self.access,
            run=run,
        )


def loaded_names(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the tools that a conversation has found or called so far, in that order.

    The messages are all there is to remember: so it holds for one conversation, in any process.
    """
    names: dict[str, None] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            names.update(dict.fromkeys(call["name"] for call in message.tool_calls))
        elif isinstance(message, ToolMessage):
            names.update(dict.fromkeys(_found_in(message.artifact)))
    return list(names)


def _found_in(artifact: object) -> list[str]:
    if not isinstance(artifact, Mapping):
        return []
    told = cast("Mapping[str, Any]", artifact)
    meta = cast("Mapping[str, Any]", told.get("_meta") or {})
    # Whatever a server says of itself, it cannot be the one with this name.
    return list(map(str, meta.get(_FOUND, ()))) if told.get("server") == OWN_SERVER else []


def deferred_tools(
    split: Split,
    runner: ToolRunner,
    selection: Selection,
    taken: Collection[str],
    messages: Iterable[BaseMessage] | None = None,
) -> list[MCPTool]:
    """Make what an agent has in place of the tools that are deferred.

    In a conversation, that is a tool that finds others, and those that were found; they come
    last, for what models have read before them can then be cached. Without one, what is found is
    called through a second tool.
    """
    if not split.deferred:
        return []
    if messages is None:
        return _search_and_call(split.deferred, runner, selection, taken)
    told = "Finds them by what they do; those found can be called afterwards."
    search = _searching(split.deferred, runner, selection, taken, told=told, shows_schemas=False)
    known = {tool.name: tool for tool in split.deferred}
    loaded = [known[name] for name in loaded_names(messages) if name in known]
    return [search, *(MCPTool(tool, runner) for tool in loaded)]


def _search_and_call(
    deferred: Sequence[Tool], runner: ToolRunner, selection: Selection, taken: Collection[str]
) -> list[MCPTool]:
    caller = _free(CALL_TOOL, taken)
    told = f"Finds them by what they do, for {caller}."
    search = _searching(deferred, runner, selection, taken, told=told, shows_schemas=True)
    call = Tool(
        server=OWN_SERVER,
        wire_name=CALL_TOOL,
        name=caller,
        description=f"Calls a tool that {search.name} has found.",
        input_schema=_CALL_SCHEMA,
    )
    return [search, MCPTool(call, _CallingRunner(runner, selection, finder=search.name))]


def _searching(
    deferred: Sequence[Tool],
    runner: ToolRunner,
    selection: Selection,
    taken: Collection[str],
    *,
    told: str,
    shows_schemas: bool,
) -> MCPTool:
    tool = Tool(
        server=OWN_SERVER,
        wire_name=SEARCH_TOOLS,
        name=_free(SEARCH_TOOLS, taken),
        description=f"There are {len(deferred)} more tools, of: {_servers(deferred)}. {told}",
        input_schema=_SEARCH_SCHEMA,
        annotations={"read_only_hint": True, "idempotent_hint": True},
    )
    return MCPTool(tool, _SearchingRunner(runner, selection, shows_schemas=shows_schemas))


def _servers(tools: Iterable[Tool]) -> str:
    names = list(dict.fromkeys(tool.server for tool in tools))
    return ", ".join(names[:_MOST_SERVERS]) + (", …" if len(names) > _MOST_SERVERS else "")


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"mcp_{name}"
    return name


class _SearchingRunner(ToolRunner):
    """Runs the tool that finds others, among those that the run may use."""

    def __init__(self, runner: ToolRunner, selection: Selection, *, shows_schemas: bool) -> None:
        super().__init__(selection.toolbox, runner.settings)
        self._selection = selection
        self._shows_schemas = shows_schemas

    @override
    async def run(self, tool: Tool, use: Invocation, config: Mapping[str, Any]) -> Outcome:
        finder = _Finder(self._selection, _run(use, config), shows_schemas=self._shows_schemas)
        # What is found is for the model, wherever the client puts the answers of servers.
        settings = replace(self.settings, handling=DEFAULT_HANDLING)
        return await ToolRunner(finder, settings).run(tool, use, config)


class _Finder(PlainCaller):
    """Answers one search."""

    def __init__(
        self, selection: Selection, run: Mapping[str, Any], *, shows_schemas: bool
    ) -> None:
        self._toolbox = selection.toolbox
        self._selection = selection
        self._run = run
        self._shows_schemas = shows_schemas
        self.run_blocking = self._toolbox.run_blocking

    async def read(
        self, server: str, uri: str, *, access: Access | None = None
    ) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read(server, uri, access=access)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Search.

        Raises:
            PlaitError: No server can be asked, or the arguments are wrong.
        """
        schema = await prepare(_SEARCH_SCHEMA)
        if problems := prepare_arguments(schema, call.arguments, tool=call.tool).problems:
            raise InvalidArgumentsError(argument_error_text(call.tool, problems), tool=call.tool)
        listed = await self._selection.listed(self._run)
        deferred = self._toolbox.deferring.split(listed).deferred
        index = self._toolbox.deferring.index(deferred)
        matches = index.search(str(call.arguments["query"]), _MOST_FOUND)
        found = [match.tool for match in matches]
        text = "\n".join(map(self._described, found)) or (
            f"No tool fits. Try other words; there are tools of: {_servers(deferred)}"
        )
        return ToolResult(
            server=OWN_SERVER,
            tool=SEARCH_TOOLS,
            is_error=False,
            content=(types.TextContent(text=text),),
            meta={_FOUND: [tool.name for tool in found]},
        )

    def _described(self, tool: Tool) -> str:
        if self._shows_schemas:
            return definition_text(tool)
        return (
            f"{tool.name}: {one_line(tool.description or tool.title or '', _LONGEST_DESCRIPTION)}"
        )


class _CallingRunner(ToolRunner):
    """Runs the tool that is named, as if it had been called itself."""

    def __init__(self, runner: ToolRunner, selection: Selection, *, finder: str) -> None:
        super().__init__(selection.toolbox, runner.settings)
        self._runner = runner
        self._selection = selection
        self._finder = finder

    @override
    async def run(self, tool: Tool, use: Invocation, config: Mapping[str, Any]) -> Outcome:
        try:
            wanted, arguments = await self._wanted(use, _run(use, config))
        except PlaitError as error:
            if not self._is_for_model(error):
                raise
            converted = failed(error, tool, sanitize=self.settings.sanitize)
            return Answered(converted=converted, is_error=True)
        return await self._runner.run(wanted, replace(use, arguments=arguments), config)

    async def _wanted(
        self, use: Invocation, run: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]]:
        schema = await prepare(_CALL_SCHEMA)
        prepared = prepare_arguments(schema, use.arguments, tool=CALL_TOOL)
        if prepared.problems:
            text = argument_error_text(CALL_TOOL, prepared.problems)
            raise InvalidArgumentsError(text, tool=CALL_TOOL)
        name = str(prepared.arguments["name"])
        listed = {tool.name: tool for tool in await self._selection.listed(run)}
        if name not in listed:
            near = get_close_matches(name, listed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"search with {self._finder}"
            raise ToolNotFoundError(f"there is no tool {name!r}: {hint}", tool=name)
        return listed[name], prepared.arguments.get("arguments") or {}


def _run(use: Invocation, config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**config, "context": getattr(use.runtime, "context", None)}
