"""The tools of a run as in-process MCP servers for Claude's command line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, cast

import mcp_types as types
from claude_agent_sdk.types import McpSdkServerConfig
from mcp import types as sdk_types
from mcp.server import Server

from plait._version import __version__
from plait.agents.agent_run import RunTool
from plait.client.calls.result_budget import OWN_SERVER
from plait.client.catalog.names import legal_name
from plait.models.schemas.for_provider import schema_for_provider

Answer = Callable[["CliTool", types.CallToolRequestParams], Awaitable[types.CallToolResult]]
"""Makes a call of the command line."""

_LOCAL_SERVER: Final = "plait"
"""The server name for tools without a configured server, if it is free."""

MAX_SERVER_CHARACTERS: Final = 56
"""With `mcp__`, `__` and the name of a tool, a name has at most the 128 characters of the API."""

_UNBOUNDED: Final = {"anthropic/maxResultSizeChars": 1_000_000_000}
"""Turns off truncation of results: the run has its own result budget."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliTool:
    """A tool of the run, with its server and name for the command line."""

    server: str
    tool: str
    run_tool: RunTool
    is_local: bool = True
    """Whether this process calls it, and not the command line itself."""

    @property
    def name(self) -> str:
        """The name for the model."""
        return f"mcp__{self.server}__{self.tool}"


def cli_tools(
    tools: Iterable[RunTool], servers: Iterable[str] = (), *, bridged: bool = True
) -> dict[str, CliTool]:
    """Assign each tool to a server, by its name for the model.

    With `bridged` false the command line lists the tools of servers itself, names and calls them.
    """
    keys = server_keys(servers)
    local = _free_name(_LOCAL_SERVER, set(keys.values()))
    assigned: dict[str, CliTool] = {}
    taken: set[tuple[str, str]] = set()
    for tool in tools:
        listed = tool.listed
        is_local = bridged
        if listed is None or listed.server == OWN_SERVER:
            server, name, is_local = local, legal_name(tool.name), True
        elif bridged:
            renamed = None if listed.override is None else listed.override.name
            server, name = keys[listed.server], legal_name(renamed or listed.wire_name)
        else:
            server, name = keys[listed.server], _ILLEGAL.sub("_", listed.wire_name)
        if bridged:
            name = _free_name(name, {other for key, other in taken if key == server})
        taken.add((server, name))
        cli_tool = CliTool(server=server, tool=name, run_tool=tool, is_local=is_local)
        assigned[cli_tool.name] = cli_tool
    return assigned


def server_keys(servers: Iterable[str]) -> dict[str, str]:
    """Name servers so that the command line does not change the names."""
    keys: dict[str, str] = {}
    for server in servers:
        legal = legal_name(server)
        if len(legal) > MAX_SERVER_CHARACTERS:
            digest = hashlib.sha256(server.encode()).hexdigest()[:8]
            legal = f"{legal[: MAX_SERVER_CHARACTERS - 9]}_{digest}"
        keys[server] = _free_name(legal, set(keys.values()))
    return keys


def sdk_servers(tools: Iterable[CliTool], answer: Answer) -> dict[str, McpSdkServerConfig]:
    """Create an in-process server for each server with tools; calls go to `answer`."""
    grouped: dict[str, dict[str, CliTool]] = {}
    for tool in tools:
        grouped.setdefault(tool.server, {})[tool.tool] = tool
    return {
        key: {"type": "sdk", "name": key, "instance": _server(key, server_tools, answer)}
        for key, server_tools in grouped.items()
    }


def _server(key: str, tools: Mapping[str, CliTool], answer: Answer) -> Server[Any]:
    definitions: list[types.Tool] = []
    for tool in tools.values():
        run_tool = tool.run_tool
        # The command line calls read-only tools in parallel.
        hints = dict(run_tool.listed.annotations) if run_tool.listed is not None else {}
        hints.pop("title", None)
        definition = types.Tool(
            name=tool.tool,
            description=run_tool.description,
            input_schema=schema_for_provider(run_tool.input_schema, "anthropic").schema,
            annotations=types.ToolAnnotations(**hints) if hints else None,
            _meta=_UNBOUNDED,
        )
        definitions.append(definition)
    listed = types.ListToolsResult(tools=definitions)

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return listed

    async def call_tool(
        _context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await answer(tools[params.name], params)

    if not hasattr(Server, "list_tools"):
        return Server(key, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    server: Any = Server(key, version=__version__)
    # SDK 1.x has a handler for each type of request, with types of its own.
    server.request_handlers[sdk_types.ListToolsRequest] = _handler(
        list_tools, types.ListToolsRequest
    )
    server.request_handlers[sdk_types.CallToolRequest] = _handler(call_tool, types.CallToolRequest)
    return server


def _handler(
    handle: Callable[[object, Any], Awaitable[types.Result]], kind: type[types.Request[Any, Any]]
) -> Callable[[Any], Awaitable[Any]]:
    """Return a handler of SDK 1.x that handles requests in types of SDK 2."""

    async def handle_old(request: Any) -> Any:
        dumped = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = await handle(None, kind.model_validate(dumped).params)
        answer = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        old_type = getattr(sdk_types, type(result).__name__)
        return cast("Any", sdk_types.ServerResult)(old_type.model_validate(answer))

    return handle_old


def _free_name(name: str, taken: set[str]) -> str:
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(free for free in names if free not in taken)
