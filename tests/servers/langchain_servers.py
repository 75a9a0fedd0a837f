"""Small servers, for arithmetic, weather, time and a front desk, as programs and as objects.

`python langchain_servers.py math --transport stdio` runs one; the tests start them with
`stdio_entry` and `served`, or hand the object to a client.
"""

from __future__ import annotations

import argparse
import base64
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import anyio
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel

from plait.testing import ServerProcess
from plait.testing.ports import bind
from plait.testing.serve_transports import (
    exit_when_stdin_closes,
    serve_on_port,
    serve_websocket,
    serve_with,
    sse_app,
)

Name = Literal["math", "weather", "time", "desk"]
Transport = Literal["http", "sse", "websocket"]

PIXEL = base64.b64encode(b"one pixel").decode()
READ_ONLY = ToolAnnotations(title="Adding up", read_only_hint=True, idempotent_hint=False)


class Root(BaseModel):
    """A square root, and how it was found."""

    value: float
    exact: bool


class Details(BaseModel):
    """What a profile needs from its owner."""

    email: str
    age: int


def math_server() -> MCPServer:
    """Make the server for arithmetic."""
    server = MCPServer(
        "Math", version="1.2.0", instructions="Numbers only, please.", log_level="CRITICAL"
    )

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def add(a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    @server.tool(structured_output=False)
    def multiply(a: int, b: int) -> str:
        """Multiply two integers."""
        return str(a * b)

    @server.tool()
    def root(square: float) -> Root:
        """Take the square root."""
        return Root(value=square**0.5, exact=(square**0.5).is_integer())

    @server.tool(structured_output=False)
    def divide(a: int, b: int) -> CallToolResult:
        """Divide two integers; by zero is a failure with a reason."""
        if b == 0:
            return CallToolResult(content=[TextContent(text="b must not be 0")], is_error=True)
        return CallToolResult(content=[TextContent(text=f"{a / b:g}")])

    @server.tool(structured_output=False)
    def give_up(
        how: Literal["silently", "with a picture", "with a picture only"],
    ) -> CallToolResult:
        """Fail without a reason, or with a picture."""
        picture = ImageContent(data=PIXEL, mime_type="image/png")
        content: dict[str, list[ContentBlock]] = {
            "silently": [],
            "with a picture": [TextContent(text="cannot draw"), picture],
            "with a picture only": [picture],
        }
        return CallToolResult(content=content[how], is_error=True)

    @server.tool(structured_output=False)
    def hum() -> AudioContent:
        """Hum a number."""
        return AudioContent(data=PIXEL, mime_type="audio/wav")

    @server.resource("math://formulas", mime_type="text/plain")
    def formulas() -> str:
        return "a² + b² = c²"

    @server.prompt()
    def tutor(topic: str) -> list[AssistantMessage | UserMessage]:
        """Begin a lesson."""
        return [AssistantMessage(f"Let us look at {topic}."), UserMessage("Slowly, please.")]

    @server.prompt()
    def picture_of() -> list[UserMessage]:
        """Show something."""
        return [UserMessage(ImageContent(data=PIXEL, mime_type="image/png"))]

    return server


def weather_server() -> MCPServer:
    """Make the server for the weather; it has no instructions."""
    server = MCPServer("Weather", version="0.1.0", log_level="CRITICAL")

    @server.tool(
        title="Weather report",
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True),
        icons=[Icon(src="https://example.com/sun.png", mime_type="image/png", sizes=["48x48"])],
        meta={"source": "a window", "version": 3},
        structured_output=False,
    )
    def report(city: str) -> str:
        """Tell the weather of a city."""
        return f"Drizzle in {city}"

    @server.tool(structured_output=False)
    def search(query: str) -> str:
        """Search the weather."""
        return f"weather about {query}"

    @server.resource("weather://today", mime_type="text/plain")
    def today() -> str:
        return "Drizzle, later rain"

    @server.resource("weather://map", mime_type="image/png")
    def chart() -> bytes:
        return b"a map"

    return server


def ask_for_details(name: str) -> Elicit[Details]:
    """Have the client ask the user."""
    return Elicit(f"Who is {name}?", Details)


