"""What a tool returned, for the model (content) and for the program (artifact).

Every answer can be converted: nothing raises, the order is kept, the model never reads an empty
text, and what it does not get to see is in the artifact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from plait._support.exception_groups import one_line
from plait._support.sanitize import harmless
from plait.client.calls.outcome import structured_of
from plait.client.transports.repair import ORIGINAL
from plait.langchain.tools.blocks import (
    Block,
    ResourceContents,
    harmless_block,
    link_line,
    resource_line,
    standard_block,
    text_block,
    wire_json,
)
from plait.langchain.tools.legacy_blocks import legacy_block
from plait.langchain.tools.mcp_blocks import mcp_content_from
from plait.langchain.tools.output_handling import (
    DEFAULT_HANDLING,
    HandlingLayer,
    OutputHandling,
    Route,
    StructuredRoute,
)
from plait.langchain.tools.structured import holds_any, is_said_by, json_text
from plait.traces.messages.from_mcp import NO_DETAILS, NOTHING

__all__ = [
    "DEFAULT_HANDLING",
    "NOTHING",
    "NO_DETAILS",
    "Block",
    "Converted",
    "HandlingLayer",
    "OutputHandling",
    "ResourceContents",
    "Route",
    "StructuredRoute",
    "convert_result",
    "error_text",
    "map_content",
    "map_content_item",
    "mcp_content_from",
    "pending_reads",
    "standard_block",
    "with_resources",
]

logger = logging.getLogger("plait.langchain")


@dataclass(frozen=True, slots=True)
class Converted:
    """The two sides of a tool message."""

    content: str | list[Block]
    """What the model reads: a plain string if it is a single text."""

    artifact: dict[str, Any]
    """What the program reads.

    Always `structured_content`, `content` (the MCP JSON of what was set aside, in order), `_meta`,
    `server` and `tool`.
    """


@dataclass(slots=True)
class _Split:
    """The blocks of a result on their way to the two sides, in order."""

    handling: OutputHandling
    shape: Callable[[types.ContentBlock], Block]
    sanitize: bool = True
    shown: list[Block] = field(default_factory=list[Block])
    aside: list[Any] = field(default_factory=list[Any])
    labels: list[str] = field(default_factory=list[str])

    def add(self, block: types.ContentBlock) -> None:
        original = _original(block)
        goes_aside = getattr(self.handling, block.type) == "artifact"
        if original is not None:
            self._set_aside(original, _label_of_original(original))
        elif goes_aside:
            self._set_aside(wire_json(block), _label(block))
        made = self._made(block, goes_aside=goes_aside)
        if made is None:
            return
        shown = harmless_block(made) if self.sanitize else made
        if shown != made and original is None and not goes_aside:
            self._set_aside(wire_json(block), _label(block))
        if not isinstance(text := shown.get("text"), str) or text.strip():
            self.shown.append(shown)

    def _made(self, block: types.ContentBlock, *, goes_aside: bool) -> Block | None:
        if goes_aside and isinstance(block, types.EmbeddedResource):
            return text_block(resource_line(block.resource))
        if isinstance(block, types.ResourceLink) and _is_unread(block):
            # It was not meant as an address for others: only the server itself may be asked.
            return text_block(link_line(block))
        return None if goes_aside or _is_blank(block) else self.shape(block)

    def _set_aside(self, sent: Any, label: str) -> None:
        self.aside.append(sent)
        self.labels.append(label)


def convert_result(
    result: types.CallToolResult,
    *,
    server: str,
    tool: str,
    handling: OutputHandling = DEFAULT_HANDLING,
    standard_blocks: bool = True,
    sanitize: bool = True,
) -> Converted:
    """Convert an answer; without `standard_blocks`, to the shapes LangChain used before them.

    With `sanitize`, characters that hide something are kept from the model; a block in which
    there are any is in the artifact as it came.
    """
    split = _Split(handling, standard_block if standard_blocks else legacy_block, sanitize)
    for block in result.content:
        split.add(block)
    structured = structured_of(result)
    if structured is not None:
        if _is_shown(structured, result.content, handling):
            text = json_text(structured)
            split.shown.append(text_block(harmless(text) if sanitize else text))
        else:
            split.labels.append("structured content")
    artifact = {
        "structured_content": structured,
        "content": split.aside,
        "_meta": result.meta,
        "server": server,
        "tool": tool,
    }
    return Converted(_content(split, failed=bool(result.is_error)), artifact)


def _is_shown(
    structured: Any, content: Sequence[types.ContentBlock], handling: OutputHandling
) -> bool:
    texts = _own_texts(content)
    match handling.structured_content:
        case "auto":
            # Some servers repeat a picture as structured content; nobody reads base64.
            return not texts and not holds_any(structured, _data_of(content))
        case "content":
            return handling.text == "artifact" or not is_said_by(texts, structured)
        case "artifact":
            return False


def _content(split: _Split, *, failed: bool) -> str | list[Block]:
    match split.shown:
        case []:
            if split.labels:
                return _set_aside_line(split.labels)
            return NO_DETAILS if failed else NOTHING
        case [{"type": "text", "text": str(text), **rest}] if "uri" not in rest.get("extras", {}):
            return text
        case blocks:
            return blocks


def _set_aside_line(labels: Sequence[str]) -> str:
    count = f"{len(labels)} blocks were" if len(labels) > 1 else "1 block was"
    return f"{count} set aside ({', '.join(dict.fromkeys(labels))})"


def _label(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            label = "text"
        case types.ImageContent() | types.AudioContent():
            label = block.mime_type or block.type
        case types.ResourceLink():
            label = "resource link"
        case types.EmbeddedResource():
            label = block.resource.mime_type or "resource"
    return one_line(label, 80)


def _label_of_original(original: object) -> str:
    kind = _field(original, "type")
    return one_line(kind, 80) if isinstance(kind, str) and kind else "unknown"


def _original(block: types.ContentBlock) -> Any | None:
    """Return what the server sent, if the block only stands in for it."""
    meta = block.meta or {}
    if isinstance(block, types.EmbeddedResource):
        meta = (block.resource.meta or {}) | meta
    return meta.get(ORIGINAL)


def _own_texts(content: Iterable[types.ContentBlock]) -> list[str]:
    """Return what the tool wrote, without the texts that stand in for blocks nobody can read."""
    blocks = [block for block in content if isinstance(block, types.TextContent)]
    return [
        block.text
        for block in blocks
        if not _is_blank(block)
        and ((original := _original(block)) is None or _field(original, "text") == block.text)
    ]


def _data_of(content: Iterable[types.ContentBlock]) -> set[str]:
    """Return the encoded bytes of pictures, sounds and files."""
    data: set[str] = set()
    for block in content:
        match block:
            case types.ImageContent() | types.AudioContent():
                data.add(block.data)
            case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob)):
                data.add(blob)
            case _:
                pass
    return data - {""}


def _is_blank(block: types.ContentBlock) -> bool:
    return isinstance(block, types.TextContent) and not block.text.strip()


def _is_unread(link: types.ResourceLink) -> bool:
    """Recognise an embedded resource of which the server sent only the URI."""
    return _field((link.meta or {}).get(ORIGINAL), "type") == "resource"


def _field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def pending_reads(result: types.CallToolResult) -> list[str]:
    """List the URIs of embedded resources that came without contents, each once."""
    links = [block for block in result.content if isinstance(block, types.ResourceLink)]
    return list(dict.fromkeys(link.uri for link in links if _is_unread(link)))


def with_resources(
    result: types.CallToolResult, contents: Mapping[str, Sequence[ResourceContents]]
) -> types.CallToolResult:
    """Put contents that were read in the places of their URIs; a URI without any stays a link."""
    blocks: list[types.ContentBlock] = []
    for block in result.content:
        read: Sequence[ResourceContents] = ()
        if isinstance(block, types.ResourceLink) and _is_unread(block):
            read = contents.get(block.uri, ())
        if read:
            meta = _field(_original(block), "_meta")
            kept = dict(cast("Mapping[str, Any]", meta)) if isinstance(meta, Mapping) else None
            blocks += [types.EmbeddedResource(resource=one, _meta=kept) for one in read]
        else:
            blocks.append(block)
    return result.model_copy(update={"content": blocks})


_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def map_content(items: Iterable[types.ContentBlock | Mapping[str, Any]]) -> list[Block]:
    """Translate content blocks one by one, without setting any aside."""
    return [map_content_item(item) for item in items]


def map_content_item(item: types.ContentBlock | Mapping[str, Any]) -> Block:
    """Translate one content block or its MCP JSON; a resource becomes its address in text."""
    block: types.ContentBlock | None
    if isinstance(item, Mapping):
        kind = item.get("type")
        uri = _field(item.get("resource"), "uri") or item.get("uri")
        if kind in ("resource", "resource_link") and isinstance(uri, str):
            return text_block(f"Resource: {uri}")
        try:
            block = _BLOCK.validate_python(dict(item))
        except (ValidationError, RecursionError):
            logger.warning("a content block of type %r is unknown or broken: kept as text", kind)
            return text_block(json_text(dict(item)))
    else:
        block = item
    match block:
        case types.ResourceLink():
            return text_block(f"Resource: {block.uri}")
        case types.EmbeddedResource():
            return text_block(f"Resource: {block.resource.uri}")
        case _:
            return standard_block(block)


def error_text(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """Return the text of a failed call, for an exception; data and links are left out."""
    parts = [content] if isinstance(content, str) else content
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    said = "\n".join(text for text in texts if isinstance(text, str) and text.strip())
    return said or NO_DETAILS
