"""The final answer of a trace, for grading."""

from __future__ import annotations

from collections.abc import Sequence

from plait.traces.messages.message import Message, Role
from plait.traces.raw import CALLS_HEADER, DEFAULT_FORMAT, LIMIT_NOTE, TIMEOUT_NOTE

_NOT_AN_AI_MESSAGE = "Last message in trace is not an AI message"
_NO_TEXT = "Final AI message has no text content (only tool calls)"


def extract_final_ai_message(trace: str | Sequence[Message]) -> tuple[str | None, str | None]:
    """Return the text of the last model message, or `None` and the reason.

    A text without headers is the answer itself.
    """
    return _in_text(trace) if isinstance(trace, str) else _in_messages(trace)


def prepare_evaluation_input(
    raw_trace: str | Sequence[Message], use_full_trace: bool
) -> tuple[str | Sequence[Message], str | None]:
    """Return the input for grading, the whole trace or its last message, and an error."""
    if use_full_trace:
        return raw_trace, None
    text, error = extract_final_ai_message(raw_trace)
    if text is None:
        return raw_trace, f"Failed to extract final AI message: {error}"
    return text, None


def _in_messages(messages: Sequence[Message]) -> tuple[str | None, str | None]:
    if not messages:
        return None, "Empty message list"
    last = messages[-1]
    if last.role is not Role.ASSISTANT:
        return None, _NOT_AN_AI_MESSAGE
    text = last.text.strip()
    return (text, None) if text else (None, _NO_TEXT)


def _in_text(trace: str) -> tuple[str | None, str | None]:
    if not trace.strip():
        return None, "Empty or whitespace-only trace"
    lines = trace.strip().split("\n")
    headers = [number for number, line in enumerate(lines) if _is_header(line)]
    if not headers:
        return trace.strip(), None
    last = headers[-1]
    if lines[last].strip() != DEFAULT_FORMAT.assistant_header:
        return None, _NOT_AN_AI_MESSAGE
    text = "\n" + "\n".join(lines[last + 1 :])
    for note in (LIMIT_NOTE, TIMEOUT_NOTE):
        text = text.removesuffix(note)
    text = text.partition(f"\n{CALLS_HEADER}")[0].strip()
    return (text, None) if text else (None, _NO_TEXT)


def _is_header(line: str) -> bool:
    line = line.rstrip()
    return line.startswith("--- ") and line.endswith(" ---")
