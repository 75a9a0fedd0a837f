"""The raw trace: messages as one text, each below a header line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from plait.traces.messages.content import ToolUseContent
from plait.traces.messages.message import Message, Role

LIMIT_NOTE: Final = "[Note: Recursion limit reached - partial response shown]"
TIMEOUT_NOTE: Final = "[Note: Agent timed out - partial response shown]"

CALLS_HEADER: Final = "Tool Calls:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormatConfig:
    """The format of a raw trace; other tools expect the defaults."""

    assistant_header: str = "--- AI Message ---"

    tool_header_template: str = "--- Tool Message (call_id: {call_id}) ---"

    user_header: str = "--- Human Message ---"

    system_header: str = "--- System Message ---"

    thinking_header: str = "--- Thinking ---"

    message_separator: str = "\n\n"

    include_tool_calls: bool = True

    include_user_messages: bool = False

    include_system_messages: bool = False

    tool_call_format: Literal["inline", "json"] = "inline"
    """Arguments as Python literals, or as indented JSON."""


DEFAULT_FORMAT: Final = TraceFormatConfig()


def messages_to_raw_trace(
    messages: Iterable[Message], config: TraceFormatConfig = DEFAULT_FORMAT
) -> str:
    """Write messages as a raw trace."""
    return config.message_separator.join(
        block for message in messages for block in _blocks(message, config)
    )


def with_note(raw_trace: str, *, limit_reached: bool = False, timeout_reached: bool = False) -> str:
    """Append a note if the run reached its turn limit or timeout."""
    notes = [LIMIT_NOTE] * limit_reached + [TIMEOUT_NOTE] * timeout_reached
    return "\n\n".join([raw_trace, *notes]) if raw_trace else "\n\n".join(notes)


def _blocks(message: Message, config: TraceFormatConfig) -> Iterator[str]:
    match message.role:
        case Role.SYSTEM:
            if config.include_system_messages:
                yield _block(config.system_header, message.text)
        case Role.USER:
            if config.include_user_messages:
                yield _block(config.user_header, message.text)
        case Role.TOOL:
            for result in message.tool_results:
                header = config.tool_header_template.replace("{call_id}", result.tool_use_id)
                failed = "[ERROR] " if result.is_error else ""
                yield _block(header, failed + result.content)
        case Role.ASSISTANT:
            if message.thinking:
                yield _block(config.thinking_header, message.thinking)
            calls = message.tool_calls if config.include_tool_calls else []
            if message.text or calls or not message.thinking:
                text = [message.text] if message.text else []
                yield _block(config.assistant_header, "\n".join([*text, *_calls(calls, config)]))


def _calls(calls: list[ToolUseContent], config: TraceFormatConfig) -> Iterator[str]:
    if calls:
        yield f"\n{CALLS_HEADER}"
    for call in calls:
        yield f"  {call.name} (call_{call.id})"
        yield f"   Call ID: {call.id}"
        if call.input:
            as_json = config.tool_call_format == "json"
            arguments = json.dumps(call.input, indent=2) if as_json else repr(call.input)
            yield f"   Args: {arguments}"


def _block(header: str, text: str) -> str:
    return f"{header}\n{text}" if text else header
