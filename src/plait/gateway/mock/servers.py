"""The mock servers: each file of mocks is a real MCP server on Streamable HTTP."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from plait._support.threads import in_thread
from plait.gateway.mock.tools import MockTool, answer_of, read_mocks

_FAILED_FROM = 400


class MockServers:
    """Serves the files of a folder; one that is changed or added counts from the next request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._starting = anyio.Lock()

    def names(self) -> list[str]:
        """Return the servers there are."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve until the block ends."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def handle(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request to a server that exists."""
        async with self._starting:
            if name not in self._managers:
                assert self._group is not None, "not running"  # noqa: S101
                manager = StreamableHTTPSessionManager(_server(self, name))
                await self._group.start(_run, manager)
                self._managers[name] = manager
        await self._managers[name].handle_request(scope, receive, send)

    async def tools_of(self, name: str) -> tuple[MockTool, ...]:
        """Read the tools of a server as they are now."""
        found = await in_thread(read_mocks, self.folder / f"{name}.json")
        return tuple(tool for tool in found if tool.enabled)


async def _run(
    manager: StreamableHTTPSessionManager,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()


def _server(servers: MockServers, name: str) -> Server[Any]:
    async def list_tools(
        _context: object, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.input_schema),
                )
                for tool in await servers.tools_of(name)
            ]
        )

    async def call_tool(
        _context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tools = {tool.name: tool for tool in await servers.tools_of(name)}
        if params.name not in tools:
            raise MCPError(404, f"Mock tool '{params.name}' not found")
        return await _called(tools[params.name], params.arguments or {})

    return Server(name, version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)


async def _called(tool: MockTool, arguments: dict[str, Any]) -> types.CallToolResult:
    await anyio.sleep(tool.delay_seconds)
    if random.random() < tool.error_rate:
        raise MCPError(500, f"Simulated error for mock tool '{tool.name}'")
    answer = answer_of(tool, arguments)
    return types.CallToolResult(
        content=[types.TextContent(text=answer.text)],
        is_error=tool.status_code >= _FAILED_FROM,
        _meta={
            "isMock": True,
            "tool": tool.name,
            "usedArguments": arguments,
            "template": answer.template,
            "missingPlaceholders": list(answer.missing),
        },
    )
