"""Tools, resources and prompts of the fault server with every content type."""

from __future__ import annotations

import base64

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    Completion,
    CompletionArgument,
    CompletionContext,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from plait.testing.faults.tools import READ_ONLY

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
"""One red pixel."""

WAV = (
    b"RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00"
    b"\x80\x3e\x00\x00\x02\x00\x10\x00data\x04\x00\x00\x00\x00\x00\x00\x00"
)
"""Two samples of silence."""

NAMES = ("Ada", "Alan", "Grace")


class Weather(BaseModel):
    """The result of `structured`, and the output schema of `bad_structured`."""

    city: str
    degrees: float


def add_content(server: MCPServer) -> None:
    """Register the tools, resources and prompts."""
    _add_tools(server)
    _add_resources(server)
    _add_prompts(server)


def _add_tools(server: MCPServer) -> None:
    @server.tool(annotations=READ_ONLY)
    async def structured() -> Weather:
        """Return structured content that keeps its output schema."""
        return Weather(city="Oslo", degrees=-3.5)

    @server.tool(annotations=READ_ONLY)
    async def bad_structured() -> Weather:
        """Return structured content that breaks its output schema."""
        return Weather(city="Oslo", degrees=-3.5)

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def image() -> list[ContentBlock]:
        """Return a text and an image."""
        return [TextContent(text="one pixel"), ImageContent(data=_text(PNG), mime_type="image/png")]

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def audio() -> list[ContentBlock]:
        """Return a text and a sound."""
        return [TextContent(text="silence"), AudioContent(data=_text(WAV), mime_type="audio/wav")]

    @server.tool(annotations=READ_ONLY, structured_output=False)
    async def links() -> list[ContentBlock]:
        """Return a resource link, an embedded text and an embedded blob."""
        return [
            ResourceLink(
                uri="test://static",
                name="static",
                description="The static resource",
                mime_type="text/plain",
                size=6,
            ),
            EmbeddedResource(
                resource=TextResourceContents(
                    uri="test://item/1", text="item 1", mime_type="text/plain"
                )
            ),
            EmbeddedResource(
                resource=BlobResourceContents(
                    uri="test://pixel", blob=_text(PNG), mime_type="image/png"
                )
            ),
        ]


def _add_resources(server: MCPServer) -> None:
    @server.resource("test://static", name="static", mime_type="text/plain")
    async def static() -> str:
        """A text that never changes."""
        return "static"

    @server.resource("test://item/{id}", name="item", mime_type="text/plain")
    async def item(id: str) -> str:  # noqa: A002  the name in the template
        """One of many items; there is no item `missing`."""
        if id == "missing":
            raise ResourceNotFoundError(f"there is no item {id}")
        return f"item {id}"


def _add_prompts(server: MCPServer) -> None:
    @server.prompt()
    async def greet(name: str) -> str:
        """Ask for a greeting."""
        return f"Say hello to {name}."

    @server.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,  # noqa: ARG001  part of the SDK's signature
    ) -> Completion | None:
        if not isinstance(ref, PromptReference) or argument.name != "name":
            return None
        values = [name for name in NAMES if name.lower().startswith(argument.value.lower())]
        return Completion(values=values, total=len(values), has_more=False)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
