"""The trace of one run, what is derived from its events, and how two runs differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from functools import reduce
from operator import add
from typing import Literal

from plait.traces.events import (
    RunEnded,
    RunFailed,
    RunStarted,
    Status,
    ToolCalled,
    ToolReturned,
    TraceEvent,
    Turn,
)
from plait.traces.messages.content import Content, ToolResultContent, ToolUseContent
from plait.traces.messages.message import Message, Role, UsageMetadata
from plait.traces.raw import messages_to_raw_trace, with_note

NO_RESPONSE = "[No final response extracted]"
"""The final response of a run that ended without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one run, in order."""

    run: str
    events: tuple[TraceEvent, ...]
    damaged: int = 0
    """Invalid lines of the file; a killed run may leave one."""

    @property
    def started(self) -> RunStarted | None:
        """The start of the run."""
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def ended(self) -> RunEnded | None:
        """The end of the run; `None` if it still runs, or was killed."""
        return next((event for event in reversed(self.events) if isinstance(event, RunEnded)), None)

    @property
    def failure(self) -> RunFailed | None:
        """The error that ended the run, if one did."""
        return next(
            (event for event in reversed(self.events) if isinstance(event, RunFailed)), None
        )

    @property
    def status(self) -> Status | Literal["unfinished"]:
        """How the run ended."""
        return self.ended.status if self.ended else "unfinished"

    @property
    def limit_reached(self) -> bool:
        """Whether the run ended at its turn limit."""
        return self.status == "limit"

    @property
    def timeout_reached(self) -> bool:
        """Whether the run ended at its timeout."""
        return self.status == "timeout"

    @property
    def turns(self) -> int:
        """How often the model answered."""
        if self.ended:
            return self.ended.turns
        return sum(isinstance(event, Turn) for event in self.events)

    @property
    def calls(self) -> list[tuple[ToolCalled, ToolReturned | None]]:
        """Each call with its result; `None` if there is none."""
        results = {event.parent: event for event in self.events if isinstance(event, ToolReturned)}
        calls = [event for event in self.events if isinstance(event, ToolCalled)]
        return [(call, results.get(call.id)) for call in calls]

    @property
    def messages(self) -> list[Message]:
        """The messages of model and tools, with results in the order of their calls."""
        messages: list[Message] = []
        results: list[ToolReturned] = []
        call_ids: list[str] = []
        for event in self.events:
            match event:
                case Turn():
                    messages += _ordered(results, call_ids)
                    results = []
                    messages.append(event.message)
                    call_ids = [call.id for call in event.message.tool_calls]
                case ToolReturned():
                    results.append(event)
                case _:
                    pass
        return messages + _ordered(results, call_ids)

    @property
    def usage(self) -> UsageMetadata:
        """The usage as reported at the end, else the sum of the turns."""
        if self.ended:
            return self.ended.usage
        usages = [event.usage for event in self.events if isinstance(event, Turn) and event.usage]
        return reduce(add, usages, UsageMetadata())

    @property
    def actual_model(self) -> str | None:
        """The model that answered last, as the provider names it."""
        if self.ended and self.ended.actual_model:
            return self.ended.actual_model
        models = [event.model for event in self.events if isinstance(event, Turn) and event.model]
        started = self.started
        return models[-1] if models else (started.model if started else None)

    @property
    def seconds(self) -> float:
        """The duration, up to the last event."""
        if self.ended and self.ended.seconds is not None:
            return self.ended.seconds
        return self.events[-1].at if self.events else 0.0

    @property
    def final_response(self) -> str:
        """The answer, or the last text before the run was stopped."""
        return self.ended.final_response if self.ended else self.response_for("cancelled")

    def response_for(self, status: Status) -> str:
        """Return the answer of a run with this status."""
        for event in reversed(self.events):
            match event:
                case Turn(message=message) if message.role is Role.ASSISTANT and message.text:
                    return message.text
                case Turn() | ToolReturned() if status == "completed":
                    break  # only the last message is an answer
                case _:
                    pass
        return NO_RESPONSE

    @property
    def raw_trace(self) -> str:
        """The messages as a raw trace, with a note if the run was stopped."""
        return self.raw_trace_of(self.messages)

    def raw_trace_of(self, messages: Iterable[Message]) -> str:
        """Write `messages` of this run as a raw trace."""
        return with_note(
            messages_to_raw_trace(messages),
            limit_reached=self.limit_reached,
            timeout_reached=self.timeout_reached,
        )


def _ordered(results: list[ToolReturned], call_ids: list[str]) -> list[Message]:
    if len(results) > 1:
        order = {call_id: index for index, call_id in enumerate(call_ids)}
        results = sorted(results, key=lambda result: order.get(result.call_id, len(order)))
    return [
        Message.tool_result(result.call_id, result.content, result.is_error) for result in results
    ]


def differences(first: Trace, second: Trace, *, names: tuple[str, str] = ("a", "b")) -> list[str]:
    """Return the lines of a unified diff; none if the runs are equal."""
    return list(unified_diff(_lines(first), _lines(second), *names, lineterm=""))


def _comparable(messages: list[Message]) -> list[Message]:
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
        messages_to_raw_trace(_comparable(trace.messages)),
        *([f"failure: {trace.failure.error}"] if trace.failure else []),
        f"ended: {trace.status}",
        f"answer: {trace.final_response}",
    ]
    return "\n".join(lines).split("\n")
