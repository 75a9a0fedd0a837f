"""The tools of a run, as servers inside this process that Claude's command line asks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import mcp_types as types
from claude_agent_sdk.types import McpSdkServerConfig
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from plait._version import __version__
from plait.agents.run_tools import RunTool
from plait.client.calls.result_budget.limiter import OWN_SERVER
from plait.client.catalog.names import legal_name
from plait.client.catalog.schemas import schema_for_provider

Answer = Callable[["CliTool", types.CallToolRequestParams], Awaitable[types.CallToolResult]]
"""Makes a call that the command line asks for."""

_OWN: Final = "plait"
"""The server of the tools that no configured server has, if its name is free."""

_LONGEST_SERVER: Final = 56
"""With `mcp__`, `__` and the name of a tool no name is longer than the 128 that the API takes."""

_UNBOUNDED: Final = {"anthropic/maxResultSizeChars": 1_000_000_000}
"""Says that results are not to be cut: the budget of the run has done that."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliTool:
    """A tool of the run, and where the command line finds it."""

    server: str

    tool: str

    run_tool: RunTool

    @property
    def name(self) -> str:
        """What the model calls it."""
        return f"mcp__{self.server}__{self.tool}"

    @property
    def is_of_server(self) -> bool:
        """Whether a configured server answers it, and not this process."""
        return self.run_tool.server not in (None, OWN_SERVER)


def cli_tools(
    tools: Iterable[RunTool], servers: Iterable[str] = (), *, own_names: bool = True
) -> dict[str, CliTool]:
    """Give each tool its place, by the name that the model calls it.

    With `own_names` false the command line itself asks the servers for their tools, and makes the
    names.
    """
    keys = server_keys(servers)
    own = next(_spellings(_OWN, set(keys.values())))
    placed: dict[str, CliTool] = {}
    taken: set[tuple[str, str]] = set()
    for tool in tools:
        listed = tool.listed
        if listed is None or listed.server == OWN_SERVER:
            server, wanted = own, legal_name(tool.name)
        elif own_names:
            server, wanted = keys[listed.server], legal_name(_own_name(tool))
        else:
            server, wanted = keys[listed.server], _ILLEGAL.sub("_", listed.wire_name)
        used = {name for key, name in taken if key == server}
        name = next(_spellings(wanted, used)) if own_names else wanted
        taken.add((server, name))
        one = CliTool(server=server, tool=name, run_tool=tool)
        placed[one.name] = one
    return placed


def server_keys(servers: Iterable[str]) -> dict[str, str]:
    """Name servers so that the command line leaves the names as they are."""
    keys: dict[str, str] = {}
    for server in servers:
        legal = legal_name(server)
        if len(legal) > _LONGEST_SERVER:
            mark = hashlib.sha256(server.encode()).hexdigest()[:8]
            legal = f"{legal[: _LONGEST_SERVER - 9]}_{mark}"
        keys[server] = next(_spellings(legal, set(keys.values())))
    return keys


def sdk_servers(tools: Iterable[CliTool], answer: Answer) -> dict[str, McpSdkServerConfig]:
    """Make a server for each that has tools; calls go to `answer`."""
    grouped: dict[str, dict[str, CliTool]] = {}
    for tool in tools:
        grouped.setdefault(tool.server, {})[tool.tool] = tool
    return {
        key: {"type": "sdk", "name": key, "instance": _server(key, held, answer)}
        for key, held in grouped.items()
    }


def _server(key: str, tools: Mapping[str, CliTool], answer: Answer) -> Server[Any]:
    listed = types.ListToolsResult(tools=[_described(tool) for tool in tools.values()])

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return listed

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        del context
        return await answer(tools[params.name], params)

    return Server(key, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _described(tool: CliTool) -> types.Tool:
    """Describe a tool; the command line makes calls at once of those that are read-only."""
    given = tool.run_tool
    hints = dict(given.listed.annotations) if given.listed is not None else {}
    hints.pop("title", None)
    return types.Tool(
        name=tool.tool,
        description=given.description,
        input_schema=schema_for_provider(given.input_schema, "anthropic").schema,
        annotations=types.ToolAnnotations(**hints) if hints else None,
        _meta=_UNBOUNDED,
    )


def _own_name(tool: RunTool) -> str:
    listed = tool.listed
    assert listed is not None  # noqa: S101  # asked of tools of servers
    renamed = None if listed.override is None else listed.override.name
    return renamed or listed.wire_name


def _spellings(name: str, taken: set[str]) -> Iterator[str]:
    """Yield the name, or with a number the first that is not taken."""
    if name not in taken:
        yield name
    yield from (f"{name}_{number}" for number in count(2) if f"{name}_{number}" not in taken)
