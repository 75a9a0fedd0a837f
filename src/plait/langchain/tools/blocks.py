"""MCP content blocks as LangChain content blocks: standard ones, and the older shapes.

LangChain's own factories give every block a random id; here the same result always makes the same
message, so that caches and recordings stay valid.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import mcp_types as types

from plait.client.calls.content import ResourceContents, is_web_address, link_line
from plait.client.transports.repair import ORIGINAL
from plait.traces.messages.from_mcp import contents_line

Block = dict[str, Any]
"""A LangChain content block."""

ANY_TYPE = "application/octet-stream"
"""The MIME type of data of an unknown type; LangChain requires one for base64."""

_FILENAME = re.compile(r"[\w][\w .()+-]*\.[A-Za-z0-9]{1,10}")


def standard_block(block: types.ContentBlock) -> Block:
    """Translate one content block; a link that providers cannot fetch becomes a line of text."""
    match block:
        case types.TextContent():
            return _extended(text_block(block.text), block)
        case types.ImageContent() | types.AudioContent():
            return _extended(_data_block(block.type, block.data, block.mime_type), block)
        case types.ResourceLink():
            return _link_block(block)
        case types.EmbeddedResource():
            return _resource_block(block)


def text_block(text: str) -> Block:
    """Make a text block."""
    return {"type": "text", "text": text}


def _data_block(kind: str, data: str, mime_type: str) -> Block:
    return {"type": kind, "base64": data, "mime_type": mime_type}


def _link_block(link: types.ResourceLink) -> Block:
    if not is_web_address(link.uri):
        return text_block(link_line(link))
    kind = "image" if _is_kind(link.mime_type, "image") else "file"
    translated: Block = {"type": kind, "url": link.uri}
    if link.mime_type:
        translated["mime_type"] = link.mime_type
    names = ("name", "title", "description", "size")
    return _extended(translated, link, **{name: getattr(link, name) for name in names})


def _resource_block(block: types.EmbeddedResource) -> Block:
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        if not resource.text.strip():
            return text_block(contents_line(resource))
        fields = {"uri": resource.uri, "mime_type": resource.mime_type}
        return _extended(text_block(resource.text), block, **fields)
    mime_type = resource.mime_type or ANY_TYPE
    kind = next((kind for kind in ("image", "audio") if _is_kind(mime_type, kind)), "file")
    translated = _data_block(kind, resource.blob, mime_type)
    return _extended(translated, block, uri=resource.uri, filename=filename_of(resource.uri))


def _extended(translated: Block, block: types.ContentBlock, **fields: object) -> Block:
    """Add fields that standard blocks do not have as `extras`, if there are any."""
    if not fields and block.annotations is None and not block.meta:
        return translated
    extras = {key: value for key, value in fields.items() if value not in (None, "")}
    hints = block.annotations and block.annotations.model_dump(by_alias=True, exclude_none=True)
    if hints:
        extras["annotations"] = hints
    meta = {key: value for key, value in (block.meta or {}).items() if key != ORIGINAL}
    if meta:
        extras["_meta"] = meta
    return {**translated, "extras": extras} if extras else translated


def legacy_block(block: types.ContentBlock) -> Block:
    """Translate one content block to the shape that LangChain used before its standard blocks."""
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
            return _legacy_resource(block.resource)


def _legacy_resource(resource: ResourceContents) -> Block:
    if isinstance(resource, types.BlobResourceContents):
        return _file("base64", resource.mime_type or ANY_TYPE, data=resource.blob)
    if not resource.text.strip():
        return text_block(contents_line(resource))
    return _file("text", resource.mime_type or "text/plain", text=resource.text)


def _file(source_type: str, mime_type: str | None, **source: str) -> Block:
    known = {"mime_type": mime_type} if mime_type else {}
    return {"type": "file", "source_type": source_type, **known, **source}


def filename_of(uri: str) -> str | None:
    """Return the last part of a URI if it looks like the name of a file."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        return None
    name = unquote(path.rpartition("/")[2])
    return name if _FILENAME.fullmatch(name) else None


def wire_json(block: types.ContentBlock) -> Block:
    """Return the MCP JSON of a block."""
    # `_meta` may be nested too deeply for pydantic, and is plain JSON already.
    dumped = block.model_dump(
        by_alias=True, exclude_none=True, mode="json", exclude={"meta": True, "resource": {"meta"}}
    )
    if isinstance(block, types.EmbeddedResource) and block.resource.meta is not None:
        dumped["resource"]["_meta"] = block.resource.meta
    return dumped if block.meta is None else {**dumped, "_meta": block.meta}


def _is_kind(mime_type: str | None, kind: str) -> bool:
    return mime_type is not None and mime_type.lower().startswith(f"{kind}/")
