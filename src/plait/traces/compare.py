"""What differs between two runs, once ids, times and usage are left aside."""

from __future__ import annotations

from difflib import unified_diff

from plait.traces.messages.content import Content, ToolResultContent, ToolUseContent
from plait.traces.messages.message import Message
from plait.traces.raw import messages_to_raw_trace
from plait.traces.trace import Trace


def comparable_messages(messages: list[Message]) -> list[Message]:
    """Number the calls in their order instead of their ids, and leave usage out."""
    numbers: dict[str, str] = {}
    compared: list[Message] = []
    for message in messages:
        # An id may come back in a later turn, and then means another call.
        for place, call in enumerate(message.tool_calls, 1):
            numbers[call.id] = f"{len(compared)}.{place}"
        blocks = [_numbered(block, numbers) for block in message.content]
        compared.append(Message(message.role, blocks))
    return compared


def differences(one: Trace, other: Trace, *, names: tuple[str, str] = ("a", "b")) -> list[str]:
    """Say what differs, as lines of a unified diff; no lines, if the runs did the same."""
    return list(unified_diff(_lines(one), _lines(other), *names, lineterm=""))


def _numbered(block: Content, numbers: dict[str, str]) -> Content:
    match block:
        case ToolUseContent():
            return ToolUseContent(numbers[block.id], block.name, block.input)
        case ToolResultContent():
            number = numbers.get(block.tool_use_id, "?")
            return ToolResultContent(number, block.content, block.is_error)
        case _:
            return block


def _lines(trace: Trace) -> list[str]:
    asked = trace.started.messages if trace.started else ()
    told = [
        *(f"asked: {one.text}" for one in asked),
        messages_to_raw_trace(comparable_messages(trace.messages)),
        *([f"failure: {trace.failure.error}"] if trace.failure else []),
        f"ended: {trace.status}",
        f"answer: {trace.final_response}",
    ]
    return "\n".join(told).split("\n")
