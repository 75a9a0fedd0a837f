"""Content of tools, resources and prompts as text and files."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from plait._support import mcp_types as types
from plait._support.sizes import size_label

ResourceContents = types.TextResourceContents | types.BlobResourceContents


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A content block: text to print, or data to save."""

    text: str | None = None
    label: str = ""
    """A description of data: `image image/png, 12.3 kB`."""
    data: bytes | None = None
    suffix: str = ""
    """The file extension for the data: `.png`."""
    saved: Path | None = None

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        if self.saved is not None:
            return f"[{self.label}: {self.saved}]"
        return f"[{self.label}; --save DIR writes it]" if self.data else f"[{self.label}]"


def part_from_block(block: types.ContentBlock) -> Part:
    """Translate one content block."""
    match block:
        case types.TextContent():
            return Part(text=block.text)
        case types.ImageContent():
            return _data_part("image", block.mime_type, block.data)
        case types.AudioContent():
            return _data_part("audio", block.mime_type, block.data)
        case types.EmbeddedResource():
            return part_from_contents(block.resource)
        case types.ResourceLink():
            facts = [block.mime_type, size_label(block.size) if block.size else None]
            about = ", ".join(fact for fact in facts if fact)
            return Part(label=f"link {block.uri}" + (f", {about}" if about else ""))


def part_from_contents(contents: ResourceContents) -> Part:
    """Translate the contents of a resource."""
    match contents:
        case types.TextResourceContents():
            return Part(text=contents.text)
        case types.BlobResourceContents():
            return _data_part(f"resource {contents.uri}", contents.mime_type, contents.blob)


def _data_part(kind: str, mime_type: str | None, encoded: str) -> Part:
    mime_type = mime_type or "application/octet-stream"
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return Part(label=f"{kind} {mime_type}, invalid base64")
    suffix = mimetypes.guess_extension(mime_type.split(";")[0].strip()) or ".bin"
    return Part(label=f"{kind} {mime_type}, {size_label(len(data))}", data=data, suffix=suffix)


def saved_parts(parts: Iterable[Part], folder: Path, stem: str) -> list[Part]:
    """Write every part with data to the folder, without overwriting files."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_") or "content"
    saved: list[Part] = []
    for part in parts:
        if part.data is None:
            saved.append(part)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = folder / f"{stem}-{number}{part.suffix}"
            try:
                with path.open("xb") as file:
                    file.write(part.data)
            except FileExistsError:
                continue
            saved.append(replace(part, saved=path))
            break
    return saved