def time_server() -> MCPServer:
    """Make the server for time, which also talks back while it works."""
    server = MCPServer("Time", version="2.0.0", log_level="CRITICAL")

    @server.tool(structured_output=False)
    def now() -> str:
        """Tell the time."""
        return "twenty past five"

    @server.tool(structured_output=False)
    def search(query: str) -> str:
        """Search the calendar."""
        return f"appointments about {query}"

    @server.tool(structured_output=False)
    async def work(task: str, ctx: Context) -> str:
        """Work in three steps, and tell about each."""
        for step, level in enumerate(("info", "debug", "warning")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await ctx.log(level, f"{task} {step}")  # pyright: ignore[reportDeprecated]
            await ctx.report_progress(step + 1, 3, f"{task}: step {step + 1}")
        return f"{task} is done"

    @server.tool(structured_output=False)
    def visitor(ctx: Context) -> str:
        """Say who calls (`X-User`), how (`X-Made-By`), and in which session."""
        headers = ctx.headers or {}
        names = ("x-user", "x-made-by", "mcp-session-id")
        return " ".join(headers.get(name, "-") for name in names)

    @server.tool(structured_output=False)
    def variable(name: str) -> str:
        """Return a variable of the server's environment."""
        return os.environ.get(name, "(unset)")

    @server.tool(structured_output=False)
    def create_profile(
        name: str, details: Annotated[ElicitationResult[Details], Resolve(ask_for_details)]
    ) -> str:
        """Ask the user about someone."""
        if isinstance(details, AcceptedElicitation):
            return f"{name} is {details.data.age}: {details.data.email}"
        return f"{name}: {details.action}"

    return server


SHOWN: dict[str, list[ContentBlock]] = {
    "nothing": [],
    "text": [TextContent(text="one")],
    "texts": [TextContent(text="one"), TextContent(text="two")],
    "picture": [ImageContent(data=PIXEL, mime_type="image/jpeg")],
    "sound": [AudioContent(data=PIXEL, mime_type="audio/wav")],
    "page": [
        EmbeddedResource(
            resource=TextResourceContents(uri="desk://page", mime_type="text/plain", text="hello")
        )
    ],
    "photo": [
        EmbeddedResource(
            resource=BlobResourceContents(uri="desk://photo", mime_type="image/png", blob=PIXEL)
        )
    ],
    "form": [
        EmbeddedResource(
            resource=BlobResourceContents(
                uri="desk://form", mime_type="application/pdf", blob=PIXEL
            )
        )
    ],
    "link": [ResourceLink(uri="file:///form.pdf", name="form", mime_type="application/pdf")],
    "link to a text": [ResourceLink(uri="file:///a.txt", name="a", mime_type="text/plain")],
    "link to anything": [ResourceLink(uri="file:///any", name="any")],
    "link to a picture": [
        ResourceLink(uri="https://example.com/p.png", name="p", mime_type="image/png")
    ],
    "link to a picture on a disk": [
        ResourceLink(uri="file:///p.jpg", name="p", mime_type="image/jpeg")
    ],
}
"""The content that the front desk shows, by its name."""


def desk_server() -> MCPServer:
    """Make the server of a front desk: it shows content of every kind, and asks visitors."""
    server = MCPServer("Desk", version="3.0.0", log_level="CRITICAL")
    visits: list[str] = []

    @server.tool(structured_output=False)
    def show(what: str, fails: bool = False, data: bool = False) -> CallToolResult:
        """Show something, maybe as a failure, maybe with structured content."""
        structured = {"shown": what} if data else None
        return CallToolResult(content=SHOWN[what], is_error=fails, structured_content=structured)

    @server.tool(structured_output=False)
    async def register(name: str, ctx: Context) -> str:
        """Ask a visitor for details, in the middle of the call."""
        visits.append(name)
        answer = await ctx.elicit(f"Details of {name}?", Details)
        who = f"{answer.data.email}, {answer.data.age}" if answer.action == "accept" else "-"
        return f"{answer.action}: {who} ({visits.count(name)})"

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def opened() -> str:
        """Tell whether the desk is open."""
        return "open"

    return server


def paged_server(names: list[str]) -> Server:
    """Make a server that lists one tool a page; a tool returns its own name."""

    async def list_tools(
        context: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        position = int((params and params.cursor) or 0)
        tool = Tool(name=names[position], input_schema={"type": "object"})
        last = position + 1 == len(names)
        return ListToolsResult(tools=[tool], next_cursor=None if last else str(position + 1))

    async def call_tool(
        context: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=params.name)])

    return Server("Paged", on_list_tools=list_tools, on_call_tool=call_tool)


BUILDERS = {
    "math": math_server,
    "weather": weather_server,
    "time": time_server,
    "desk": desk_server,
}


def stdio_entry(name: Name, env: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return the connection of a server on stdio."""
    from tests.nursery import entry

    more = {} if env is None else {"env": dict(env)}
    program = str(Path(__file__).resolve())
    return entry(program, name, "--transport", "stdio", transport="stdio", **more)


def served(name: Name, transport: Transport = "http") -> ServerProcess:
    """Return a server on a port; entering its context starts it."""
    program = str(Path(__file__).resolve())
    from tests.nursery import python

    return ServerProcess([*python(), program, name, "--transport", transport])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=BUILDERS)
    parser.add_argument("--transport", choices=["stdio", "http", "sse", "websocket"])
    arguments = parser.parse_args()
    server = BUILDERS[arguments.name]()
    if arguments.transport == "stdio":
        server.run("stdio")
        return
    if arguments.transport == "sse":
        serve_on_port(sse_app(serve_with(server), "127.0.0.1"), "/sse")
    elif arguments.transport == "http":
        serve_on_port(server.streamable_http_app())
    else:
        exit_when_stdin_closes()
        with bind() as listener:
            anyio.run(serve_websocket, serve_with(server), listener)


if __name__ == "__main__":
    main()
