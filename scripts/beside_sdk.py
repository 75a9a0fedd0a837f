"""Use the installed plait with the MCP SDK of this environment, 1.x or 2.x.

Run by try_beside.py.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from plait import MultiServerMCPClient, Toolbox, create_session, load_mcp_tools

SERVER = """
try:
    from mcp.server import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("shop")


@server.tool()
def price(name: str, amount: int = 1) -> int:
    "Return what something costs."
    return len(name) * amount


if __name__ == "__main__":
    server.run()
"""
"""A server of the user, for the SDK that is installed."""
ENTRY: dict[str, Any] = {"command": sys.executable, "args": ["shop.py"], "transport": "stdio"}


async def with_sessions_of_plait() -> None:
    """Call the server as a process, over sessions that plait opens."""
    async with MultiServerMCPClient({"shop": ENTRY}) as client:
        [tool] = await client.get_tools()
        assert await tool.ainvoke({"name": "tea", "amount": 3}) == "9"
        async with client.session("shop") as session:
            assert isinstance(session, ClientSession)
            [listed] = await load_mcp_tools(session)
            assert await listed.ainvoke({"name": "tea"}) == "3"
    async with create_session(ENTRY) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["price"]


async def with_session_of_user() -> None:
    """Call the server over a session that the SDK has opened."""
    parameters = StdioServerParameters(command=sys.executable, args=["shop.py"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        [tool] = await load_mcp_tools(session)
        assert await tool.ainvoke({"name": "cup", "amount": 2}) == "6"


async def in_process(server: Any) -> None:
    """Call the server in this process."""
    async with Toolbox({"inside": server}) as box:
        assert (await box.call("inside", "price", {"name": "jam"})).text == "3"


Path("shop.py").write_text(SERVER)
asyncio.run(with_sessions_of_plait())
asyncio.run(with_session_of_user())
asyncio.run(in_process(runpy.run_path("shop.py")["server"]))
