"""Converts messages of the Claude Agent SDK, and writes the prompt it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from claude_agent_sdk import (
    AssistantMessage,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from plait._support.mappings import entries_of
from plait._support.sanitize import well_formed
from plait.agents.anthropic_api import blocks_of, line_from_block
from plait.models.call_arguments import arguments_from
from plait.traces.messages.message import (
    Content,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolUseContent,
    to_prompt_string,
)
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

SYNTHETIC: Final = "<synthetic>"
"""The model name in messages of the command line itself, such as failures."""

_WRAPPING: Final = ("<tool_use_error>", "</tool_use_error>")
"""The marks around errors of the command line itself."""

_HISTORY = TraceFormatConfig(include_user_messages=True)


def query_from_messages(messages: Sequence[Message]) -> str | AsyncIterator[dict[str, Any]]:
    """Write a conversation as the SDK takes it: one text, or a message with images.

    Earlier answers and tool results become a transcript before the last question.
    """
    if all(message.role is Role.USER for message in messages):
        prompt = to_prompt_string(messages)
    else:
        last = max(index for index, one in enumerate(messages) if one.role is not Role.USER)
        transcript = messages_to_raw_trace(messages[: last + 1], _HISTORY)
        question = to_prompt_string(messages[last + 1 :]) or "Go on from there."
        prompt = f"This is what was said before:\n\n{transcript}\n\n--- Now ---\n{question}"
    images = [image for message in messages for image in message.images]
    if not images:
        return prompt
    sources = (
        {"type": "base64", "media_type": image.mime_type, "data": image.data} for image in images
    )
    blocks = [{"type": "image", "source": source} for source in sources]
    content = [{"type": "text", "text": prompt}, *blocks]
    message = {"type": "user", "message": {"role": "user", "content": content}}

    async def one() -> AsyncIterator[dict[str, Any]]:
        yield {**message, "parent_tool_use_id": None, "session_id": "default"}

    return one()


def content_from_block(
    block: ContentBlock, names: Mapping[str, str] | None = None
) -> list[Content]:
    """Convert a block of an answer; `names` maps tool names of the command line to ours.

    Tools that ran at the provider and empty texts are left out.
    """
    match block:
        case TextBlock():
            return [TextContent(well_formed(block.text))] if block.text else []
        case ThinkingBlock():
            return [ThinkingContent(block.thinking, block.signature or None)]
        case ToolUseBlock():
            name = (names or {}).get(block.name, block.name)
            # As the model wrote them, if the command line could not parse them.
            unparsed = entries_of(entries_of(block.input).get("__unparsedToolInput"))
            written = unparsed.get("raw", block.input)
            return [ToolUseContent(block.id, name, arguments_from(written))]
        case _:
            return []


def messages_from_sdk(messages: Iterable[object]) -> list[Message]:
    """Convert messages of the SDK; those of neither model nor user are left out.

    The command line sends each block of an answer separately: they become one message. Tool
    results become separate messages.
    """
    converted: list[Message] = []
    open_id: str | None = None
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.model == SYNTHETIC:
                continue
            blocks = [part for block in message.content for part in content_from_block(block)]
            if open_id is not None and message.message_id == open_id:
                converted[-1].content.extend(blocks)
            else:
                converted.append(Message(Role.ASSISTANT, blocks))
            open_id = message.message_id
        elif isinstance(message, UserMessage):
            open_id = None
            if isinstance(message.content, str):
                converted.append(Message.user(message.content))
                continue
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    result = text_from_result(block.content), bool(block.is_error)
                    converted.append(Message.tool_result(block.tool_use_id, *result))
            texts = [block.text for block in message.content if isinstance(block, TextBlock)]
            converted += map(Message.user, texts)
    return converted


def sdk_messages_to_raw_trace(
    messages: Iterable[object], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages of the SDK as a raw trace."""
    return messages_to_raw_trace(messages_from_sdk(messages), config)


def text_from_result(content: object) -> str:
    """Write a tool result, as the model read it, as one text."""
    if content is None or isinstance(content, list):
        return "\n".join(map(line_from_block, blocks_of(cast("object", content))))
    return str(content).removeprefix(_WRAPPING[0]).removesuffix(_WRAPPING[1])
