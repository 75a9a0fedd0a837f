import asyncio
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from plait import MultiServerMCPClient, PermissionDeniedError
from plait.client import Tool

files = MCPServer("files", log_level="ERROR")


@files.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_folder(path: str) -> str:
    """List the files in a folder."""
    return f"{path}/plan.txt"


@files.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_file(path: str) -> str:
    """Read a file."""
    return f"what is in {path}"


@files.tool(annotations=ToolAnnotations(destructive_hint=False))
def append_file(path: str, text: str) -> str:
    """Add text to a file."""
    return f"added {len(text)} letters to {path}"


@files.tool()
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def takes_a_path_only(tool: Tool) -> bool:
    return set(tool.input_schema["properties"]) == {"path"}


async def show(title: str, **options: Any) -> None:
    async with MultiServerMCPClient({"files": files}, **options) as client:
        print(f"{title}:", *(tool.name for tool in await client.get_tools()))


async def main() -> None:
    await show("nothing set")
    await show("a name and a glob", include=["read_file", "list_*"])
    await show("of one server", exclude=["files/delete_*"])
    await show("a regular expression", include=["re:^(read|append)_"])
    await show("by what it does", include=["@read_only"])
    await show("by what it does not", exclude=["@destructive"])
    await show("a function", tool_filter=takes_a_path_only)
    await show("none", include=[])

    async with MultiServerMCPClient({"files": files}, exclude="delete_*") as client:
        print("this list only:", *(tool.name for tool in await client.get_tools(include="list_*")))
        handle = await client.get_client("files")
        try:
            await handle.call_tool("delete_file", {"path": "plan.txt"})
        except PermissionDeniedError as error:
            print(error)


asyncio.run(main())
