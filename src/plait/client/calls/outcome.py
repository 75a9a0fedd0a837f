"""The result of a tool call, and the content that models read of it.

One set of rules for every framework: nothing in them raises, the order of blocks is kept, and a
model never reads an empty text. Frameworks translate the blocks into their own shapes only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from plait._support import mcp_types as types
from plait._support.bounded_work import TooMuchWorkError, in_bounded_time
from plait._support.mappings import entries_of
from plait._support.sanitize import Care, sanitize_text
from plait.client.catalog.tool import Tool
from plait.client.catalog.validation import prepare
from plait.client.protocol.repair import ORIGINAL
from plait.traces.messages.from_mcp import resource_line

FULL_RESULT = "plait/full_result"
"""The key, in artifacts and `_meta`, of the handle of the full result."""

_MIN_SECONDS = 0.1
"""How long a result is checked of a call whose time is over."""

_MAX_PARTS = 1_000
"""Converting so many blocks or values takes a few milliseconds."""

NOTHING = "The tool returned nothing."
NO_DETAILS = "MCP tool returned an error with empty content."

ResourceContents: TypeAlias = "types.TextResourceContents | types.BlobResourceContents"

StructuredRoute = Literal["auto", "content", "artifact"]
"""`auto` shows structured content to the model only if the tool wrote no text."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of a tool; `is_error` comes from the tool itself.

    Plain text is kept as it was sent until somebody looks at `content`: importing the types of MCP
    takes as long as everything else of a first call.
    """

    server: str
    tool: str
    is_error: bool
    content: tuple[types.ContentBlock, ...]
    structured_content: Any | None = None
    meta: Mapping[str, Any] | None = None
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """What was repaired in the result, and how it deviates from the output schema."""
    seconds: float = 0.0
    full_result: str | None = None
    """The handle of the full result, if this one is shortened."""

    @classmethod
    def from_mcp(cls, server: str, tool: str, result: types.CallToolResult, **details: Any) -> Self:
        """Convert from the SDK's result; `details` are the fields that it does not have."""
        structured: Any = result.structured_content
        original: Any = (result.meta or {}).get(ORIGINAL)
        if structured is None and isinstance(original, Mapping):
            # Repair for an older protocol has moved it.
            structured = cast("Mapping[str, Any]", original).get("structuredContent")
        return cls(
            server=server,
            tool=tool,
            is_error=bool(result.is_error),
            content=tuple(result.content),
            structured_content=structured,
            meta=result.meta,
            **details,
        )

    @classmethod
    def of_text(cls, server: str, tool: str, sent: Mapping[str, Any], *, seconds: float) -> Self:
        """Take a result that is nothing but text, as `is_plain_text` says."""
        made = object.__new__(cls)
        made.__dict__.update(
            server=server,
            tool=tool,
            is_error=bool(sent.get("isError")),
            structured_content=sent.get("structuredContent"),
            meta=sent.get("_meta"),
            seconds=seconds,
            _blocks_as_sent=sent["content"],
        )
        return made

    if not TYPE_CHECKING:  # or every misspelled attribute would pass

        def __getattr__(self, name: str) -> Any:
            """Convert the blocks that were sent, when `content` is used for the first time."""
            blocks = self.__dict__.get("_blocks_as_sent")
            if name != "content" or blocks is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            content = tuple(types.TextContent(text=block["text"]) for block in blocks)
            self.__dict__["content"] = content
            return content

    @property
    def wire_meta(self) -> dict[str, Any] | None:
        """The `_meta`, with the handle of the full result of a shortened one."""
        if self.full_result is not None:
            return {**(self.meta or {}), FULL_RESULT: self.full_result}
        return None if self.meta is None else dict(self.meta)

    def to_mcp(self) -> types.CallToolResult:
        """Convert to the SDK's result."""
        return types.CallToolResult(
            content=list(self.content),
            structured_content=self.structured_content,
            is_error=self.is_error,
            _meta=self.wire_meta,
        )

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        if (blocks := self.__dict__.get("_blocks_as_sent")) is not None:
            return "\n".join(block["text"] for block in blocks)
        return "\n".join(
            block.text for block in self.content if isinstance(block, types.TextContent)
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data, with the content in wire format."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        data["content"] = [
            block.model_dump(by_alias=True, exclude_none=True, mode="json")
            for block in self.content
        ]
        data["meta"] = None if self.meta is None else dict(self.meta)
        data |= {"notes": list(self.notes), "seconds": round(self.seconds, 6)}
        if self.full_result is None:
            del data["full_result"]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Convert from what `to_dict` returns."""
        content = types.CallToolResult.model_validate({"content": data["content"]}).content
        known = dict[str, Any](data, content=tuple(content), notes=tuple(data["notes"]))
        return cls(**known)


async def output_schema_notes(
    tool: Tool, result: types.CallToolResult, seconds_left: float = inf
) -> tuple[str, ...]:
    """Check the structured content of a successful result against the output schema.

    `seconds_left` are those of the call; a result that has arrived is not lost with them.
    """
    if tool.output_schema is None or result.is_error:
        return ()
    if result.structured_content is None:
        return ("the result has no structured content, though the tool has an output schema",)
    validator = await prepare(tool.output_schema)
    try:
        problem = await in_bounded_time(
            lambda: validator.problem(result.structured_content),
            max(_MIN_SECONDS, seconds_left),
        )
    except TooMuchWorkError as error:
        return (f"structured content is not checked with the output schema: {error}",)
    return () if problem is None else (f"structured content breaks the output schema: {problem}",)


@dataclass(slots=True)
class ContentPart:
    """One block of a result, and what a model reads of it."""

    sent: types.ContentBlock
    shown: types.ContentBlock | None
    """The block for the model; `None` for a blank text."""
    original: Any | None = None
    """The JSON that the server sent, where the block is a repaired version of it."""
    sanitized: bool = False
    """Whether characters were removed or escaped."""
    unread: bool = False
    """Whether only the URI of an embedded resource was sent; the model reads a line about it."""


def part_from_mcp(
    block: types.ContentBlock, *, sanitize: bool = True, care: Care | None = None
) -> ContentPart:
    """Apply the rules for one content block; `care` is that of the whole result."""
    original = original_of(block)
    if isinstance(block, types.TextContent) and not block.text.strip():
        return ContentPart(block, None, original)
    unread = original is not None and is_unread(block)
    shown = sanitized_block(block, care) if sanitize else block
    changed = shown is not block
    if unread and isinstance(shown, types.ResourceLink):
        # A model provider must not fetch it: the server meant contents, not an address.
        shown = types.TextContent(text=link_line(shown))
    if isinstance(shown, types.TextContent) and not shown.text.strip():
        shown = None
    return ContentPart(block, shown, original, changed, unread)


def content_for_model(
    content: Iterable[types.ContentBlock],
    structured: Any | None = None,
    *,
    is_error: bool = False,
    sanitize: bool = True,
) -> tuple[types.ContentBlock, ...]:
    """Return the blocks that a model reads: at least one, and no blank text."""
    blocks, care = list(content), Care()
    parts = [part_from_mcp(block, sanitize=sanitize, care=care) for block in blocks]
    shown = [part.shown for part in parts if part.shown is not None]
    if structured is not None and is_structured_shown(structured, blocks):
        shown.append(types.TextContent(text=structured_text(structured, sanitize=sanitize)))
    if not shown:
        shown.append(types.TextContent(text=NO_DETAILS if is_error else NOTHING))
    return tuple(shown)


def sanitized_block(block: types.ContentBlock, care: Care | None = None) -> types.ContentBlock:
    """Return the block without characters that hide text; the same object if there are none."""
    match block:
        case types.TextContent():
            return _sanitized_model(block, care, "text")
        case types.ResourceLink():
            return _sanitized_model(block, care, "name", "title", "description", "uri", "mime_type")
        case types.EmbeddedResource():
            resource = _sanitized_model(block.resource, care, "text", "uri", "mime_type")
            changed = resource is not block.resource
            return block.model_copy(update={"resource": resource}) if changed else block
        case types.ImageContent() | types.AudioContent():
            return _sanitized_model(block, care, "mime_type")


def _sanitized_model(model: M, care: Care | None, *names: str) -> M:
    changes: dict[str, str] = {}
    for name in names:
        value = getattr(model, name, None)
        if isinstance(value, str) and (clean := sanitize_text(value, care)) != value:
            changes[name] = clean
    return model.model_copy(update=changes) if changes else model


def is_structured_shown(
    structured: Any,
    content: Sequence[types.ContentBlock],
    route: StructuredRoute = "auto",
    *,
    text_shown: bool = True,
) -> bool:
    """Return whether a model reads structured content as text beside the blocks."""
    if route == "artifact":
        return False
    # The texts of the tool, without those that quote an unreadable block.
    texts = [
        block.text
        for block in content
        if isinstance(block, types.TextContent)
        and block.text.strip()
        and entries_of(original_of(block) or {"text": block.text}).get("text") == block.text
    ]
    if route == "content":
        return not text_shown or not repeats(texts, structured)
    # Some servers repeat an image as structured content, and base64 is no use as text.
    data = {data_of(block) for block in content} - {""}
    return not texts and not (
        data and any(isinstance(leaf, str) and leaf in data for leaf in leaves(structured))
    )


def structured_text(structured: Any, *, sanitize: bool = True) -> str:
    """Write structured content as JSON text for a model."""
    text = json_text(structured)
    return sanitize_text(text) if sanitize else text


def json_text(value: Any) -> str:
    """Write a value as JSON that a model reads well; never fails."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
        return text if is_encodable(text) else json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return "a value that cannot be written as JSON"


