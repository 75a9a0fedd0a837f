"""The tool with which an agent reads the rest of a shortened result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from plait.langchain.tools.caller import ToolboxCaller
from plait.langchain.tools.runner import Invocation, Outcome, RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.tool_call import ToolCall
    from plait.client.catalog.tool import Tool
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.toolbox import Toolbox


def read_more_tools(
    toolbox: Toolbox,
    *,
    taken: Collection[str],
    settings: RunnerSettings,
    access: CallerCredentials | None = None,
) -> list[MCPTool]:
    """Make the tool, under a name that is not taken; none without a result budget."""
    return [
        MCPTool(tool, _ReadMoreRunner(toolbox, tool.name, settings, access))
        for tool in toolbox.own_tools(taken=taken)
    ]


class _ReadMoreCaller(ToolboxCaller):
    """Answers the tool from the results that a toolbox keeps."""

    def __init__(self, toolbox: Toolbox, name: str) -> None:
        super().__init__(toolbox)
        self._name = name

    @override
    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, access: CallerCredentials | None = None
    ) -> CallerCredentials | None:
        if server not in self._toolbox.server_names:
            return None  # no server made the result: it is a resource that was read
        return await self._toolbox.calls.access_for(server, run, access)

    async def execute(self, call: ToolCall) -> ToolResult:
        return await self._toolbox.calls.read_more(call, reader=self._name)


class _ReadMoreRunner(ToolRunner):
    """Runs the tool as one of the server that made the result.

    So a result is read with the same credentials, and through the same interceptors.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        name: str,
        settings: RunnerSettings,
        access: CallerCredentials | None,
    ) -> None:
        super().__init__(_ReadMoreCaller(toolbox, name), settings, access=access)
        self._limiter = toolbox.calls.limiter

    @override
    async def run(self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]) -> Outcome:
        server = self._limiter.server_of(invocation.arguments.get("handle"))
        tool = tool if server is None else replace(tool, server=server)
        return await super().run(tool, invocation, config)
