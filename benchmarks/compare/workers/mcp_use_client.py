"""mcp-use, with the LangChain tools of its adapter."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.compare.workers.peer import Connection, Server, ToolsConnection, require


class McpUse:
    """`MCPClient` and `LangChainAdapter`."""

    packages = ("mcp-use", "mcp", "langchain-core", "langgraph")

    def load(self) -> object:
        from mcp_use import MCPClient
        from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

        return MCPClient, LangChainAdapter

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from mcp_use import MCPClient
        from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

        require(servers, transports={"stdio", "HTTP", "WebSocket"}, eras={"handshake"})
        config = {"mcpServers": {server.name: config_of(server) for server in servers}}
        client = MCPClient.from_dict(config)
        try:
            await client.create_all_sessions()
            yield ToolsConnection(await LangChainAdapter().create_tools(client))
        finally:
            await client.close_all_sessions()


def config_of(server: Server) -> dict[str, Any]:
    """Write a server as the client's configuration."""
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args)}
    return {"ws_url" if server.transport == "WebSocket" else "url": server.url}
