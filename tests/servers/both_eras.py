"""A server of both eras whose tools ask during a call, and report what they do.

`modern-only` refuses the handshake; `stateless` has no back channel in either era.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from plait.testing.serve_transports import serve_on_port

server = MCPServer("both", log_level="WARNING")


class Seat(BaseModel):
    seat: str


@server.tool()
async def book(ctx: Context) -> str:
    """Ask by a request to the client."""
    await ctx.info("looking")  # pyright: ignore[reportDeprecated]
    await ctx.report_progress(1, 2, "half")
    answer = await ctx.elicit("which seat?", Seat)
    return f"seat {answer.data.seat}" if answer.action == "accept" else answer.action


def ask() -> Elicit[Seat]:
    return Elicit("which seat?", Seat)


@server.tool()
async def reserve(seat: Annotated[ElicitationResult[Seat], Resolve(ask)]) -> str:
    """Ask by a result, or by a request where there are no such results."""
    return f"seat {seat.data.seat}" if seat.action == "accept" else seat.action


@server.tool()
async def think(ctx: Context) -> str:
    """Use the client's model."""
    text = types.TextContent(text="hm")
    said = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
        [types.SamplingMessage(role="user", content=text)], max_tokens=9
    )
    content: Any = said.content
    return f"thought {content.text}"


@server.tool()
async def choose(ctx: Context) -> str:
    """Ask like FastMCP 4, whose refusal is a result."""
    if (ctx.protocol_version or "") >= "2026":
        raise ToolError(
            "elicitation via server-initiated requests is unavailable on 2026-07-28 connections."
        )
    answer = await ctx.elicit("which seat?", Seat)
    return f"seat {answer.data.seat}" if answer.action == "accept" else answer.action


@server.tool()
def era(ctx: Context) -> str:
    """Return the protocol version of the session."""
    return ctx.protocol_version or "unknown"


async def without_handshake(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "initialize":
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


def main() -> None:
    kind, over = sys.argv[1:]
    if kind == "modern-only":
        server.middleware.append(without_handshake)
    if over == "stdio":
        server.run("stdio")
        return
    serve_on_port(server.streamable_http_app(stateless_http=kind == "stateless"))


if __name__ == "__main__":
    main()
