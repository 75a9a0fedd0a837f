"""The client of the MCP SDK, without LangChain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.compare.workers.peer import Connection, Server, Unsupported, require


class Sdk:
    """`mcp.Client`, held open."""

    packages = ("mcp",)

    def load(self) -> object:
        from mcp import Client

        return Client

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from mcp import Client, StdioServerParameters

        require(servers, transports={"stdio", "HTTP"}, eras={"handshake", "modern"})
        async with AsyncExitStack() as stack:
            clients: list[Any] = []
            for server in servers:
                target: Any = server.url or StdioServerParameters(
                    command=server.command, args=list(server.args)
                )
                mode = "legacy" if server.era == "handshake" else "auto"
                client = await stack.enter_async_context(Client(target, mode=mode, cache=None))
                await client.list_tools()
                clients.append(client)
            yield SdkConnection(clients)


class SdkConnection:
    """Calls go to the last server."""

    def __init__(self, clients: Sequence[Any]) -> None:
        self._client = clients[-1]

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._client.call_tool(name, arguments)
        return result.content[0].text

    def tools(self) -> list[Any]:
        raise Unsupported("makes no LangChain tools")
