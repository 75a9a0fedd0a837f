"""LangChain content as MCP content blocks: standard blocks, older shapes and strings."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

import mcp_types as types

from plait._support.mappings import entries_of
from plait.client.calls.content import json_text
from plait.langchain.tools.blocks import ANY_TYPE, filename_of

_Json = Mapping[str, Any]

_DATA_KINDS = frozenset({"image", "audio", "video", "file", "text-plain"})
_MEDIA = {"image": types.ImageContent, "audio": types.AudioContent}


def mcp_content_from(content: str | Sequence[str | _Json]) -> list[types.ContentBlock]:
    """Translate the content of a message; a block without an MCP type becomes JSON text."""
    parts = [content] if isinstance(content, str) else content
    return [_block_from(part) for part in parts]


def _block_from(part: str | _Json) -> types.ContentBlock:
    if isinstance(part, str):
        return types.TextContent(text=part)
    try:
        block = _translated(part)
    except ValueError:  # a field has the wrong type, or text that cannot be encoded
        block = None
    return block or types.TextContent(text=json_text(dict(part)))


def _translated(part: _Json) -> types.ContentBlock | None:
    kind = part.get("type")
    extras = entries_of(part.get("extras"))
    if kind == "text" and "uri" in extras:
        return _embedded(part, text=cast("Any", part.get("text")))
    if kind == "text":
        return types.TextContent(text=cast("Any", part.get("text")), **_annotations(extras))
    if kind == "image_url":
        url = entries_of(part.get("image_url")).get("url", part.get("image_url"))
        return _data("image", {"url": url})
    return _data(kind, part) if isinstance(kind, str) and kind in _DATA_KINDS else None


def _data(kind: str, part: _Json) -> types.ContentBlock | None:
    mime_type = part.get("mime_type")
    # Older shapes have base64 in `data`, with a `source_type`.
    encoded = part.get("base64", part.get("data"))
    if isinstance(encoded, str):
        return _from_base64(kind, part, encoded, mime_type)
    if isinstance(part.get("text"), str):
        return _embedded(part, text=part["text"])
    url = part.get("url")
    if not isinstance(url, str):
        return None
    if url[:5].lower() != "data:":
        return _link(part, url)
    decoded = _from_data_url(url)
    if decoded is None:
        return None
    return _from_base64(kind, part, decoded[1], mime_type or decoded[0])


def _from_base64(kind: str, part: _Json, encoded: str, mime_type: str | None) -> types.ContentBlock:
    extras = entries_of(part.get("extras"))
    if "uri" not in extras and kind in _MEDIA:
        media = _MEDIA[kind]
        return media(data=encoded, mime_type=mime_type or ANY_TYPE, **_annotations(extras))
    return _embedded({**part, "mime_type": mime_type}, blob=encoded)


def _from_data_url(url: str) -> tuple[str | None, str] | None:
    """Return the MIME type and the base64 of a data URL."""
    head, comma, body = url[5:].partition(",")
    if not comma:
        return None
    mime_type, *parameters = head.split(";")
    data = unquote_to_bytes(body)
    encoded = data if "base64" in parameters else base64.b64encode(data)
    return mime_type or None, encoded.decode("ascii", "replace")


def _embedded(part: _Json, **contents: str) -> types.EmbeddedResource:
    extras = entries_of(part.get("extras"))
    name = extras.get("filename") or part.get("filename") or part.get("title") or "file"
    resource = {
        "uri": extras.get("uri") or f"attachment:{quote(str(name))}",
        "mimeType": part.get("mime_type") or extras.get("mime_type"),
        **contents,
    }
    return types.EmbeddedResource.model_validate({"resource": resource, **_annotations(extras)})


def _link(part: _Json, url: str) -> types.ResourceLink:
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
