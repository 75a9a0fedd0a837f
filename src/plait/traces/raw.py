"""The raw trace: messages as one text, each below a header line, and its final answer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from plait.traces.messages.message import Message, Role, ToolUseContent

LIMIT_NOTE: Final = "[Note: Recursion limit reached - partial response shown]"
TIMEOUT_NOTE: Final = "[Note: Agent timed out - partial response shown]"
CALLS_HEADER: Final = "Tool Calls:"
_NOT_AN_AI_MESSAGE = "Last message in trace is not an AI message"
_NO_TEXT = "Final AI message has no text content (only tool calls)"


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


_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What ends a line, for some reader."""

_CALLS = re.compile(rf"(?m)^{CALLS_HEADER}(?=\n  .* \(call_.*\)\n   Call ID: )")
"""The header of the calls, with the first of them."""


@functools.lru_cache(maxsize=32)
def _marks(config: TraceFormatConfig) -> re.Pattern[str]:
    """Match, at the start of a line, what only the format itself may write there."""
    before, _, after = config.tool_header_template.partition("{call_id}")
    headers = (config.assistant_header, config.user_header, config.system_header)
    fixed = (*headers, config.thinking_header, LIMIT_NOTE, TIMEOUT_NOTE)
    lines = "|".join(map(re.escape, fixed))
    tool = f"{re.escape(before)}[^{_BREAKS}]*{re.escape(after)}"
    return re.compile(rf"(?:(?<=[{_BREAKS}])|\A)(?=(?:{lines}|{tool})\s*(?:[{_BREAKS}]|\Z))")


def _escaped(text: str, config: TraceFormatConfig) -> str:
    """Indent the lines of a text that look like those of the format, so that none is forged."""
    if "--- " not in text and "[Note: " not in text and CALLS_HEADER not in text:
        return text
    return _CALLS.sub(f" {CALLS_HEADER}", _marks(config).sub(" ", text))


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
                yield _block(config.system_header, _escaped(message.text, config))
        case Role.USER:
            if config.include_user_messages:
                yield _block(config.user_header, _escaped(message.text, config))
        case Role.TOOL:
            for result in message.tool_results:
                call_id = _one_line(result.tool_use_id)
                header = config.tool_header_template.replace("{call_id}", call_id)
                failed = "[ERROR] " if result.is_error else ""
                yield _block(header, _escaped(failed + result.content, config))
        case Role.ASSISTANT:
            if message.thinking:
                yield _block(config.thinking_header, _escaped(message.thinking, config))
            calls = message.tool_calls if config.include_tool_calls else []
            if message.text or calls or not message.thinking:
                text = [_escaped(message.text, config)] if message.text else []
                yield _block(config.assistant_header, "\n".join([*text, *_calls(calls, config)]))


def _calls(calls: list[ToolUseContent], config: TraceFormatConfig) -> Iterator[str]:
    if calls:
        yield f"\n{CALLS_HEADER}"
    for call in calls:
        name, call_id = _one_line(call.name), _one_line(call.id)
        yield f"  {name} (call_{call_id})"
        yield f"   Call ID: {call_id}"
        if call.input:
            as_json = config.tool_call_format == "json"
            arguments = json.dumps(call.input, indent=2) if as_json else repr(call.input)
            yield f"   Args: {arguments}"


def _one_line(name: str) -> str:
    return re.sub(f"[{_BREAKS}]", " ", name)


def _block(header: str, text: str) -> str:
    return f"{header}\n{text}" if text else header


_HEADER = re.compile(
    "|".join(
        re.escape(header)
        for header in (
            *(DEFAULT_FORMAT.assistant_header, DEFAULT_FORMAT.user_header),
            *(DEFAULT_FORMAT.system_header, DEFAULT_FORMAT.thinking_header),
        )
    )
    + r"|--- Tool Message \(call_id: .*\) ---"
)


class HasMessages(Protocol):
    """A trace or a result of a run, which has the messages themselves."""

    @property
    def trace_messages(self) -> Sequence[Message]:
        """The messages of model and tools."""
        ...


def extract_final_ai_message(
    trace: str | Sequence[Message] | HasMessages,
) -> tuple[str | None, str | None]:
    """Return the text of the last model message, or `None` and the reason.

    Messages, a `Trace` and an `AgentResult` are read as they are; a raw trace by its headers. A
    text without headers is the answer itself.
    """
    if not isinstance(trace, str):
        messages = trace if isinstance(trace, Sequence) else trace.trace_messages
        if not messages:
            return None, "Empty message list"
        last = messages[-1]
        if last.role is not Role.ASSISTANT:
            return None, _NOT_AN_AI_MESSAGE
        text = last.text.strip()
        return (text, None) if text else (None, _NO_TEXT)
    if not trace.strip():
        return None, "Empty or whitespace-only trace"
    lines = trace.strip().split("\n")
    # Other lines in dashes are part of a text.
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip())]
    if not headers:
        return trace.strip(), None
    if lines[headers[-1]].strip() != DEFAULT_FORMAT.assistant_header:
        return None, _NOT_AN_AI_MESSAGE
    text = "\n" + "\n".join(lines[headers[-1] + 1 :])
    for note in (LIMIT_NOTE, TIMEOUT_NOTE):
        text = text.removesuffix(note)
    calls = _CALLS.search(text)
    text = (text if calls is None else text[: calls.start()]).strip()
    return (text, None) if text else (None, _NO_TEXT)


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
