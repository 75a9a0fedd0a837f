import asyncio

from mcp import Client
from mcp.server import MCPServer

from plait import MultiServerMCPClient, create_session, load_mcp_tools
from plait.testing import server_stdio_config

notes = MCPServer("notes", log_level="ERROR")


@notes.tool()
def count() -> int:
    """Count the notes."""
    return 3


async def main() -> None:
    async with Client(notes) as session:  # the MCP SDK's own client
        (tool,) = await load_mcp_tools(session, server_name="notes", tool_name_prefix=True)
        print(tool.name, await tool.ainvoke({}))

    connection = server_stdio_config()
    async with create_session(connection) as session:
        await session.initialize()
        tools = await load_mcp_tools(session)
        print(*(tool.name for tool in tools))

    client = MultiServerMCPClient({"clock": connection})
    async with client.session("clock") as session:
        tools = await load_mcp_tools(session)
        print(await tools[2].ainvoke({"a": 1, "b": 2}))
    await client.aclose()

    tools = await load_mcp_tools(None, connection=connection)  # a connection that heals
    print(await tools[2].ainvoke({"a": 3, "b": 4}))


asyncio.run(main())
