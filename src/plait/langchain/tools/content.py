"""Tool results as the content and the artifact of LangChain tool messages.

Every result can be converted: nothing raises, the order is kept, and what the model does not read
is in the artifact.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from pydantic import TypeAdapter, ValidationError

from plait._support import mcp_types as types
from plait._support.exception_groups import one_line
from plait._support.mappings import entries_of
from plait._support.sanitize import Care, sanitize_text
from plait._support.suggestions import did_you_mean
from plait.client.calls.outcome import (
    FULL_RESULT,
    NO_DETAILS,
    NOTHING,
    ResourceContents,
    StructuredRoute,
    ToolResult,
    is_structured_shown,
    is_unread,
    json_text,
    label_of,
    original_of,
    part_from_mcp,
    structured_text,
)
from plait.client.catalog.validation import validator_if_prepared
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.protocol.repair import is_plain_text
from plait.errors import ConfigError, PlaitError, ToolFailedError
from plait.langchain.tools.blocks import Block, legacy_block, standard_block, text_block, wire_json
from plait.traces.messages.from_mcp import contents_line

if TYPE_CHECKING:
    from plait.client.catalog.tool import Tool


Route = Literal["content", "artifact"]
"""`content` is read by the model; `artifact` only by the program."""

HandlingLayer = Route | Mapping[str, StructuredRoute | None] | None
"""A route for everything, routes by content type, or `None` for the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHandling:
    """The route of every content type."""

    text: Route = "content"
    image: Route = "content"
    audio: Route = "content"
    resource: Route = "artifact"
    resource_link: Route = "content"
    structured_content: StructuredRoute = "auto"

    @classmethod
    def of(cls, *layers: HandlingLayer) -> Self:
        """Merge layers, of which later ones win; unknown types and routes raise `ConfigError`."""
        merged = cls()
        names = tuple(field.name for field in fields(cls))
        for layer in layers:
            routes = layer if isinstance(layer, Mapping) else dict.fromkeys(names, layer)
            changes: dict[str, Any] = {}
            for name, route in routes.items():
                if route is None:
                    continue
                if name not in names:
                    hint = did_you_mean(name, names) or f"the types are {', '.join(names)}"
                    raise ConfigError(f"output_handling has no type {name!r}: {hint}")
                auto = ("auto",) if name == "structured_content" else ()
                allowed = ("content", "artifact", *auto)
                if route not in allowed:
                    text = f"output_handling of {name} is {route!r}: use {' or '.join(allowed)}"
                    raise ConfigError(text)
                changes[name] = route
            merged = replace(merged, **changes)
        return merged


DEFAULT_HANDLING = OutputHandling()
"""Everything goes to the model except embedded resources, which may be large."""


