"""Messages, tools and results in the form of Anthropic's API."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from plait.agents.agent_run import ToolAnswer
from plait.agents.anthropic_api import blocks_of, field_of, line_from_block
from plait.models.schemas.for_provider import schema_for_provider
from plait.traces.messages.message import (
    Content,
    ImageContent,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

if TYPE_CHECKING:  # messages are converted where the package is not installed, too
    from anthropic.types.beta import (
        BetaImageBlockParam,
        BetaTextBlockParam,
        BetaToolParam,
        BetaToolResultBlockParam,
    )

_ILLEGAL_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters in the ids of other providers that the API rejects."""


def convert_to_anthropic(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert messages for the API.

    Tool results come first in the next user message, or in one of their own. System messages are
    left out, since a request has a field for them; so are blank texts and thinking without a
    signature, which the API rejects.
    """
    converted: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []

    def flush(*blocks: dict[str, Any]) -> None:
        if results or blocks:
            converted.append({"role": "user", "content": [*results, *blocks]})
            results.clear()

    for message in messages:
        blocks = [param for block in message.content if (param := _block_param(block)) is not None]
        if message.role is Role.TOOL:
            results += blocks
        elif message.role is Role.USER:
            # The API requires results before anything else.
            flush(*sorted(blocks, key=lambda block: block["type"] != "tool_result"))
        elif message.role is Role.ASSISTANT and blocks:
            flush()
            converted.append({"role": "assistant", "content": blocks})
    flush()
    return converted


def _block_param(block: Content) -> dict[str, Any] | None:
    match block:
        case TextContent():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case ThinkingContent(thinking, signature):
            thought = {"type": "thinking", "thinking": thinking, "signature": signature}
            return thought if signature else None
        case ImageContent():
            return {**_image(block.mime_type, block.data)}
        case ToolUseContent():
            call_id = _ILLEGAL_IN_IDS.sub("_", block.id)
            return {"type": "tool_use", "id": call_id, "name": block.name, "input": {**block.input}}
        case ToolResultContent():
            failed = {"is_error": True} if block.is_error else {}
            content = {"content": block.content} if block.content.strip() else {}
            call_id = _ILLEGAL_IN_IDS.sub("_", block.tool_use_id)
            return {"type": "tool_result", "tool_use_id": call_id, **content, **failed}


def _image(mime_type: str, data: str) -> BetaImageBlockParam:
    media_type = cast("Any", mime_type)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def convert_from_anthropic_message(message: object) -> Message:
    """Convert an answer: texts, thinking and tool calls, without tools that ran at Anthropic."""
    content: list[Content] = []
    for block in blocks_of(field_of(message, "content")):
        match field_of(block, "type"):
            case "text":
                if text := str(field_of(block, "text") or ""):
                    content.append(TextContent(text))
            case "thinking":
                thinking = str(field_of(block, "thinking") or "")
                content.append(ThinkingContent(thinking, field_of(block, "signature") or None))
            case "tool_use":
                arguments = cast("Mapping[str, Any]", field_of(block, "input") or {})
                call_id, name = str(field_of(block, "id")), str(field_of(block, "name"))
                content.append(ToolUseContent(call_id, name, dict(arguments)))
            case _:
                pass
    return Message(Role.ASSISTANT, content)


def messages_from_anthropic(messages: Iterable[object]) -> list[Message]:
    """Convert messages of the API, as objects or as JSON; messages of plait are kept.

    Tool results become separate messages.

    Raises:
        ValueError: One of them is not a message.
    """
    converted: list[Message] = []
    for message in messages:
        role = field_of(message, "role")
        if isinstance(message, Message):
            converted.append(message)
            continue
        if role == "assistant":
            converted.append(convert_from_anthropic_message(message))
            continue
        if role not in ("user", "system"):
            raise ValueError(f"{role!r} is not a message role")
        blocks = blocks_of(field_of(message, "content"))
        texts: list[Content] = []
        for block in blocks:
            if field_of(block, "type") != "tool_result":
                texts.append(TextContent(line_from_block(block)))
                continue
            parts = blocks_of(field_of(block, "content"))
            result = Message.tool_result(
                str(field_of(block, "tool_use_id")),
                "\n".join(map(line_from_block, parts)),
                bool(field_of(block, "is_error")),
            )
            converted.append(result)
        if texts or not blocks:
            converted.append(Message(Role(role), texts))
    return converted


def claude_tool_messages_to_raw_trace(
    messages: Iterable[object], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages as a raw trace: those of plait, or of the API as objects or as JSON.

    Raises:
        ValueError: One of them is not a message.
    """
    return messages_to_raw_trace(messages_from_anthropic(messages), config)


def definition_of(name: str, description: str, schema: Mapping[str, Any]) -> BetaToolParam:
    """Return the definition of a tool for the API."""
    adapted = _adapted_schema(json.dumps(schema, default=str))
    return {"name": name, "description": description, "input_schema": adapted}


@functools.lru_cache(maxsize=1024)
def _adapted_schema(schema: str) -> dict[str, Any]:
    """Adapt a schema once, because many runs have the same tools."""
    return schema_for_provider(json.loads(schema), "anthropic").schema


def tool_result(call_id: str, answer: ToolAnswer) -> BetaToolResultBlockParam:
    """Create the block that answers a tool call."""
    content: str | list[BetaTextBlockParam | BetaImageBlockParam]
    match answer.content:
        case [types.TextContent(text=text)]:
            # The SDK copies the whole conversation in each turn, and a string is copied faster.
            content = text
        case _:
            content = [
                {"type": "text", "text": block.text}
                if isinstance(block, types.TextContent)
                else _image(block.mime_type, block.data)
                for block in answer.texts_and_images()
            ]
    result: BetaToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
    }
    if answer.is_error:
        result["is_error"] = True
    return result
