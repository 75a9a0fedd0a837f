import asyncio
import logging
from typing import Any

from mcp.server import MCPServer

from plait import ConfigError, MultiServerMCPClient

logging.basicConfig(level=logging.ERROR)  # a collision is also a warning in the log

web, wiki = MCPServer("web", log_level="ERROR"), MCPServer("wiki", log_level="ERROR")


@web.tool(name="search")
def search_web(query: str) -> str:
    """Search the web."""
    return f"the web about {query}"


@wiki.tool(name="search")
def search_wiki(query: str) -> str:
    """Search the wiki."""
    return f"the wiki about {query}"


@wiki.tool(name="pages.recent")
def recent() -> str:
    """List the pages that changed last."""
    return "Home"


async def show(title: str, **options: Any) -> None:
    async with MultiServerMCPClient({"web": web, "wiki": wiki}, **options) as client:
        print(f"{title}:", *(tool.name for tool in await client.get_tools()))


async def main() -> None:
    await show("nothing set")
    await show("tool_name_prefix", tool_name_prefix=True)
    await show("with two underscores", prefix_tool_name_with_server_name=True)
    await show(
        "and one more prefix",
        prefix_tool_name_with_server_name=True,
        additional_tool_name_prefix="my",
    )
    await show("renamed", tool_overrides={"wiki/search": {"name": "look_up"}})
    try:
        await show("refused", on_collision="error")
    except ConfigError as error:
        print(error)

    async with MultiServerMCPClient({"web": web, "wiki": wiki}) as client:
        for tool in await client.get_tools():
            metadata = tool.metadata or {}
            print(f"{tool.name} is {metadata['wire_name']} of {metadata['server']}")


asyncio.run(main())
