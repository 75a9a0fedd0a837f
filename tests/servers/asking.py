"""A server whose tools ask in the middle of their work, and note in a file what they do."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from plait.testing.serve_transports import serve_on_port

LEDGER = Path(sys.argv[1])
server = MCPServer("asking")
allowed: set[str] = set()


class Text(BaseModel):
    text: str


def note(line: str) -> None:
    with LEDGER.open("a") as file:
        file.write(f"{line}\n")


async def answered(ctx: Context, question: str) -> str:
    answer = await ctx.elicit(question, Text)
    return answer.data.text if answer.action == "accept" else answer.action


async def booked(ctx: Context, name: str) -> str:
    note(f"began {name}")
    seat = await answered(ctx, f"seat for {name}?")
    meal = await answered(ctx, f"meal for {name}?")
    note(f"booked {name}")
    return f"{name}: {seat}, {meal}"


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
async def book(name: str, ctx: Context) -> str:
    return await booked(ctx, name)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look(name: str, ctx: Context) -> str:
    return await booked(ctx, name)


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
async def fetch(name: str) -> str:
    if name not in allowed:
        allowed.add(name)  # whoever visits the address is let in
        url = types.ElicitRequestURLParams(
            message=f"sign in for {name}",
            url="https://example.com/sign-in",
            elicitation_id=name,
        )
        raise UrlElicitationRequiredError([url])
    note(f"fetched {name}")
    return f"fetched {name}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def plain(name: str, seconds: float = 0) -> str:
    await anyio.sleep(seconds)
    return f"plain {name}"


def main() -> None:
    if sys.argv[2] == "stdio":
        server.run("stdio")
        return
    serve_on_port(server.streamable_http_app())


if __name__ == "__main__":
    main()
