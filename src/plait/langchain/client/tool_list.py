"""The LangChain tools of a client: those of its servers, and those that its toolbox answers itself.

The latter read resources, and the rest of shortened results. `execute_tool` calls a tool by its
name, without an agent. The module is loaded with the first
list of tools, for LangChain is large.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.types import Command
from typing_extensions import override

from plait._support import mcp_types as types
from plait._support.suggestions import suggest_names
from plait._support.threads import collection_paused, convert_aside, in_thread
from plait.client.calls.arguments import checked_arguments
from plait.client.calls.outcome import ToolResult, block_from_resource
from plait.client.calls.result_budget import READ_MORE
from plait.client.catalog.deferral import Split
from plait.client.catalog.names import free_name
from plait.client.catalog.tool import Tool
from plait.errors import PlaitError, ToolNotFoundError
from plait.langchain.client.deferred import deferred_tools
from plait.langchain.tools.blocks import Block, text_block
from plait.langchain.tools.caller import ToolboxCaller
from plait.langchain.tools.runner import Invocation, Outcome, RunnerSettings, ToolRunner
from plait.langchain.tools.tool import MCPTool

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

    from plait.client.calls.tool_call import ToolCall
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.toolbox import Toolbox
    from plait.langchain.client.client import MultiServerMCPClient, Selection
    from plait.models.schemas.for_provider import Profile


_LIST = "list_resources"
_READ = "read_resource"
_READ_ONLY = {"read_only_hint": True, "idempotent_hint": True}


def langchain_tools(
    client: MultiServerMCPClient,
    selection: Selection,
    listed: Sequence[Tool],
    *,
    profile: Profile | None,
    with_resources: bool,
    defer: bool,
    messages: Sequence[BaseMessage] | None,
) -> list[BaseTool]:
    """Make tools of listed ones, and those that the client adds to them."""
    toolbox = selection.toolbox
    split = toolbox.deferral.split(list(listed)) if defer else Split(tuple(listed))
    taken = {tool.name for tool in listed}
    settings = client.runner(selection.access).settings
    readers = read_more_tools(toolbox, taken=taken, settings=settings, access=selection.access)
    reader = readers[0].name if readers else READ_MORE
    runner = client.runner(selection.access, reader=reader)
    with collection_paused():
        tools: list[BaseTool] = [MCPTool(tool, runner, profile=profile) for tool in split.shown]
    if with_resources:
        taken |= {reader}
        tools += resource_tools(
            toolbox, selection.servers, taken=taken, settings=settings, reader=reader
        )
    own = [*readers, *deferred_tools(split, runner, selection, taken, messages)]
    return [*tools, *(tool.with_profile(profile) for tool in own)]


def resource_tools(
    toolbox: Toolbox,
    servers: Sequence[str],
    *,
    taken: Collection[str],
    settings: RunnerSettings,
    reader: str = READ_MORE,
) -> list[MCPTool]:
    """Make the tools for these servers, or for all, under names that are not taken.

    Servers whose resources the policy denies are left out.
    """
    names = [
        name
        for name in servers or toolbox.server_names
        if not toolbox.calls.policy.hides(_as_tool(name, _READ))
    ]
    if not names:
        return []
    server = {"type": "string", "enum": names, "description": "The server to ask."}
    listing = Tool(
        server="resources",
        wire_name=_LIST,
        name=free_name(_LIST, taken),
        description="List the resources (files, records, documents) that servers offer to read.",
        input_schema={"type": "object", "properties": {"server": server}},
        annotations=_READ_ONLY,
    )
    reading = Tool(
        server="resources",
        wire_name=_READ,
        name=free_name(_READ, taken),
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
    caller = _ResourceCaller(toolbox, names, (listing, reading))
    runner = ToolRunner(caller, settings, reader=reader)
    return [MCPTool(listing, runner), MCPTool(reading, runner)]


def _as_tool(server: str, name: str, schema: Mapping[str, Any] | None = None) -> Tool:
    """Describe the resources of a server as a tool of it, for the policy."""
    return Tool(
        server=server,
        wire_name=name,
        name=name,
        input_schema=schema or {},
        annotations=_READ_ONLY,
    )


class _ResourceCaller(ToolboxCaller):
    """Answers the two tools from a toolbox."""

    def __init__(self, toolbox: Toolbox, servers: Sequence[str], tools: Sequence[Tool]) -> None:
        super().__init__(toolbox, self._answer)
        self.bounded = toolbox.calls.bounded
        self._schemas = {tool.wire_name: tool.input_schema for tool in tools}
        self._servers = list(servers)

    async def _answer(self, call: ToolCall) -> ToolResult:
        await checked_arguments(self._schemas[call.tool], call.arguments, tool=call.tool)
        if call.tool == _LIST:
            block = types.TextContent(
                text=await self._listing_text(call, call.arguments.get("server"))
            )
            return ToolResult(server=call.server, tool=_LIST, is_error=False, content=(block,))
        server = str(call.arguments.get("server"))
        uri = str((await self._permitted_call(call, server)).arguments.get("uri"))
        contents = (await self.read_resource(server, uri)).contents
        blocks = tuple(await convert_aside(block_from_resource, contents))
        return ToolResult(server=server, tool=_READ, is_error=False, content=blocks)

    async def _permitted_call(self, call: ToolCall, server: str) -> ToolCall:
        """Apply the policy to a call as to one of a tool of that server."""
        rest = {name: value for name, value in call.arguments.items() if name != "server"}
        own = replace(call, server=server, arguments=rest)
        tool = _as_tool(server, call.tool, self._schemas[call.tool])
        permitted = await self._toolbox.calls.policy.permit(own, tool)
        if permitted.arguments is not own.arguments:
            arguments = {**permitted.arguments, "server": server}
            await checked_arguments(self._schemas[call.tool], arguments, tool=call.tool)
        return permitted

    async def _listing_text(self, call: ToolCall, server: Any) -> str:
        entries: list[dict[str, Any]] = []
        for name in [str(server)] if server else self._servers:
            try:
                await self._permitted_call(call, name)
                resources = await self._toolbox.list_resources(name)
                templates = await self._toolbox.list_resource_templates(name)
            except PlaitError as error:
                if server:
                    raise
                entries.append({"server": name, "unavailable": error.message})
                continue
            items = [listed.item for listed in (*resources, *templates)]
            described = await convert_aside(_facts, items)
            entries += [{"server": name, **description} for description in described]
        # In a thread: there may be tens of thousands.
        return await in_thread(json.dumps, entries, ensure_ascii=False, indent=2)


def _facts(item: types.Resource | types.ResourceTemplate) -> dict[str, Any]:
    fields = item.model_dump(by_alias=True, exclude_none=True, mode="json")
    shown = ("uri", "uriTemplate", "name", "title", "description", "mimeType", "size")
    return {name: fields[name] for name in shown if name in fields}


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
        caller = ToolboxCaller(toolbox, partial(toolbox.calls.read_more, reader=name))
        super().__init__(caller, settings, access=access)
        self._limiter = toolbox.calls.limiter

    @override
    async def run(self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]) -> Outcome:
        server = self._limiter.server_of(invocation.arguments.get("handle"))
        tool = tool if server is None else replace(tool, server=server)
        return await super().run(tool, invocation, config)


async def execute_tool(
    client: MultiServerMCPClient,
    name: str,
    args: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> list[Block]:
    """Call a tool by its public name or as `server/tool`, and return its content blocks.

    `context` is the `configurable` part of the call's config, such as `{"timeout": 5}`.

    Raises:
        ToolNotFoundError: No server offers it.
        ToolFailedError: The tool reported a failure.
        PlaitError: The call failed, or its outcome is not known.
    """
    servers = client.toolbox.server_names
    tools = [
        tool.tool
        for tool in await client.get_tools()
        if isinstance(tool, MCPTool) and tool.tool.server in servers
    ]
    found = [tool for tool in tools if name in {tool.name, tool.full_name}]
    if not found:
        hint = suggest_names(name, [tool.name for tool in tools])
        raise ToolNotFoundError(f"there is no tool {name!r} ({hint})", tool=name)
    runner = client.runner(handle_tool_errors=False)
    config = {"configurable": dict(context or {})}
    outcome = await runner.run(found[0], Invocation(arguments=args or {}), config)
    content: Any = [] if isinstance(outcome, Command) else outcome.content
    return [text_block(content)] if isinstance(content, str) else list(content)


def execute_tool_blocking(
    client: MultiServerMCPClient,
    name: str,
    args: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> list[Block]:
    """Do what `execute_tool` does, and block until it is done."""
    return client.run_blocking(execute_tool, client, name, args, context)
