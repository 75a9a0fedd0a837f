"""The tool with which an agent reads on in results that were shortened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import mcp_types as types
from typing_extensions import override

from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.connections.credentials import Access
from plait.client.toolbox import Toolbox
from plait.langchain.tools.caller import PlainCaller
from plait.langchain.tools.runner import Invocation, Outcome, RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool


def read_more_tools(
    toolbox: Toolbox,
    *,
    taken: Collection[str],
    settings: RunnerSettings,
    access: Access | None = None,
) -> list[MCPTool]:
    """Make the tool, under a name that is still free; without a result budget there is none."""
    return [
        MCPTool(tool, _ReadingRunner(_Reader(toolbox, tool.name), settings, access=access))
        for tool in toolbox.own_tools(taken=taken)
    ]


class _Reader(PlainCaller):
    """Answers the tool from what a toolbox keeps."""

    def __init__(self, toolbox: Toolbox, name: str) -> None:
        self._toolbox = toolbox
        self._name = name
        self.run_blocking = toolbox.run_blocking

    @override
    async def access_for(
        self, server: str, run: Mapping[str, Any] | None, given: Access | None = None
    ) -> Access | None:
        """Find out whom a run acts for on the server that was asked.

        What came of no server, such as a resource that was read, belongs to nobody.
        """
        if server not in self._toolbox.server_names:
            return None
        return await self._toolbox.access_for(server, run, given)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Read on.

        Raises:
            PlaitError: The result is not kept (any more), or the arguments are wrong.
        """
        return await self._toolbox.read_on(call, reader=self._name)

    async def read(
        self, server: str, uri: str, *, access: Access | None = None
    ) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read(server, uri, access=access)

    def server_of(self, handle: object) -> str | None:
        """Return the server that was asked for a result."""
        return self._toolbox.server_of_full_result(handle)


class _ReadingRunner(ToolRunner):
    """Runs the tool as one of the server that was asked, with what is set for that server.

    So a result is read with the same credentials, and through the same interceptors.
    """

    def __init__(
        self, reader: _Reader, settings: RunnerSettings, *, access: Access | None = None
    ) -> None:
        super().__init__(reader, settings, access=access)
        self._reader = reader

    @override
    async def run(self, tool: Tool, use: Invocation, config: Mapping[str, Any]) -> Outcome:
        server = self._reader.server_of(use.arguments.get("handle"))
        return await super().run(
            tool if server is None else replace(tool, server=server), use, config
        )
