"""Deferred tools: an agent searches for them and then has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from typing_extensions import override

from plait._support import mcp_types as types
from plait._support.exception_groups import one_line
from plait._support.mappings import entries_of
from plait._support.suggestions import nearest
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.catalog.deferral import Split, definition_text
from plait.client.catalog.names import free_name
from plait.client.catalog.tool import Tool
from plait.errors import PlaitError, ToolNotFoundError
from plait.langchain.tools.caller import ToolboxCaller
from plait.langchain.tools.content import DEFAULT_HANDLING
from plait.langchain.tools.runner import Invocation, Outcome, ToolRunner
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from plait.client.calls.tool_call import ToolCall
    from plait.langchain.client.client import Selection

OWN_SERVER: Final = "plait/tools"
"""The server name of the two tools; no configured server can have it."""

SEARCH_TOOLS: Final = "search_tools"
CALL_TOOL: Final = "call_tool"

_FOUND_KEY: Final = "plait/found"
"""The `_meta` key with the names of the tools that a search found."""

_MAX_FOUND_TOOLS: Final = 5
"""Enough to choose from, and their schemas are read with every further turn."""
_MAX_SERVERS: Final = 12
"""In the description of the search tool, which is read in every turn."""
_MAX_DESCRIPTION_CHARACTERS: Final = 200
"""Of a found tool that the model gets in full in the next turn."""

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


def loaded_names(messages: Iterable[BaseMessage]) -> list[str]:
    """Return the names of tools that a conversation has found or called, in that order.

    The messages are the only state, so this works in any process.
    """
    names: dict[str, None] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            names.update(dict.fromkeys(call["name"] for call in message.tool_calls))
        elif isinstance(message, ToolMessage):
            artifact = entries_of(message.artifact)
            # Only results of our own search count; no server can have this name.
            if artifact.get("server") == OWN_SERVER:
                found = entries_of(artifact.get("_meta")).get(_FOUND_KEY, ())
                names.update(dict.fromkeys(map(str, found)))
    return list(names)


def deferred_tools(
    split: Split,
    runner: ToolRunner,
    selection: Selection,
    taken: Collection[str],
    messages: Iterable[BaseMessage] | None = None,
) -> list[MCPTool]:
    """Make the tools that an agent has in place of deferred ones.

    In a conversation, these are a search tool and the tools found so far, which come last to
    keep the prompt before them cacheable. Without `messages`, a second tool calls what was found.
    """
    if not (deferred := split.deferred):
        return []
    call_name = free_name(CALL_TOOL, taken)
    usage = "Finds them by what they do; those found can be called afterwards."
    describe = _summary
    if messages is None:
        usage = f"Finds them by what they do, for {call_name}."
        describe = definition_text
    search = Tool(
        server=OWN_SERVER,
        wire_name=SEARCH_TOOLS,
        name=free_name(SEARCH_TOOLS, taken),
        description=f"There are {len(deferred)} more tools, of: {_servers(deferred)}. {usage}",
        input_schema=_SEARCH_SCHEMA,
        annotations={"read_only_hint": True, "idempotent_hint": True},
    )
    tools = [MCPTool(search, _SearchRunner(runner, selection, describe))]
    if messages is None:
        call = Tool(
            server=OWN_SERVER,
            wire_name=CALL_TOOL,
            name=call_name,
            description=f"Calls a tool that {search.name} has found.",
            input_schema=_CALL_SCHEMA,
        )
        return [*tools, MCPTool(call, _CallRunner(runner, selection, search_name=search.name))]
    by_name = {tool.name: tool for tool in deferred}
    found = [by_name[name] for name in loaded_names(messages) if name in by_name]
    return [*tools, *(MCPTool(tool, runner) for tool in found)]


def _summary(tool: Tool) -> str:
    """Describe a tool that the model gets in full in the next turn."""
    description = tool.description or tool.title or ""
    return f"{tool.name}: {one_line(description, _MAX_DESCRIPTION_CHARACTERS)}"


def _servers(tools: Iterable[Tool]) -> str:
    names = list(dict.fromkeys(tool.server for tool in tools))
    return ", ".join(names[:_MAX_SERVERS]) + (", …" if len(names) > _MAX_SERVERS else "")


class _SearchRunner(ToolRunner):
    """Runs the search tool over the tools that the run may use."""

    def __init__(
        self, runner: ToolRunner, selection: Selection, describe: Callable[[Tool], str]
    ) -> None:
        super().__init__(selection.toolbox.calls, runner.settings)
        self._selection = selection
        self._describe = describe

    @override
    async def run(self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]) -> Outcome:
        toolbox = self._selection.toolbox

        async def search(call: ToolCall) -> ToolResult:
            await checked_arguments(_SEARCH_SCHEMA, call.arguments, tool=call.tool)
            listed = await self._selection.list_tools(invocation.run(config))
            deferred = toolbox.deferral.split(listed).deferred
            query = str(call.arguments["query"])
            matches = toolbox.deferral.index(deferred).search(query, _MAX_FOUND_TOOLS)
            tools = [match.tool for match in matches]
            text = "\n".join(map(self._describe, tools)) or (
                f"No tool fits. Try other words; there are tools of: {_servers(deferred)}"
            )
            return ToolResult(
                server=OWN_SERVER,
                tool=SEARCH_TOOLS,
                is_error=False,
                content=(types.TextContent(text=text),),
                meta={_FOUND_KEY: [tool.name for tool in tools]},
            )

        # The model reads the matches even if the client sends server content to the artifact.
        settings = replace(self.settings, handling=DEFAULT_HANDLING)
        runner = ToolRunner(ToolboxCaller(toolbox, search), settings)
        return await runner.run(tool, invocation, config)


class _CallRunner(ToolRunner):
    """Runs a deferred tool by its name, as if the model had called it directly."""

    def __init__(self, runner: ToolRunner, selection: Selection, *, search_name: str) -> None:
        super().__init__(selection.toolbox.calls, runner.settings)
        self._runner = runner
        self._selection = selection
        self._search_name = search_name

    @override
    async def run(self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]) -> Outcome:
        began = time.monotonic()
        try:
            arguments = await checked_arguments(_CALL_SCHEMA, invocation.arguments, tool=CALL_TOOL)
            name = str(arguments["name"])
            listed = await self._selection.list_tools(invocation.run(config))
            tools = {tool.name: tool for tool in listed}
            if name not in tools:
                meant = nearest(name, tools)
                hint = f"did you mean {meant!r}?" if meant else f"search with {self._search_name}"
                raise ToolNotFoundError(f"there is no tool {name!r}: {hint}", tool=name)
        except PlaitError as error:
            return self.output_of_error(error, tool, began)
        target_invocation = replace(invocation, arguments=arguments.get("arguments") or {})
        return await self._runner.run(tools[name], target_invocation, config)
