"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass

from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata
from plait.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The answer of an agent, and how it came to it."""

    final_response: str

    raw_trace: str
    """All that model and tools said, as one text."""

    trace_messages: list[Message]
    """The same as messages; those of user and system are not among them."""

    usage: UsageMetadata

    turns: int
    """How often the model answered."""

    limit_reached: bool
    """Whether the turns were used up; the response is then what was said so far."""

    session_id: str | None = None
    """The engine's own name for the conversation."""

    actual_model: str | None = None
    """The model that answered, as the provider names it."""

    timeout_reached: bool = False
    """Whether the time was used up; the response is then what was said so far."""


def result_from_trace(trace: Trace) -> AgentResult:
    """Make the result of a run from its trace, also of one that was stopped or killed."""
    ended = trace.ended
    messages = trace.messages
    return AgentResult(
        final_response=trace.final_response,
        raw_trace=trace.raw_trace_of(messages),
        trace_messages=messages,
        usage=trace.usage,
        turns=trace.turns,
        limit_reached=trace.limit_reached,
        session_id=ended.session_id if ended else None,
        actual_model=trace.actual_model,
        timeout_reached=trace.timeout_reached,
    )
