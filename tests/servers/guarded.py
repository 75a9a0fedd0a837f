"""A server that notes every call in a file: `guarded.py LEDGER`."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from plait.testing.serve_transports import serve_on_port

LEDGER = Path(sys.argv[1])
server = MCPServer("guarded", log_level="ERROR")


class Text(BaseModel):
    text: str


def note(*words: str) -> str:
    with LEDGER.open("a") as file:
        file.write(" ".join(words) + "\n")
    return "ok " + " ".join(words)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read(path: str) -> str:
    return note("read", path)


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
def write(path: str, text: str = "") -> str:
    return note("write", path, text) if text else note("write", path)


@server.tool()
def touch(path: str) -> str:
    return note("touch", path)


@server.tool()
def pay(amount: int) -> str:
    return note("pay", str(amount))


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def erase_all() -> str:
    return note("erase_all")


@server.tool()
async def order(item: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"how many of {item}?", Text)
    many = answer.data.text if answer.action == "accept" else answer.action
    return note("order", item, many)


@server.resource("notes://one")
def one() -> str:
    return note("resource", "one")


def main() -> None:
    serve_on_port(server.streamable_http_app())


if __name__ == "__main__":
    main()
