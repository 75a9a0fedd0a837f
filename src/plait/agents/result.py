"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass

from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata
from plait.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The answer of an agent, with the steps that led to it."""

    final_response: str
    raw_trace: str
    """The messages of the model and the tools, as one text."""
    trace_messages: list[Message]
    """The same messages, without those of user and system."""
    usage: UsageMetadata
    turns: int
    """How often the model answered."""
    limit_reached: bool
    """Whether the run ended at its turn limit; the response is then partial."""
    session_id: str | None = None
    """The engine's id of the conversation."""
    actual_model: str | None = None
    """The model that answered, as the provider names it."""
    timeout_reached: bool = False
    """Whether the run ended at its timeout; the response is then partial."""


def result_from_trace(trace: Trace) -> AgentResult:
    """Create the result of a run from its trace, which may be incomplete."""
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
