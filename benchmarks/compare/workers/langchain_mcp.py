"""`langchain.mcp`, the adapter of LangChain on fastmcp, inside its context."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.compare.workers.peer import Connection, Server, ToolsConnection, require


class LangChainMcp:
    """`MCPAdapter`."""

    packages = ("langchain", "fastmcp", "mcp", "langchain-core", "langgraph")

    def load(self) -> object:
        warnings.simplefilter("ignore")
        from langchain.mcp import MCPAdapter

        return MCPAdapter

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        warnings.simplefilter("ignore")
        from fastmcp.client.transports import StdioTransport
        from langchain.mcp import MCPAdapter

        require(servers, transports={"stdio", "HTTP"}, eras={"handshake", "modern"})
        targets: dict[str, Any] = {
            server.name: server.url
            or StdioTransport(command=server.command, args=list(server.args))
            for server in servers
        }
        async with MCPAdapter(group_of(targets)) as adapter:
            yield ToolsConnection(await adapter.list_tools())


def group_of(targets: dict[str, Any]) -> Any:
    """Return the only target, or a group of clients."""
    if len(targets) == 1:
        return next(iter(targets.values()))
    from fastmcp import Client
    from langchain.mcp.adapter import ClientGroup

    return ClientGroup({name: Client(target) for name, target in targets.items()})
