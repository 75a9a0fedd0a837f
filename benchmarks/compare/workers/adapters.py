"""langchain-mcp-adapters, with sessions held open and as its README shows it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.compare.workers.peer import (
    Connection,
    Server,
    ToolsConnection,
    Unsupported,
    require,
)


class Adapters:
    """What both ways share."""

    packages = ("langchain-mcp-adapters", "mcp", "langchain-core", "langgraph")

    def load(self) -> object:
        from langchain_mcp_adapters.client import MultiServerMCPClient

        return MultiServerMCPClient

    def client(self, servers: Sequence[Server]) -> Any:
        from langchain_mcp_adapters.client import MultiServerMCPClient

        require(servers, transports={"stdio", "HTTP", "WebSocket"}, eras={"handshake"})
        return MultiServerMCPClient({server.name: connection_of(server) for server in servers})


class HeldSession(Adapters):
    """One session per server, open for all calls."""

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from langchain_mcp_adapters.tools import load_mcp_tools

        client = self.client(servers)
        async with AsyncExitStack() as stack:
            tools: list[Any] = []
            for server in servers:
                session = await stack.enter_async_context(client.session(server.name))
                tools += await load_mcp_tools(session)
            yield ToolsConnection(tools)


class SessionPerCall(Adapters):
    """`get_tools` opens a session, and thus starts a stdio server, for every call."""

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        yield PerCallConnection(await self.client(servers).get_tools())


class PerCallConnection(ToolsConnection):
    """Knows that no server runs between calls."""

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        if name == "pid":
            raise Unsupported("no server runs between calls")
        return await super().call(name, arguments)


def connection_of(server: Server) -> dict[str, Any]:
    """Write a server as the client's configuration."""
    if server.transport == "stdio":
        return {"transport": "stdio", "command": server.command, "args": list(server.args)}
    kind = "websocket" if server.transport == "WebSocket" else "streamable_http"
    return {"transport": kind, "url": server.url}
