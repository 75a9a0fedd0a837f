"""One server of a toolbox, with the methods of the MCP SDK's client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import mcp_types as types

from plait.client.calls.tool_call import OnProgress, ToolCall

if TYPE_CHECKING:
    from plait.client.connections.status import ServerInfo
    from plait.client.subscriptions import ResourceWatch
    from plait.client.toolbox import Toolbox


class ServerHandle:
    """One server, with the methods of the MCP SDK's client; survives restarts of the server.

    Filters and overrides of the toolbox apply. Lists are complete: `cursor` is ignored.
    """

    def __init__(self, toolbox: Toolbox, name: str) -> None:
        self._toolbox = toolbox
        self.name = name

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """List the tools of the server, under their wire names."""
        del cursor
        tools = await self._toolbox.tools(self.name)
        return types.ListToolsResult(
            tools=[
                types.Tool.model_validate(
                    {
                        **tool.to_dict(),
                        "name": tool.wire_name,
                        "annotations": tool.annotations or None,
                        "icons": tool.icons or None,
                    }
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
        """Call a tool by its wire name.

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
        return (await self._toolbox.calls.run(call)).to_mcp()

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List the resources."""
        del cursor
        resources = await self._toolbox.list_resources(self.name)
        return types.ListResourcesResult(resources=[listed.item for listed in resources])

    async def list_resource_templates(
        self, *, cursor: str | None = None
    ) -> types.ListResourceTemplatesResult:
        """List the resource templates."""
        del cursor
        templates = await self._toolbox.list_resource_templates(self.name)
        return types.ListResourceTemplatesResult(
            resource_templates=[listed.item for listed in templates]
        )

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read_resource(self.name, str(uri))

    def watch_resource(self, uri: str, *more_uris: str, read: bool = False) -> ResourceWatch:
        """Iterate over changes of resources; see `Toolbox.watch_resource`."""
        return self._toolbox.watch_resource(self.name, uri, *more_uris, read=read)

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """List the prompts."""
        del cursor
        prompts = await self._toolbox.list_prompts(self.name)
        return types.ListPromptsResult(prompts=[listed.item for listed in prompts])

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in."""
        return await self._toolbox.get_prompt(self.name, name, arguments)

    async def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: Mapping[str, str],
        context_arguments: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask for completions of an argument of a prompt or resource template."""
        return await self._toolbox.complete(self.name, ref, argument, context_arguments)

    async def ping(self) -> float:
        """Measure one round trip, in seconds."""
        return await self._toolbox.ping(self.name)

    async def server_info(self) -> ServerInfo:
        """Return the server's name, version, capabilities and instructions."""
        return await self._toolbox.server_info(self.name)
