import asyncio
import base64
from typing import Any

from langchain_core.messages import ToolMessage
from mcp.server import MCPServer
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from plait import MultiServerMCPClient
from plait.testing import tool_call

camera = MCPServer("camera", log_level="ERROR")
PIXELS = base64.b64encode(b"not a real picture").decode()
REPORT = base64.b64encode(b"%PDF-1.7 not a real report").decode()


@camera.tool()
def look() -> CallToolResult:
    """Look around."""
    pdf = BlobResourceContents(uri="file:///log.pdf", mime_type="application/pdf", blob=REPORT)
    return CallToolResult(
        content=[
            TextContent(text="A cat."),
            ImageContent(data=PIXELS, mime_type="image/png"),
            EmbeddedResource(resource=pdf),
        ],
        structured_content={"animals": 1},
    )


async def show(title: str, **options: Any) -> None:
    async with MultiServerMCPClient({"camera": camera}, **options) as client:
        (tool,) = await client.get_tools()
        message: ToolMessage = await tool.ainvoke(tool_call("look"))
        print(title)
        if isinstance(message.content, str):
            print("  the model reads:", message.content)
        else:
            for block in message.content_blocks:
                print("  the model reads:", block.get("text") or f"{block['type']} block")
        artifact = message.artifact
        print("  the program has:", artifact["structured_content"], end=" ")
        print([block["type"] for block in artifact["content"]])


async def main() -> None:
    await show("nothing set")
    await show("pictures aside", output_handling={"image": "artifact"})
    await show("structure too", output_handling={"structured_content": "content"})
    await show("everything aside", output_handling="artifact")


asyncio.run(main())
