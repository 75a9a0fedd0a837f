"""Tools of servers and of the program for Anthropic's own tool runner, used by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import mcp_types as types
from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaFunctionToolResultType, ToolError
from anthropic.types.beta import BetaToolParam
from typing_extensions import override

from plait.agents.agent_run import ToolAnswer
from plait.agents.engines.claude_tool.messages import definition_of, tool_result
from plait.agents.program_tools import StaticTool, ToolLike
from plait.client.toolbox import ServerHandle
from plait.errors import PlaitError
from plait.models.call_arguments import arguments_from, fault_of


class ToolResultRecord(NamedTuple):
    """What a wrapped tool returned."""

    tool_name: str
    content: str
    is_error: bool = False


class ToolResultCollector:
    """Collects what wrapped tools returned, in order."""

    def __init__(self) -> None:
        self.results: list[ToolResultRecord] = []

    def record(self, tool_name: str, content: str, is_error: bool = False) -> None:
        """Add a result."""
        self.results.append(ToolResultRecord(tool_name, content, is_error))

    def drain(self) -> list[ToolResultRecord]:
        """Return the results so far, and forget them."""
        drained, self.results = self.results, []
        return drained


class WrappedTool(BetaAsyncBuiltinFunctionTool):
    """A tool for `client.beta.messages.tool_runner`.

    With `stream=True`, Anthropic's SDK completes arguments that were cut before the tool gets them,
    so that it cannot refuse them.
    """

    def __init__(
        self,
        definition: BetaToolParam,
        source: ServerHandle | StaticTool,
        wire_name: str,
        collector: ToolResultCollector | None = None,
    ) -> None:
        self._definition = definition
        self._source = source
        self._wire_name = wire_name
        self._collector = collector

    @property
    @override
    def name(self) -> str:
        """The name for the model."""
        return self._definition["name"]

    @override
    def to_dict(self) -> BetaToolParam:
        """Return the definition for the model."""
        return self._definition

    @override
    async def call(self, input: object) -> BetaFunctionToolResultType:  # as the SDK calls it
        """Call the tool.

        Raises:
            ToolError: The tool failed; the model reads the error.
        """
        arguments = arguments_from(input)
        if (fault := fault_of(arguments)) is not None:
            answer = ToolAnswer.of_text(fault, is_error=True)
        elif isinstance(self._source, StaticTool):
            answer = ToolAnswer.of_result(await self._source.result(arguments))
        else:
            try:
                result = await self._source.call_tool(self._wire_name, dict(arguments))
                answer = ToolAnswer.of_mcp(result)
            except PlaitError as error:
                answer = ToolAnswer.of_text(error.message, is_error=True)
        if self._collector is not None:
            self._collector.record(self.name, answer.text, answer.is_error)
        content = tool_result("", answer).get("content", "")
        if answer.is_error:
            raise ToolError(content)
        return content


def wrap_mcp_tool(
    session: ServerHandle,
    tool: types.Tool,
    collector: ToolResultCollector | None = None,
    server_name: str = "server",
) -> WrappedTool:
    """Wrap a tool of a connected server for Anthropic's tool runner."""
    description = tool.description or f"Tool from {server_name}"
    definition = definition_of(tool.name, description, tool.input_schema)
    return WrappedTool(definition, session, tool.name, collector)


def wrap_static_tool(tool: ToolLike, collector: ToolResultCollector | None = None) -> WrappedTool:
    """Wrap a tool of the program for Anthropic's tool runner."""
    own = StaticTool.of(tool)
    definition = definition_of(own.name, own.description, own.input_schema)
    return WrappedTool(definition, own, own.name, collector)


def apply_cache_control_to_tool(
    tool: WrappedTool | BetaToolParam, ttl: str | None = None
) -> BetaToolParam:
    """Return the definition of a tool with the mark for Anthropic's cache."""
    definition = tool.to_dict() if isinstance(tool, WrappedTool) else tool
    mark: dict[str, Any] = {"type": "ephemeral", **({} if ttl is None else {"ttl": ttl})}
    marked: Any = {**definition, "cache_control": mark}
    return marked
