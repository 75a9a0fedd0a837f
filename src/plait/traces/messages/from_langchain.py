"""Converts messages of LangChain, objects or JSON, without importing LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from plait.traces.messages.from_mcp import decoded_bytes, media_line
from plait.traces.messages.message import (
    Content,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)

_ROLES = {
    "system": Role.SYSTEM,
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "AIMessageChunk": Role.ASSISTANT,
    "tool": Role.TOOL,
}


_FIELDS = (
    *("content", "tool_calls", "tool_call_id", "status", "usage_metadata"),
    "additional_kwargs",
)


def message_from_any(value: object) -> Message:
    """Convert a message of plait or LangChain, an object or JSON."""
    if isinstance(value, Message):
        return value
    if isinstance(value, Mapping):
        data = cast("Mapping[str, Any]", value)
        if "role" in data:
            return Message.from_dict(data)
        inner = data.get("data")
        fields = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else data
        return _from_fields(str(data.get("type")), fields)
    kind = getattr(value, "type", None)
    fields = {name: getattr(value, name, None) for name in _FIELDS}
    return _from_fields(str(kind), fields)


def _from_fields(kind: str, fields: Mapping[str, Any]) -> Message:
    role = _ROLES.get(kind)
    if role is None:
        raise ValueError(f"{kind!r} is not a message type")
    if role is Role.TOOL:
        text = "\n".join(_line(block) for block in _parts(fields.get("content")))
        failed = fields.get("status") == "error"
        return Message(role, [ToolResultContent(str(fields.get("tool_call_id")), text, failed)])
    blocks = [
        block for part in _parts(fields.get("content")) if (block := _block(part)) is not None
    ]
    extra = cast("Mapping[str, Any]", fields.get("additional_kwargs") or {})
    if role is Role.ASSISTANT and (reasoning := extra.get("reasoning_content")):
        blocks.insert(0, ThinkingContent(str(reasoning)))
    if role is Role.ASSISTANT and (refusal := extra.get("refusal")):
        blocks.append(TextContent(str(refusal)))
    calls = cast("Sequence[Mapping[str, Any]]", fields.get("tool_calls") or ())
    blocks += [
        ToolUseContent(
            str(call.get("id") or ""), str(call.get("name") or ""), dict(call.get("args") or {})
        )
        for call in calls
    ]
    return Message(role, blocks, _usage(fields.get("usage_metadata")))


def _parts(content: object) -> list[Mapping[str, Any]]:
    if not isinstance(content, list):
        return [{"type": "text", "text": str(content)}] if content else []
    return [
        cast("Mapping[str, Any]", part)
        if isinstance(part, Mapping)
        else {"type": "text", "text": str(part)}
        for part in cast("list[object]", content)
    ]


def _block(part: Mapping[str, Any]) -> Content | None:
    match part.get("type"):
        case "text":
            return TextContent(str(part.get("text", "")))
        case "thinking":
            return ThinkingContent(str(part.get("thinking", "")), part.get("signature"))
        case "reasoning":
            # A standard block, or a summary of OpenAI's Responses API, which may be empty.
            summaries = cast("Sequence[Mapping[str, Any]]", part.get("summary") or ())
            texts = [str(summary.get("text") or "") for summary in summaries]
            text = str(part.get("reasoning") or "") or "\n".join(texts)
            return ThinkingContent(text) if text else None
        case "refusal":
            return TextContent(str(part.get("refusal", "")))
        case "tool_use" | "tool_call" | "input_json_delta" | "function_call" | "custom_tool_call":
            return None  # also in the calls of the message
        case "redacted_thinking":
            return None  # only encrypted data
        case _:
            return TextContent(_line(part))


def _line(part: Mapping[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    data = part.get("base64") or part.get("data") or ""
    return media_line(
        str(part.get("type")), part.get("mime_type"), decoded_bytes(data if data else "")
    )


def images_in(content: object) -> list[tuple[str, str]]:
    """Return the type and the bytes, in base64, of each image in the content of a message."""
    images = (part for part in _parts(content) if part.get("type") == "image")
    found = ((part.get("mime_type"), part.get("base64") or part.get("data")) for part in images)
    return [(str(kind), str(data)) for kind, data in found if kind and data]


def _usage(value: object) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    usage = cast("Mapping[str, Any]", value)
    details = cast("Mapping[str, Any]", usage.get("input_token_details") or {})
    counts = {
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "total_tokens": usage.get("total_tokens", 0),
        "cache_read_tokens": usage.get("cache_read_tokens", details.get("cache_read")),
        "cache_creation_tokens": usage.get("cache_creation_tokens", details.get("cache_creation")),
    }
    return {name: count for name, count in counts.items() if count is not None}
