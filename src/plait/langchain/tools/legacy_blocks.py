"""MCP content blocks in the shapes that LangChain used before its standard blocks."""

from __future__ import annotations

import mcp_types as types

from plait.langchain.tools.blocks import (
    ANY_TYPE,
    Block,
    is_web_address,
    link_line,
    resource_line,
    text_block,
)


def legacy_block(block: types.ContentBlock) -> Block:
    """Translate one content block."""
    match block:
        case types.TextContent():
            return text_block(block.text)
        case types.ImageContent():
            url = f"data:{block.mime_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case types.AudioContent():
            return _file("base64", block.mime_type, data=block.data) | {"type": "audio"}
        case types.ResourceLink():
            if not is_web_address(block.uri):
                return text_block(link_line(block))
            return _file("url", block.mime_type, url=block.uri)
        case types.EmbeddedResource():
            return _resource_block(block.resource)


def _resource_block(resource: types.TextResourceContents | types.BlobResourceContents) -> Block:
    if isinstance(resource, types.BlobResourceContents):
        return _file("base64", resource.mime_type or ANY_TYPE, data=resource.blob)
    if not resource.text.strip():
        return text_block(resource_line(resource))
    return _file("text", resource.mime_type or "text/plain", text=resource.text)


def _file(source_type: str, mime_type: str | None, **source: str) -> Block:
    known = {"mime_type": mime_type} if mime_type else {}
    return {"type": "file", "source_type": source_type, **known, **source}