def is_encodable(text: str) -> bool:
    """Return whether there are no halves of surrogate pairs, which no provider accepts."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def repeats(texts: Sequence[str], structured: Any) -> bool:
    """Return whether texts already contain the structured content.

    Servers repeat it as JSON; for a function that returns no object they wrap it as
    `{"result": value}` and write the bare value, a list as one text per item.
    """
    if _repeat_value(texts, structured):
        return True
    wrapped = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {}
    return wrapped.keys() == {"result"} and _repeat_value(texts, wrapped["result"])


def _repeat_value(texts: Sequence[str], value: Any) -> bool:
    if any(is_same(text, value) for text in texts):
        return True
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return len(items) == len(texts) > 0 and all(map(is_same, texts, items))


def is_same(text: str, value: Any) -> bool:
    """Return whether a text is a value, or its JSON."""
    try:
        if isinstance(value, str | int | float) and text == str(value):
            return True
        return _canonical(json.loads(text)) == _canonical(value)
    except (TypeError, ValueError, RecursionError):
        return False


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is inside a JSON value, except its objects and lists."""
    rest: list[Any] = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, Mapping):
            rest += cast("Mapping[str, Any]", item).values()
        elif isinstance(item, list):
            rest += cast("list[Any]", item)
        else:
            yield item


