"""Messages to and from Anthropic's API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from plait.traces.messages.content import (
    Content,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)
from plait.traces.messages.from_mcp import decoded_bytes, media_line
from plait.traces.messages.message import Message, Role
from plait.traces.messages.usage import UsageMetadata
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
"""What ids that other providers made may hold, and the API refuses."""


def messages_to_anthropic(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Write messages as the API takes them.

    Results of tools stand at the head of the user's next message, or in one of their own. What the
    system says is left out, since it has its own place in a request; so are blank texts and
    thoughts without a signature, which the API refuses.
    """
    written: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []

    def flush(*blocks: dict[str, Any]) -> None:
        if results or blocks:
            written.append({"role": "user", "content": [*results, *blocks]})
            results.clear()

    for message in messages:
        blocks = [block for one in message.content for block in _written(one)]
        if message.role is Role.TOOL:
            results += blocks
        elif message.role is Role.USER:
            # The API wants results before anything else.
            flush(*sorted(blocks, key=lambda block: block["type"] != "tool_result"))
        elif message.role is Role.ASSISTANT and blocks:
            flush()
            written.append({"role": "assistant", "content": blocks})
    flush()
    return written


def _written(block: Content) -> Iterator[dict[str, Any]]:
    match block:
        case TextContent():
            if block.text.strip():
                yield {"type": "text", "text": block.text}
        case ThinkingContent():
            if block.signature:
                yield {
                    "type": "thinking",
                    "thinking": block.thinking,
                    "signature": block.signature,
                }
        case ToolUseContent():
            yield {
                "type": "tool_use",
                "id": _legal(block.id),
                "name": block.name,
                "input": dict(block.input),
            }
        case ToolResultContent():
            failed = {"is_error": True} if block.is_error else {}
            said = {"content": block.content} if block.content.strip() else {}
            yield {
                "type": "tool_result",
                "tool_use_id": _legal(block.tool_use_id),
                **said,
                **failed,
            }


def _legal(call_id: str) -> str:
    return _NOT_IN_IDS.sub("_", call_id)


def message_from_anthropic(message: object) -> Message:
    """Read what the model said: texts, thoughts and calls, and nothing of what ran at Anthropic."""
    said = [_read(block) for block in _blocks(_field(message, "content"))]
    return Message(Role.ASSISTANT, [block for block in said if block is not None])


def messages_from_anthropic(messages: Iterable[object]) -> list[Message]:
    """Read messages of the API, as objects or as JSON; ours among them stay as they are.

    The results of tools become messages of their own.

    Raises:
        ValueError: One of them is no message.
    """
    return [read for message in messages for read in _messages(message)]


def claude_tool_messages_to_raw_trace(
    messages: Iterable[object], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages as one text: ours, or those of Anthropic's API as objects or as JSON.

    Raises:
        ValueError: One of them is no message.
    """
    return messages_to_raw_trace(messages_from_anthropic(messages), config)


def usage_from_anthropic(usage: object) -> UsageMetadata:
    """Read what an answer needed, as the API counts it."""
    read, written = (_field(usage, "input_tokens") or 0, _field(usage, "output_tokens") or 0)
    return UsageMetadata(
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        cache_read_tokens=_field(usage, "cache_read_input_tokens"),
        cache_creation_tokens=_field(usage, "cache_creation_input_tokens"),
    )


def _messages(message: object) -> Iterator[Message]:
    if isinstance(message, Message):
        yield message
        return
    role, content = _field(message, "role"), _field(message, "content")
    if role == "assistant":
        yield message_from_anthropic(message)
        return
    if role not in ("user", "system"):
        raise ValueError(f"{role!r} is no role of a message")
    blocks = _blocks(content)
    for block in blocks:
        if _field(block, "type") == "tool_result":
            yield Message.tool_result(
                str(_field(block, "tool_use_id")),
                "\n".join(_line(part) for part in _blocks(_field(block, "content"))),
                bool(_field(block, "is_error")),
            )
    texts = [_line(block) for block in blocks if _field(block, "type") != "tool_result"]
    if texts or not blocks:
        yield Message(Role(role), [TextContent(text) for text in texts])


def _read(block: object) -> Content | None:
    match _field(block, "type"):
        case "text":
            text = str(_field(block, "text") or "")
            return TextContent(text) if text else None
        case "thinking":
            thought = str(_field(block, "thinking") or "")
            return ThinkingContent(thought, _field(block, "signature") or None)
        case "tool_use":
            arguments = cast("Mapping[str, Any]", _field(block, "input") or {})
            call_id, name = str(_field(block, "id")), str(_field(block, "name"))
            return ToolUseContent(call_id, name, dict(arguments))
        case _:
            return None


def _line(block: object) -> str:
    match _field(block, "type"):
        case "text":
            return str(_field(block, "text") or "")
        case "image":
            source = _field(block, "source")
            data = str(_field(source, "data") or "")
            return media_line("image", _field(source, "media_type"), decoded_bytes(data))
        case kind:
            return f"[{kind}]"


def _blocks(content: object) -> Sequence[object]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(cast("Iterable[object]", content))


def _field(thing: object, name: str) -> Any:
    if isinstance(thing, dict):
        return cast("dict[str, Any]", thing).get(name)
    return getattr(thing, name, None)