logger = logging.getLogger("plait.langchain")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The content, the artifact and the status of a tool message."""

    content: str | list[Block]
    """What the model reads: a plain string if it is a single text."""
    artifact: dict[str, Any]
    """What the program reads; see `MCPToolArtifact`."""
    is_error: bool = False


class ToolFailedException(  # noqa: N818  # the name ends as that of LangChain's exception
    ToolFailedError, ToolException
):
    """The tool reported a failure; `content` and `artifact` hold its result."""

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        tool: str | None = None,
        output: ToolOutput | None = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.content = message if output is None else output.content
        self.artifact = None if output is None else output.artifact


def error_from(output: ToolOutput) -> ToolFailedException:
    """Make an exception of the output of a failed call."""
    server, tool = output.artifact["server"], output.artifact["tool"]
    return ToolFailedException(error_text(output.content), server=server, tool=tool, output=output)


def convert_result(
    result: ToolResult,
    *,
    handling: OutputHandling = DEFAULT_HANDLING,
    standard_blocks: bool = True,
    sanitize: bool = True,
) -> ToolOutput:
    """Convert a tool result; without `standard_blocks`, to the older shapes of LangChain.

    With `sanitize`, the model does not get characters that hide text; a block that has any is in
    the artifact unchanged.
    """
    translate = standard_block if standard_blocks else legacy_block
    is_error = result.is_error
    if is_error:  # the model has to know what failed, wherever results go
        handling = replace(handling, text="content", structured_content="auto")
    shown: list[Block] = []
    aside: list[Any] = []
    labels: list[str] = []
    care = Care()
    for block in result.content:
        part = part_from_mcp(block, sanitize=sanitize, care=care)
        to_artifact = getattr(handling, block.type) == "artifact"
        if is_error and _embedded_text(block) is not None:
            to_artifact = False
        if part.original is not None:
            aside.append(part.original)
            kind = entries_of(part.original).get("type")
            labels.append(one_line(kind, 80) if isinstance(kind, str) and kind else "unknown")
        elif to_artifact or part.sanitized or isinstance(block, types.ResourceLink):
            aside.append(wire_json(block))
            labels.append(one_line(label_of(block), 80))
        readable = part.shown
        if to_artifact and not (part.unread or isinstance(readable, types.ResourceLink)):
            # Of what is in the artifact, the model reads a line about resources.
            readable = None
            if isinstance(part.shown, types.EmbeddedResource):
                readable = types.TextContent(text=contents_line(part.shown.resource))
        if isinstance(readable, types.EmbeddedResource):
            # No provider package passes on the URI of a block.
            shown.append(text_block(contents_line(readable.resource)))
        if readable is not None:
            text = _embedded_text(readable)
            shown += [translate(readable)] if text is None or text.strip() else []
    structured = result.structured_content
    if structured is not None:
        text_shown = handling.text != "artifact"
        route = handling.structured_content
        if is_structured_shown(structured, result.content, route, text_shown=text_shown):
            shown.append(text_block(structured_text(structured, sanitize=sanitize)))
        else:
            labels.append("structured content")
    artifact = _artifact_of(
        result.server, result.tool, result.attempts, result.notes, result.seconds
    )
    artifact |= {"structured_content": structured, "content": aside, "_meta": result.wire_meta}
    if result.full_result is not None:
        artifact[FULL_RESULT] = result.full_result
    content: str | list[Block] = shown
    match shown:
        case []:
            content = NO_DETAILS if is_error else NOTHING
            if labels:
                count = f"{len(labels)} blocks were" if len(labels) > 1 else "1 block was"
                content = f"{count} set aside ({', '.join(dict.fromkeys(labels))})"
        case [{"type": "text", "text": str(text), **rest}] if "uri" not in rest.get("extras", {}):
            content = text
        case _:
            pass
    return ToolOutput(content, artifact, is_error)


def convert_plain_text(
    tool: Tool,
    handling: OutputHandling,
    sanitize: bool,
    takes_errors: bool,
    result: Mapping[str, Any],
    version: str,
    began: float,
) -> ToolOutput | None:
    """Do what `convert_result` does for the JSON of one plain text, the most common result.

    `takes_errors` says whether the model reads the errors of the tool, and `began` is when the
    attempt was made. The outcome is `None` if the result is of another kind.
    """
    if not is_plain_text(result, version) or handling.text == "artifact":
        return None
    structured, blocks = result.get("structuredContent"), result["content"]
    is_error = result.get("isError", False)
    if len(blocks) != 1 or (is_error and not takes_errors):
        return None
    if is_error and lacks_back_channel(blocks[0]["text"]):
        return None
    if structured is not None and handling.structured_content == "content":
        return None
    if tool.output_schema is not None and not is_error:
        validator = validator_if_prepared(tool.output_schema)
        if validator is None or not validator.surely_accepts(structured):
            return None
    text: str = blocks[0]["text"]
    if not text or text.isspace():
        return None
    is_plain = len(text) < _MAX_SHORT_CHARACTERS and text.isascii() and text.isprintable()
    if sanitize and not is_plain and sanitize_text(text) != text:
        return None
    artifact = _artifact_of(tool.server, tool.wire_name, 1, (), time.monotonic() - began)
    artifact |= {"structured_content": structured, "_meta": result.get("_meta")}
    return ToolOutput(text, artifact, is_error)


_MAX_SHORT_CHARACTERS = 1000
"""Below this length, the checks that Python has are faster than ours."""
_MESSAGE_TEMPLATE = ToolMessage(content="", tool_call_id="")


def message_from(output: ToolOutput, call_id: str, name: str) -> ToolMessage:
    """Make the message of a tool call."""
    fields: dict[str, Any] = {
        "content": output.content,
        "artifact": output.artifact,
        "tool_call_id": call_id,
        "name": name,
        "status": "error" if output.is_error else "success",
    }
    if type(output.content) is not str or type(call_id) is not str:
        return ToolMessage(**fields)
    # The same without validation, in half the time. No two messages may share a dictionary.
    own: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
    message = _MESSAGE_TEMPLATE.model_copy(update={**fields, **own})
    message.model_fields_set.difference_update(own)
    return message


def _artifact_of(
    server: str, tool: str, attempts: int, notes: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Return the artifact of a result without content; see `MCPToolArtifact`."""
    return {
        "structured_content": None,
        "content": [],
        "_meta": None,
        "server": server,
        "tool": tool,
        "attempts": attempts,
        "notes": list(notes),
        "seconds": seconds,
    }


