"""Content of MCP servers as text.

Content that is not text becomes a line that describes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, assert_never

from plait._support import mcp_types as types
from plait._support.sizes import size_label


def text_from_mcp(content: Iterable[types.ContentBlock], structured: Any | None = None) -> str:
    """Write blocks as lines of one text; `structured` comes first if no block is text."""
    blocks = list(content)
    lines = [line_from_mcp(block) for block in blocks]
    if structured is not None and not any(isinstance(one, types.TextContent) for one in blocks):
        lines.insert(0, json.dumps(structured, ensure_ascii=False))
    return "\n".join(lines)


def line_from_mcp(block: types.ContentBlock) -> str:
    """Return the text of a block, or one line that describes it."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return media_line(block.type, block.mime_type, decoded_bytes(block.data))
        case types.ResourceLink():
            return resource_line(block.uri, block.mime_type, block.size)
        case types.EmbeddedResource():
            return contents_line(block.resource)
        case _:
            assert_never(block)


def contents_line(contents: types.TextResourceContents | types.BlobResourceContents) -> str:
    """Describe the contents of a resource: `Resource: file:///a.txt (text/plain, 2 B)`."""
    if isinstance(contents, types.TextResourceContents):
        size = len(contents.text.encode("utf-8", "replace"))
    else:
        size = decoded_bytes(contents.blob)
    return resource_line(contents.uri, contents.mime_type, size)


def resource_line(uri: str, mime_type: str | None, size_bytes: int | None) -> str:
    """Describe a resource; `None` and negative sizes are unknown."""
    size = None if size_bytes is None or size_bytes < 0 else size_label(size_bytes)
    facts = ", ".join(fact for fact in (mime_type, size) if fact)
    return " ".join(["Resource:", *([uri] if uri else []), *([f"({facts})"] if facts else [])])


def media_line(kind: str, mime_type: str | None, size_bytes: int) -> str:
    """Describe an image, audio or a file: `[image: image/png, 68 B]`."""
    facts = ", ".join(fact for fact in (mime_type, size_label(size_bytes)) if fact)
    return f"[{kind}: {facts}]"


def decoded_bytes(data: str) -> int:
    """Return the size of the data that a base64 text encodes."""
    return len(data.rstrip("=")) * 3 // 4
