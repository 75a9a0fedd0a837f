"""Use a server with one of the Python clients: `with_python.py sdk-1|sdk-2|fastmcp COMMAND…`.

Run by `scripts/try_clients.py`, in the environment of that client. Prints what it got as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

Use = tuple[Callable[[], Awaitable[list[str]]], Callable[[str, dict[str, Any]], Awaitable[str]]]
"""Lists the names of tools, and calls one for its text."""


@asynccontextmanager
async def sdk_1(command: str, words: list[str]) -> AsyncGenerator[Use]:
    mcp, stdio = import_module("mcp"), import_module("mcp.client.stdio")
    server = mcp.StdioServerParameters(command=command, args=words, env=dict(os.environ))
    async with (
        stdio.stdio_client(server) as (read, write),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()

        async def names() -> list[str]:
            return [tool.name for tool in (await session.list_tools()).tools]

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return (await session.call_tool(name, arguments)).content[0].text

        yield names, call


@asynccontextmanager
async def sdk_2(command: str, words: list[str]) -> AsyncGenerator[Use]:
    mcp = import_module("mcp")
    server = mcp.StdioServerParameters(command=command, args=words, env=dict(os.environ))
    async with mcp.Client(server) as client:

        async def names() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return (await client.call_tool(name, arguments)).content[0].text

        yield names, call


@asynccontextmanager
async def fastmcp(command: str, words: list[str]) -> AsyncGenerator[Use]:
    library, transports = import_module("fastmcp"), import_module("fastmcp.client.transports")
    transport = transports.StdioTransport(command, words, env=dict(os.environ))
    async with library.Client(transport) as client:

        async def names() -> list[str]:
            return [tool.name for tool in await client.list_tools()]

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return (await client.call_tool(name, arguments)).content[0].text

        yield names, call


async def main(kind: str, command: str, words: list[str]) -> None:
    """List, call, kill the server behind, and call again."""
    opened = {"sdk-1": sdk_1, "sdk-2": sdk_2, "fastmcp": fastmcp}[kind]
    async with opened(command, words) as (names, call):
        listed = await names()
        os.kill(int(await call("faults__pid", {})), signal.SIGKILL)
        texts = [
            await call("faults__echo", {"text": "after the kill"}),
            await call("faults__get_and_die", {"key": "k"}),
            await call("faults__echo", {"text": "after the end"}),
        ]
    print(json.dumps({"tools": listed, "texts": texts}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
