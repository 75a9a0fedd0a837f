"""Compares two runs without ids, times and usage."""

from __future__ import annotations

from difflib import unified_diff

from plait.traces.messages.content import Content, ToolResultContent, ToolUseContent
from plait.traces.messages.message import Message
from plait.traces.raw import messages_to_raw_trace
from plait.traces.trace import Trace


def comparable_messages(messages: list[Message]) -> list[Message]:
    """Replace the ids of calls by numbers, and remove the usage."""
    numbers: dict[str, str] = {}
    compared: list[Message] = []
    for message in messages:
        # A later turn may reuse an id for another call.
        for number, call in enumerate(message.tool_calls, 1):
            numbers[call.id] = f"{len(compared)}.{number}"
        blocks = [_numbered(block, numbers) for block in message.content]
        compared.append(Message(message.role, blocks))
    return compared


def differences(first: Trace, second: Trace, *, names: tuple[str, str] = ("a", "b")) -> list[str]:
    """Return the lines of a unified diff; none if the runs are equal."""
    return list(unified_diff(_lines(first), _lines(second), *names, lineterm=""))


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
    questions = trace.started.messages if trace.started else ()
    lines = [
        *(f"asked: {message.text}" for message in questions),
        messages_to_raw_trace(comparable_messages(trace.messages)),
        *([f"failure: {trace.failure.error}"] if trace.failure else []),
        f"ended: {trace.status}",
        f"answer: {trace.final_response}",
    ]
    return "\n".join(lines).split("\n")
