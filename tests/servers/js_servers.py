"""A server with what the suite of `@langchain/mcp-adapters` needs, as a program.

`python js_servers.py stdio|http|sse [TOKEN]`; with a token, requests must carry it.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from starlette.responses import PlainTextResponse

from plait.testing import ServerProcess
from plait.testing.serve_transports import serve_on_port, serve_with, sse_app

PIXEL = "iVBORw0KGgo="
SOUND = "UklGRiQAAAA="


def result(*extra: ContentBlock, text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text), *extra])


def build() -> MCPServer:
    """Make the server; not on import, since it configures logging."""
    server = MCPServer("js", version="1.0.0", log_level="CRITICAL")

    @server.tool(structured_output=False)
    async def test_tool(input: str, ctx: Context) -> str:  # noqa: A002
        """Return the input, with log messages and progress on the way."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await ctx.info("test_tool invoked")  # pyright: ignore[reportDeprecated]
        for step in (1, 2, 3):
            await ctx.report_progress(step, 3)
        return json.dumps({"input": input, "serverName": "js"})

    @server.tool(structured_output=False)
    def check_headers(name: str, ctx: Context) -> str:
        """Return a header of the request."""
        return (ctx.headers or {}).get(name.lower(), "not found")

    @server.tool(structured_output=False)
    async def sleep_tool(milliseconds: int) -> str:
        """Take a while."""
        await anyio.sleep(milliseconds / 1000)
        return "done"

    @server.tool(structured_output=False)
    def image_tool(text: str) -> CallToolResult:
        """Return a text and an image."""
        return result(ImageContent(data=PIXEL, mime_type="image/png"), text=text)

    @server.tool(structured_output=False)
    def audio_tool(text: str) -> CallToolResult:
        """Return a text and a sound."""
        return result(AudioContent(data=SOUND, mime_type="audio/wav"), text=text)

    @server.tool(structured_output=False)
    def resource_tool(text: str) -> CallToolResult:
        """Return a text and an embedded resource."""
        page = TextResourceContents(
            uri="mem://test.txt", mime_type="text/plain", text="A resource."
        )
        return result(EmbeddedResource(resource=page), text=text)

    @server.tool(structured_output=False)
    def structured_tool(text: str) -> CallToolResult:
        """Return structured content and metadata beside a text."""
        return CallToolResult(
            content=[TextContent(text=text)], structured_content={"said": text}, _meta={"traced": 7}
        )

    @server.resource("mem://test.txt", name="Test Resource", mime_type="text/plain")
    def page() -> str:
        """Return a test resource."""
        return "A resource."

    @server.resource("mem://user/{user}/profile", name="User Profile")
    def profile(user: str) -> str:
        """Return a user profile."""
        return user

    return server


def guarded(app: Any, token: str) -> Any:
    """Refuse requests without the token."""

    async def check(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        allowed = headers.get(b"authorization") == f"Bearer {token}".encode()
        if scope["type"] == "http" and not allowed:
            await PlainTextResponse("Unauthorized", 401)(scope, receive, send)
            return
        await app(scope, receive, send)

    return check


def main(transport: str, *token: str) -> None:
    server = build()
    if transport == "stdio":
        server.run("stdio")
        return
    is_sse = transport == "sse"
    app: Any = sse_app(serve_with(server), "127.0.0.1") if is_sse else server.streamable_http_app()
    serve_on_port(guarded(app, *token) if token else app, "/sse" if is_sse else "/mcp")


def stdio_js() -> dict[str, Any]:
    """Return the connection of the server on stdio."""
    from tests.nursery import entry

    return entry(__file__, "stdio", transport="stdio")


def served_js(transport: Literal["http", "sse"], *token: str) -> ServerProcess:
    """Return the server on a port; entering its context starts it."""
    from tests.nursery import python

    return ServerProcess([*python(), __file__, transport, *token])


if __name__ == "__main__":
    main(*sys.argv[1:])
