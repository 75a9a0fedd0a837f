"""Two tools with which an agent finds and reads the resources of servers by itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import mcp_types as types
from typing_extensions import override

from plait.client.calls.arguments import argument_error_text, prepare_arguments
from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import prepare
from plait.client.connections.credentials import Access
from plait.client.toolbox import Toolbox
from plait.errors import InvalidArgumentsError, PlaitError
from plait.langchain.tools.caller import PlainCaller
from plait.langchain.tools.runner import RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool

_LIST = "list_resources"
_READ = "read_resource"
_READ_ONLY = {"read_only_hint": True, "idempotent_hint": True}


def resource_tools(
    toolbox: Toolbox,
    servers: Sequence[str],
    *,
    taken: Collection[str],
    settings: RunnerSettings,
    reader: str = READ_MORE,
) -> list[MCPTool]:
    """Make the tools for these servers, or for all, under names that are still free.

    Servers of which the policy denies reading are left out.
    """
    asked = list(servers) or list(toolbox.server_names)
    names = [name for name in asked if not toolbox.hides(_as_tool(name, _READ))]
    if not names:
        return []
    server = {"type": "string", "enum": names, "description": "The server to ask."}
    listing = Tool(
        server="resources",
        wire_name=_LIST,
        name=_free(_LIST, taken),
        description="List the resources (files, records, documents) that servers offer to read.",
        input_schema={"type": "object", "properties": {"server": server}},
        annotations=_READ_ONLY,
    )
    reading = Tool(
        server="resources",
        wire_name=_READ,
        name=_free(_READ, taken),
        description=f"Read a resource that {listing.name} lists, or one that a template describes.",
        input_schema={
            "type": "object",
            "properties": {
                "server": server,
                "uri": {"type": "string", "description": "The address of the resource."},
            },
            "required": ["server", "uri"],
        },
        annotations=_READ_ONLY,
    )
    librarian = _Librarian(toolbox, names, (listing, reading))
    runner = ToolRunner(librarian, settings, reader=reader)
    return [MCPTool(listing, runner), MCPTool(reading, runner)]


def _as_tool(server: str, name: str) -> Tool:
    """Describe reading from a server as a tool of it, for the policy."""
    return Tool(server=server, wire_name=name, name=name, annotations=_READ_ONLY)


def _free(name: str, taken: Collection[str]) -> str:
    candidate = name
    while candidate in taken:
        candidate = f"mcp_{candidate}"
    return candidate


class _Librarian(PlainCaller):
    """Answers the two tools from a toolbox."""

    def __init__(self, toolbox: Toolbox, servers: Sequence[str], tools: Sequence[Tool]) -> None:
        self._toolbox = toolbox
        self._schemas = {tool.wire_name: tool.input_schema for tool in tools}
        self._servers = list(servers)
        self.run_blocking = toolbox.run_blocking

    async def read(
        self, server: str, uri: str, *, access: Access | None = None
    ) -> types.ReadResourceResult:
        """Read a resource."""
        return await self._toolbox.read(server, uri, access=access)

    @override
    async def bounded(
        self, result: ToolResult, call: ToolCall, *, reader: str = READ_MORE
    ) -> ToolResult:
        """Return the result, or a shorter one if it is larger than the budget."""
        return await self._toolbox.bounded(result, call, reader=reader)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Answer a call.

        Raises:
            PlaitError: A server cannot be asked, or the arguments are wrong.
        """
        await self._check(call.tool, call.arguments)
        if call.tool == _LIST:
            return _text(call, await self._listed(call, call.arguments.get("server")))
        server = str(call.arguments.get("server"))
        uri = str((await self._permitted(call, server)).arguments.get("uri"))
        contents = (await self.read(server, uri)).contents
        blocks = [_block(one) for one in contents]
        return ToolResult(server=server, tool=call.tool, is_error=False, content=tuple(blocks))

    async def _permitted(self, call: ToolCall, server: str) -> ToolCall:
        """Hold a call to the policy as if it were a tool of the server that it asks."""
        rest = {name: value for name, value in call.arguments.items() if name != "server"}
        own = replace(call, server=server, arguments=rest)
        permitted = await self._toolbox.permit(own, _as_tool(server, call.tool))
        if permitted is not own:
            await self._check(call.tool, {**permitted.arguments, "server": server})
        return permitted

    async def _check(self, tool: str, arguments: Mapping[str, Any]) -> None:
        schema = self._schemas[tool]
        validator = await prepare(schema)
        if problems := prepare_arguments(validator, arguments, tool=tool).problems:
            raise InvalidArgumentsError(argument_error_text(tool, problems), tool=tool)

    async def _listed(self, call: ToolCall, server: Any) -> str:
        asked = [str(server)] if server else self._servers
        found: list[dict[str, Any]] = []
        for name in asked:
            try:
                await self._permitted(call, name)
                resources = await self._toolbox.resources(name)
                templates = await self._toolbox.resource_templates(name)
            except PlaitError as error:
                if server:
                    raise
                found.append({"server": name, "unavailable": error.message})
                continue
            found += [{"server": name, **_described(one.item)} for one in (*resources, *templates)]
        return json.dumps(found, ensure_ascii=False, indent=2)


def _described(item: types.Resource | types.ResourceTemplate) -> dict[str, Any]:
    told = item.model_dump(by_alias=True, exclude_none=True, mode="json")
    shown = ("uri", "uriTemplate", "name", "title", "description", "mimeType", "size")
    return {name: told[name] for name in shown if name in told}


def _block(
    contents: types.TextResourceContents | types.BlobResourceContents,
) -> types.ContentBlock:
    if isinstance(contents, types.TextResourceContents):
        return types.TextContent(text=contents.text)
    mime = contents.mime_type or ""
    if mime.startswith("image/"):
        return types.ImageContent(data=contents.blob, mime_type=mime)
    if mime.startswith("audio/"):
        return types.AudioContent(data=contents.blob, mime_type=mime)
    return types.EmbeddedResource(resource=contents)


def _text(call: ToolCall, text: str) -> ToolResult:
    block = types.TextContent(text=text)
    return ToolResult(server=call.server, tool=call.tool, is_error=False, content=(block,))
