"""MCP content blocks as LangChain content blocks, standard or in older shapes, and back.

LangChain's own factories give every block a random id; here the same result always makes the same
message, so that caches and recordings stay valid.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from plait._support import mcp_types as types
from plait._support.mappings import entries_of
from plait.client.calls.outcome import json_text, link_line
from plait.client.protocol.repair import ORIGINAL
from plait.traces.messages.from_mcp import contents_line

Block = dict[str, Any]
"""A LangChain content block."""

ANY_TYPE = "application/octet-stream"
"""The MIME type of data of an unknown type; LangChain requires one for base64."""

_FILENAME = re.compile(r"[\w][\w .()+-]*\.[A-Za-z0-9]{1,10}")


def standard_block(block: types.ContentBlock) -> Block:
    """Translate one content block; a link becomes a line of text.

    Providers refuse a conversation with an address that they cannot fetch, if they take one.
    """
    match block:
        case types.TextContent():
            return _with_extras(text_block(block.text), block)
        case types.ImageContent() | types.AudioContent():
            data = {"type": block.type, "base64": block.data, "mime_type": block.mime_type}
            return _with_extras(data, block)
        case types.ResourceLink():
            return text_block(link_line(block))
        case types.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, types.TextResourceContents):
                if not resource.text.strip():
                    return text_block(contents_line(resource))
                fields = {"uri": resource.uri, "mime_type": resource.mime_type}
                return _with_extras(text_block(resource.text), block, **fields)
            mime_type = resource.mime_type or ANY_TYPE
            kind = _kind_of(mime_type)
            data = {"type": kind, "base64": resource.blob, "mime_type": mime_type}
            return _with_extras(data, block, uri=resource.uri, filename=filename_of(resource.uri))


def text_block(text: str) -> Block:
    """Make a text block."""
    return {"type": "text", "text": text}


def _with_extras(translated: Block, block: types.ContentBlock, **fields: object) -> Block:
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
            kind, data, mime_type = "audio", block.data, block.mime_type
        case types.ResourceLink():
            return text_block(link_line(block))
        case types.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, types.TextResourceContents):
                # LangChain itself cannot read a file block of the older shape that has text.
                is_blank = not resource.text.strip()
                return text_block(contents_line(resource) if is_blank else resource.text)
            data, mime_type = resource.blob, resource.mime_type or ANY_TYPE
            kind = _kind_of(mime_type)
            if kind == "image":
                return legacy_block(types.ImageContent(data=data, mime_type=mime_type))
    return {"type": kind, "source_type": "base64", "mime_type": mime_type, "data": data}


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


def _kind_of(mime_type: str) -> str:
    kind = mime_type.lower().partition("/")[0]
    return kind if kind in _MEDIA else "file"


_Json = Mapping[str, Any]

_DATA_KINDS = frozenset({"image", "audio", "video", "file", "text-plain"})
_MEDIA = {"image": "ImageContent", "audio": "AudioContent"}
"""The names of their types."""


def mcp_content_from(content: str | Sequence[str | _Json]) -> list[types.ContentBlock]:
    """Translate the content of a message; a block without an MCP type becomes JSON text."""
    blocks: list[types.ContentBlock] = []
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            blocks.append(types.TextContent(text=part))
            continue
        try:
            block = _mcp_block(part)
        except ValueError:  # a field has the wrong type, or text that cannot be encoded
            block = None
        blocks.append(block or types.TextContent(text=json_text(dict(part))))
    return blocks


def _mcp_block(part: _Json) -> types.ContentBlock | None:
    kind = part.get("type")
    extras = entries_of(part.get("extras"))
    if kind == "text" and "uri" in extras:
        return _resource_block(part, text=cast("Any", part.get("text")))
    if kind == "text":
        return types.TextContent(text=cast("Any", part.get("text")), **_annotations(extras))
    if kind == "image_url":
        url = entries_of(part.get("image_url")).get("url", part.get("image_url"))
        return _data_block("image", {"url": url})
    return _data_block(kind, part) if isinstance(kind, str) and kind in _DATA_KINDS else None


def _data_block(kind: str, part: _Json) -> types.ContentBlock | None:
    mime_type = part.get("mime_type")
    # Older shapes have base64 in `data`, with a `source_type`.
    encoded = part.get("base64", part.get("data"))
    if isinstance(encoded, str):
        return _from_base64(kind, part, encoded, mime_type)
    if isinstance(part.get("text"), str):
        return _resource_block(part, text=part["text"])
    url = part.get("url")
    if not isinstance(url, str):
        return None
    if url[:5].lower() != "data:":
        return _link_block(part, url)
    head, comma, body = url[5:].partition(",")
    if not comma:
        return None
    own_type, *parameters = head.split(";")
    data = unquote_to_bytes(body)
    in_base64 = data if "base64" in parameters else base64.b64encode(data)
    decoded = in_base64.decode("ascii", "replace")
    return _from_base64(kind, part, decoded, mime_type or own_type or None)


def _from_base64(kind: str, part: _Json, encoded: str, mime_type: str | None) -> types.ContentBlock:
    extras = entries_of(part.get("extras"))
    if "uri" not in extras and kind in _MEDIA:
        media = getattr(types, _MEDIA[kind])
        return media(data=encoded, mime_type=mime_type or ANY_TYPE, **_annotations(extras))
    return _resource_block({**part, "mime_type": mime_type}, blob=encoded)


def _resource_block(part: _Json, **contents: str) -> types.EmbeddedResource:
    extras = entries_of(part.get("extras"))
    name = extras.get("filename") or part.get("filename") or part.get("title") or "file"
    resource = {
        "uri": extras.get("uri") or f"attachment:{quote(str(name))}",
        "mimeType": part.get("mime_type") or extras.get("mime_type"),
        **contents,
    }
    return types.EmbeddedResource.model_validate({"resource": resource, **_annotations(extras)})


def _link_block(part: _Json, url: str) -> types.ResourceLink:
    extras = entries_of(part.get("extras"))
    filename = filename_of(url)
    # Not `guess_type`, which reads files of the system and may block.
    guessed = (
        mimetypes.types_map.get(f".{filename.rpartition('.')[2].lower()}") if filename else None
    )
    return types.ResourceLink(
        uri=url,
        name=extras.get("name") or filename or url,
        mime_type=part.get("mime_type") or guessed,
        title=extras.get("title"),
        description=extras.get("description"),
        size=extras.get("size"),
        **_annotations(extras),
    )


def _annotations(extras: _Json) -> dict[str, Any]:
    """Return the fields that every MCP block may have."""
    return {key: extras[key] for key in ("annotations", "_meta") if key in extras}