def output_from_error(
    error: PlaitError, tool: Tool, *, seconds: float = 0.0, sanitize: bool = True
) -> ToolOutput:
    """Convert the error of a call without a result; the model reads its message."""
    artifact = _artifact_of(tool.server, tool.wire_name, error.attempts, (), seconds)
    artifact["error"] = error.to_dict()
    text = sanitize_text(error.message) if sanitize else error.message
    return ToolOutput(text, artifact, is_error=True)


def _embedded_text(block: types.ContentBlock) -> str | None:
    return getattr(getattr(block, "resource", None), "text", None)


def pending_reads(result: ToolResult) -> list[str]:
    """List the URIs of embedded resources without contents, each once."""
    links = (block for block in result.content if isinstance(block, types.ResourceLink))
    return list(dict.fromkeys(link.uri for link in links if is_unread(link)))


def with_resources(
    result: ToolResult, contents: Mapping[str, Sequence[ResourceContents]]
) -> ToolResult:
    """Replace URIs by the contents read from them; a URI without contents stays a link."""
    blocks: list[types.ContentBlock] = []
    for block in result.content:
        read: Sequence[ResourceContents] = ()
        if isinstance(block, types.ResourceLink) and is_unread(block):
            read = contents.get(block.uri, ())
        if read:
            meta = entries_of(original_of(block)).get("_meta")
            kept = dict(cast("Mapping[str, Any]", meta)) if isinstance(meta, Mapping) else None
            blocks += [types.EmbeddedResource(resource=item, _meta=kept) for item in read]
        else:
            blocks.append(block)
    return replace(result, content=tuple(blocks))


@cache
def _block_adapter() -> TypeAdapter[types.ContentBlock]:
    return TypeAdapter(types.ContentBlock)


def map_content(items: Iterable[types.ContentBlock | Mapping[str, Any]]) -> list[Block]:
    """Translate content blocks one by one; none goes to an artifact."""
    return [map_content_item(item) for item in items]


def map_content_item(item: types.ContentBlock | Mapping[str, Any]) -> Block:
    """Translate one content block or its MCP JSON; a resource becomes a text with its URI."""
    if isinstance(item, Mapping):
        kind = item.get("type")
        uri = entries_of(item.get("resource")).get("uri") or item.get("uri")
        if kind in ("resource", "resource_link") and isinstance(uri, str):
            return text_block(f"Resource: {uri}")
        try:
            item = _block_adapter().validate_python(dict(item))
        except (ValidationError, RecursionError):
            logger.warning("a content block of type %r is unknown or invalid: kept as text", kind)
            return text_block(json_text(dict(item)))
    if isinstance(item, types.ResourceLink):
        return text_block(f"Resource: {item.uri}")
    if isinstance(item, types.EmbeddedResource):
        return text_block(f"Resource: {item.resource.uri}")
    return standard_block(item)


def error_text(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """Return the texts of a failed call, for an exception; other content is left out."""
    blocks = [content] if isinstance(content, str) else content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    lines = [text for text in texts if isinstance(text, str) and text.strip()]
    return "\n".join(lines) or NO_DETAILS
