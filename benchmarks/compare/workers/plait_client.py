"""plait: in the caller's loop, in a loop of its own, and without LangChain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.compare.workers.peer import Connection, Server, ToolsConnection, Unsupported


class Plait:
    """What all ways share."""

    packages = ("plait", "mcp", "langchain-core", "langgraph")

    def load(self) -> object:
        from plait import MultiServerMCPClient

        return MultiServerMCPClient


class CallersLoop(Plait):
    """`async with MultiServerMCPClient(...)`."""

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from plait import MultiServerMCPClient

        async with MultiServerMCPClient(config_of(servers)) as client:
            yield ToolsConnection(await client.get_tools())


class OwnLoop(Plait):
    """A client without a block around it."""

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from plait import MultiServerMCPClient

        client = MultiServerMCPClient(config_of(servers))
        try:
            yield ToolsConnection(await client.get_tools())
        finally:
            await client.aclose()


class PlaitToolbox:
    """`async with Toolbox(...)`."""

    packages = ("plait", "mcp")

    def load(self) -> object:
        from plait import Toolbox

        return Toolbox

    @asynccontextmanager
    async def connect(self, servers: Sequence[Server]) -> AsyncGenerator[Connection]:
        from plait import Toolbox

        async with Toolbox(config_of(servers)) as box:
            await box.tools()
            yield ToolboxConnection(box, servers[-1].name)


class ToolboxConnection:
    """Calls go to the last server."""

    def __init__(self, box: Any, server: str) -> None:
        self._box = box
        self._server = server

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._box.call(self._server, name, arguments)
        return result.text

    def tools(self) -> list[Any]:
        raise Unsupported("makes no LangChain tools")


def config_of(servers: Sequence[Server]) -> dict[str, Any]:
    """Write servers as plait's configuration."""
    return {
        server.name: {"command": server.command, "args": list(server.args)}
        if server.transport == "stdio"
        else {"url": server.url}
        for server in servers
    }