def has_many_parts(result: ToolResult) -> bool:
    """Return whether it takes long to convert a result: then a thread does it."""
    parts = chain(result.content, leaves(result.structured_content))
    return any(True for _ in islice(parts, _MAX_PARTS, None))


def data_of(block: types.ContentBlock) -> str:
    """Return the base64 data of an image, audio or file; empty for other blocks."""
    match block:
        case types.ImageContent() | types.AudioContent():
            return block.data
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob)):
            return blob
        case _:
            return ""


def block_from_resource(contents: ResourceContents) -> types.ContentBlock:
    """Convert the contents of a resource to the block that a model reads best."""
    if isinstance(contents, types.TextResourceContents):
        return types.TextContent(text=contents.text)
    kind = (contents.mime_type or "").lower()
    if kind.startswith("image/"):
        return types.ImageContent(data=contents.blob, mime_type=kind)
    if kind.startswith("audio/"):
        return types.AudioContent(data=contents.blob, mime_type=kind)
    return types.EmbeddedResource(resource=contents)


def label_of(block: types.ContentBlock) -> str:
    """Return what kind of content a block has, for a model."""
    match block:
        case types.TextContent():
            return "text"
        case types.ImageContent() | types.AudioContent():
            return block.mime_type or block.type
        case types.ResourceLink():
            return "resource link"
        case types.EmbeddedResource():
            return block.resource.mime_type or "resource"


def original_of(block: types.ContentBlock) -> Any | None:
    """Return what the server sent, if the block was made in place of it."""
    meta = block.meta or {}
    if isinstance(block, types.EmbeddedResource):
        meta = (block.resource.meta or {}) | meta
    return meta.get(ORIGINAL)


def is_unread(block: types.ContentBlock) -> bool:
    """Return whether the block is an embedded resource of which the server sent only the URI."""
    is_link = isinstance(block, types.ResourceLink)
    return is_link and entries_of(original_of(block)).get("type") == "resource"


def link_line(link: types.ResourceLink) -> str:
    """Describe a resource link in one line, with its title and description."""
    line = resource_line(link.uri, link.mime_type, link.size)
    facts = (" ".join(text.split()) for text in (link.title or link.name, link.description or ""))
    described = ": ".join(fact for fact in facts if fact)
    return f"{line} - {described}" if described else line
