"""Messages of the Claude Agent SDK into ours, and ours into the one text that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from claude_agent_sdk import (
    AssistantMessage,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from plait.agents.engines.claude_agent_sdk.content import text_from_result
from plait.traces.messages.content import Content, TextContent, ThinkingContent, ToolUseContent
from plait.traces.messages.lists import to_prompt_string
from plait.traces.messages.message import Message, Role
from plait.traces.messages.usage import UsageMetadata
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

SYNTHETIC: Final = "<synthetic>"
"""The model that the command line names when it speaks itself, as about a failure."""

_HISTORY = TraceFormatConfig(include_user_messages=True)


def prompt_from_messages(messages: Sequence[Message]) -> str:
    """Write a conversation as one text, which is all that the SDK takes.

    Where only the user spoke, that is what was said; otherwise what was said before stands in
    front of the last question as a transcript.
    """
    if all(message.role is Role.USER for message in messages):
        return to_prompt_string(messages)
    last = max((place for place, message in enumerate(messages) if message.role is not Role.USER))
    before = messages_to_raw_trace(messages[: last + 1], _HISTORY)
    question = to_prompt_string(messages[last + 1 :]) or "Go on from there."
    return f"This is what was said before:\n\n{before}\n\n--- Now ---\n{question}"


def content_from_block(
    block: ContentBlock, names: Mapping[str, str] | None = None
) -> list[Content]:
    """Read a block of what the model said; `names` says how tools are called here.

    What ran at the provider, and texts without a character, leave nothing.
    """
    match block:
        case TextBlock():
            return [TextContent(block.text)] if block.text else []
        case ThinkingBlock():
            return [ThinkingContent(block.thinking, block.signature or None)]
        case ToolUseBlock():
            name = (names or {}).get(block.name, block.name)
            return [ToolUseContent(block.id, name, dict(block.input or {}))]
        case _:
            return []


def messages_from_sdk(messages: Iterable[object]) -> list[Message]:
    """Read messages of the SDK; those that no model and no user wrote are left out.

    The command line tells of each block of an answer on its own: they become one message. Results
    of tools become messages of their own.
    """
    read: list[Message] = []
    open_id: str | None = None
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.model == SYNTHETIC:
                continue
            blocks = [part for block in message.content for part in content_from_block(block)]
            if open_id is not None and message.message_id == open_id:
                read[-1].content.extend(blocks)
            else:
                read.append(Message(Role.ASSISTANT, blocks))
            open_id = message.message_id
        elif isinstance(message, UserMessage):
            read += _from_user(message)
            open_id = None
    return read


def sdk_messages_to_raw_trace(
    messages: Iterable[object], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages of the SDK as one text."""
    return messages_to_raw_trace(messages_from_sdk(messages), config)


def usage_from_api(usage: Mapping[str, Any]) -> UsageMetadata:
    """Read what an answer needed, as the API counts it."""
    read, written = (usage.get("input_tokens") or 0, usage.get("output_tokens") or 0)
    return UsageMetadata(
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        cache_read_tokens=usage.get("cache_read_input_tokens"),
        cache_creation_tokens=usage.get("cache_creation_input_tokens"),
    )


def _from_user(message: UserMessage) -> list[Message]:
    if isinstance(message.content, str):
        return [Message.user(message.content)]
    results = [
        Message.tool_result(
            block.tool_use_id, text_from_result(block.content), bool(block.is_error)
        )
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    return [*results, *(Message.user(text) for text in texts)]
