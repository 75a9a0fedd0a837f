"""One server of a toolbox, with the methods of the MCP SDK's client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import mcp_types as types

from plait.client.calls.tool_call import OnProgress, ToolCall
from plait.client.connections.server_info import ServerInfo
from plait.client.resource_watch import ResourceWatch
from plait.client.toolbox import Toolbox


class ServerHandle:
    """Asks one server; it lasts as long as the toolbox, through every restart of the server.

    Filters and overrides of the toolbox hold here too. Lists are complete: there are no pages.
    """

    def __init__(self, toolbox: Toolbox, name: str) -> None:
        self._toolbox = toolbox
        self.name = name

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """List the tools that the server offers, under the server's own names."""
        del cursor
        tools = await self._toolbox.tools(self.name)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.wire_name,
                    title=tool.title,
                    description=tool.description,
                    input_schema=dict(tool.input_schema),
                    output_schema=None if tool.output_schema is None else dict(tool.output_schema),
                    annotations=types.ToolAnnotations(**tool.annotations)
                    if tool.annotations
                    else None,
                    _meta=None if tool.meta is None else dict(tool.meta),
                )
                for tool in tools
            ]
        )

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        progress_callback: OnProgress | None = None,
    ) -> types.CallToolResult:
        """Call a tool by the server's name for it.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        seconds = read_timeout_seconds
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        call = ToolCall(
            server=self.name,
            tool=name,
            arguments=arguments or {},
            timeout_seconds=seconds,
            on_progress=progress_callback,
        )
        return (await self._toolbox.carry_out(call)).to_mcp()

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List the resources."""
        del cursor
        found = await self._toolbox.resources(self.name)
        return types.ListResourcesResult(resources=[listed.item for listed in found])

    async def list_resource_templates(
        self, *, cursor: str | None = None
    ) -> types.ListResourceTemplatesResult:
        """List the resource templates."""
        del cursor
        found = await self._toolbox.resource_templates(self.name)
        return types.ListResourceTemplatesResult(
            resource_templates=[listed.item for listed in found]
        )

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read(self.name, str(uri))

    def watch_resource(self, uri: str, *more_uris: str, read: bool = False) -> ResourceWatch:
        """Follow resources; each update is one that has changed, or may have."""
        return self._toolbox.watch_resource(self.name, uri, *more_uris, read=read)

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """List the prompts."""
        del cursor
        found = await self._toolbox.prompts(self.name)
        return types.ListPromptsResult(prompts=[listed.item for listed in found])

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Fill in a prompt."""
        return await self._toolbox.prompt(self.name, name, arguments)

    async def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: Mapping[str, str],
        context_arguments: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask how an argument of a prompt or a template may go on."""
        return await self._toolbox.complete(self.name, ref, argument, context_arguments)

    async def ping(self) -> float:
        """Measure one cheap round trip, in seconds."""
        return await self._toolbox.ping(self.name)

    async def server_info(self) -> ServerInfo:
        """Return who the server says it is, what it can do, and its instructions."""
        return await self._toolbox.server_info(self.name)
