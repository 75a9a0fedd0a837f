"""MCP content blocks as LangChain's standard blocks, and as lines of text.

LangChain's own factories give every block a random id; here the same answer always makes the same
message, so that caches and recordings hold.
"""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import mcp_types as types

from plait._support.sanitize import harmless
from plait._support.sizes import size_label
from plait.client.transports.repair import ORIGINAL

Block = dict[str, Any]
"""A LangChain content block."""

ResourceContents = types.TextResourceContents | types.BlobResourceContents

ANY_TYPE = "application/octet-stream"
"""The MIME type of data whose type is not known; LangChain demands one for base64."""

_TOLD = frozenset({"name", "title", "description"})
"""The extras that are texts; addresses stay as they are."""

_FILENAME = re.compile(r"[\w][\w .()+-]*\.[A-Za-z0-9]{1,10}")


def standard_block(block: types.ContentBlock) -> Block:
    """Translate one content block; what a model provider cannot fetch becomes a line of text."""
    match block:
        case types.TextContent():
            return _extended(text_block(block.text), block)
        case types.ImageContent():
            return _extended(_data_block("image", block.data, block.mime_type), block)
        case types.AudioContent():
            return _extended(_data_block("audio", block.data, block.mime_type), block)
        case types.ResourceLink():
            return _link_block(block)
        case types.EmbeddedResource():
            return _resource_block(block)


def text_block(text: str) -> Block:
    """Make a block of text."""
    return {"type": "text", "text": text}


def harmless_block(block: Block) -> Block:
    """Return the block without characters that hide something in what is read of it."""
    made = block
    text, extras = block.get("text"), block.get("extras")
    if isinstance(text, str) and (clean := harmless(text)) != text:
        made = {**made, "text": clean}
    if isinstance(extras, dict):
        told = cast("dict[str, Any]", extras)
        cleaned = {
            key: harmless(value) if key in _TOLD and isinstance(value, str) else value
            for key, value in told.items()
        }
        if cleaned != told:
            made = {**made, "extras": cleaned}
    return made


def _data_block(kind: str, data: str, mime_type: str) -> Block:
    return {"type": kind, "base64": data, "mime_type": mime_type}


def _link_block(link: types.ResourceLink) -> Block:
    if not is_web_address(link.uri):
        return text_block(link_line(link))
    kind = "image" if _is_kind(link.mime_type, "image") else "file"
    made: Block = {"type": kind, "url": link.uri}
    if link.mime_type:
        made["mime_type"] = link.mime_type
    about = {
        "name": link.name,
        "title": link.title,
        "description": link.description,
        "size": link.size,
    }
    return _extended(made, link, **about)


def _resource_block(block: types.EmbeddedResource) -> Block:
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        if not resource.text.strip():
            return text_block(resource_line(resource))
        about = {"uri": resource.uri, "mime_type": resource.mime_type}
        return _extended(text_block(resource.text), block, **about)
    mime_type = resource.mime_type or ANY_TYPE
    if _is_kind(mime_type, "image"):
        made = _data_block("image", resource.blob, mime_type)
    elif _is_kind(mime_type, "audio"):
        made = _data_block("audio", resource.blob, mime_type)
    else:
        made = _data_block("file", resource.blob, mime_type)
    return _extended(made, block, uri=resource.uri, filename=filename_of(resource.uri))


def _extended(made: Block, block: types.ContentBlock, **about: object) -> Block:
    """Add what has no place in a standard block as `extras`, if there is anything."""
    extras = {key: value for key, value in about.items() if value not in (None, "")}
    hints = block.annotations and block.annotations.model_dump(by_alias=True, exclude_none=True)
    if hints:
        extras["annotations"] = hints
    meta = {key: value for key, value in (block.meta or {}).items() if key != ORIGINAL}
    if meta:
        extras["_meta"] = meta
    return {**made, "extras": extras} if extras else made


def link_line(link: types.ResourceLink) -> str:
    """Describe a link in one line."""
    size = size_label(link.size) if link.size is not None and link.size >= 0 else None
    line = _headline(link.uri, link.mime_type, size)
    about = [_folded(link.title or link.name), _folded(link.description or "")]
    described = ": ".join(part for part in about if part)
    return f"{line} - {described}" if described else line


def resource_line(resource: ResourceContents) -> str:
    """Describe an embedded resource in one line, without its contents."""
    if isinstance(resource, types.TextResourceContents):
        size = len(resource.text.encode("utf-8", "replace"))
    else:
        size = len(resource.blob.rstrip("=")) * 3 // 4
    return _headline(resource.uri, resource.mime_type, size_label(size))


def _headline(uri: str, *facts: str | None) -> str:
    known = ", ".join(fact for fact in facts if fact)
    return " ".join(["Resource:", *([uri] if uri else []), *([f"({known})"] if known else [])])


def is_web_address(uri: str) -> bool:
    """Say whether a model provider could fetch the URI."""
    return uri.lower().startswith(("http://", "https://"))


def filename_of(uri: str) -> str | None:
    """Return the name of the file that a URI points at, if it looks like one."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        return None
    name = unquote(path.rpartition("/")[2])
    return name if _FILENAME.fullmatch(name) else None


def wire_json(block: types.ContentBlock) -> Block:
    """Return a block as it was on the wire."""
    # `_meta` may be nested more deeply than pydantic agrees to dump; it is plain JSON already.
    dumped = block.model_dump(
        by_alias=True,
        exclude_none=True,
        mode="json",
        exclude={"meta": True, "resource": {"meta"}},
    )
    if isinstance(block, types.EmbeddedResource) and block.resource.meta is not None:
        dumped["resource"]["_meta"] = block.resource.meta
    return dumped if block.meta is None else {**dumped, "_meta": block.meta}


def _is_kind(mime_type: str | None, kind: str) -> bool:
    return mime_type is not None and mime_type.lower().startswith(f"{kind}/")


def _folded(text: str) -> str:
    return " ".join(text.split())
