"""A small MCP server for the tests of the command line."""

import asyncio
import os
import sys
from pathlib import Path

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)

server = MCPServer("shop", version="1.2", log_level="ERROR")


class Filter(BaseModel):
    organic: bool = False
    maker: str = ""


class Total(BaseModel):
    total: int


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def search(
    query: str,
    limit: int = 10,
    ratio: float = 1.0,
    exact: bool = False,
    tags: list[str] | None = None,
    where: Filter | None = None,
) -> str:
    """Search the shop.

    The second paragraph of the description.
    """
    found = [query, limit, ratio, exact, tags, where.model_dump() if where else None]
    return repr(found)


@server.tool()
def add(a: int, b: int) -> Total:
    """Add two numbers."""
    return Total(total=a + b)


@server.tool(annotations=types.ToolAnnotations(destructive_hint=True))
def pay(amount: int) -> str:
    """Pay, or fail to."""
    raise ToolError(f"no {amount} coins left")


@server.tool()
def logo() -> Image:
    """Return the logo."""
    return Image(data=PNG, format="png")


@server.tool(structured_output=False)
def escape() -> str:
    """Try to clear the terminal."""
    return "\x1b[2Jgone"


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Take a while."""
    await ctx.report_progress(1, 3, "one of three")
    if marker := os.environ.get("SHOP_MARKER"):
        await asyncio.to_thread(Path(marker).write_text, str(os.getpid()))
    await asyncio.sleep(seconds)
    return "done"


@server.resource("shop://notes", mime_type="text/plain")
def notes() -> str:
    """Some notes."""
    return "first line\nsecond line\n"


@server.resource("shop://logo", mime_type="image/png")
def logo_resource() -> bytes:
    """Return the logo."""
    return PNG


@server.resource("shop://item/{number}")
def item(number: str) -> str:
    """One item."""
    return f"item {number}"


@server.prompt()
def summarize(text: str, tone: str = "dry") -> str:
    """Summarize a text."""
    return f"Summarize in a {tone} tone: {text}"


if __name__ == "__main__":
    if "--noise" in sys.argv:
        print("Welcome to the shop!", flush=True)
        print("starting with --noise", file=sys.stderr, flush=True)
    if "--crash" in sys.argv:
        print("KeyError: 'SHOP_TOKEN'", file=sys.stderr, flush=True)
        sys.exit(3)
    if "--http" in sys.argv:
        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[-1]))
    else:
        server.run()
