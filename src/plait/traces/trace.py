"""The trace of one run, and what can be known from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
from plait.traces.messages.content import ToolResultContent
from plait.traces.messages.message import Message, Role
from plait.traces.messages.usage import UsageMetadata
from plait.traces.raw import messages_to_raw_trace, with_note

NO_RESPONSE = "[No final response extracted]"
"""The final response of a run that ended without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one run, in order."""

    run: str

    events: tuple[TraceEvent, ...]

    damaged: int = 0
    """Lines of the file that could not be read; a run that was killed may leave one."""

    @property
    def started(self) -> RunStarted | None:
        """How the run began."""
        return next((one for one in self.events if isinstance(one, RunStarted)), None)

    @property
    def ended(self) -> RunEnded | None:
        """How it ended; `None` for a run that goes on, or was killed."""
        return next((one for one in reversed(self.events) if isinstance(one, RunEnded)), None)

    @property
    def failure(self) -> RunFailed | None:
        """What ended it, if that was no answer."""
        return next((one for one in reversed(self.events) if isinstance(one, RunFailed)), None)

    @property
    def status(self) -> Status | Literal["unfinished"]:
        """How the run ended."""
        return self.ended.status if self.ended else "unfinished"

    @property
    def limit_reached(self) -> bool:
        """Whether the turns were used up."""
        return self.status == "limit"

    @property
    def timeout_reached(self) -> bool:
        """Whether the time was used up."""
        return self.status == "timeout"

    @property
    def turns(self) -> int:
        """How often the model answered."""
        if self.ended:
            return self.ended.turns
        return sum(isinstance(event, Turn) for event in self.events)

    @property
    def calls(self) -> list[tuple[ToolCalled, ToolReturned | None]]:
        """Each call with its answer; `None` where none came."""
        answers = {one.parent: one for one in self.events if isinstance(one, ToolReturned)}
        called = [one for one in self.events if isinstance(one, ToolCalled)]
        return [(one, answers.get(one.id)) for one in called]

    @property
    def messages(self) -> list[Message]:
        """What model and tools said; results stand in the order in which the model asked."""
        said: list[Message] = []
        waiting: list[ToolReturned] = []
        asked: list[str] = []
        for event in self.events:
            match event:
                case Turn():
                    said += _ordered(waiting, asked)
                    waiting = []
                    said.append(event.message)
                    asked = [call.id for call in event.message.tool_calls]
                case ToolReturned():
                    waiting.append(event)
                case _:
                    pass
        return said + _ordered(waiting, asked)

    @property
    def usage(self) -> UsageMetadata:
        """What the run needed: as it was reported in the end, else the sum of the turns."""
        if self.ended:
            return self.ended.usage
        usages = [one.usage for one in self.events if isinstance(one, Turn) and one.usage]
        return reduce(add, usages, UsageMetadata())

    @property
    def actual_model(self) -> str | None:
        """The model that answered last, as the provider names it."""
        if self.ended and self.ended.actual_model:
            return self.ended.actual_model
        models = [one.model for one in self.events if isinstance(one, Turn) and one.model]
        started = self.started
        return models[-1] if models else (started.model if started else None)

    @property
    def seconds(self) -> float:
        """How long it took, as far as is known."""
        if self.ended and self.ended.seconds is not None:
            return self.ended.seconds
        return self.events[-1].at if self.events else 0.0

    @property
    def final_response(self) -> str:
        """The answer, or the last that was said before the run was stopped."""
        return self.ended.final_response if self.ended else self.response_for("cancelled")

    def response_for(self, status: Status) -> str:
        """Find the answer of a run that ends in this way."""
        for event in reversed(self.events):
            match event:
                case Turn(message=message) if message.role is Role.ASSISTANT and message.text:
                    return message.text
                case Turn() | ToolReturned() if status == "completed":
                    break  # only what was said last is an answer
                case _:
                    pass
        return NO_RESPONSE

    @property
    def raw_trace(self) -> str:
        """The messages as one text, with a note if the run was stopped."""
        return self.raw_trace_of(self.messages)

    def raw_trace_of(self, messages: Iterable[Message]) -> str:
        """Write the messages of this run, which are there already, as one text."""
        return with_note(
            messages_to_raw_trace(messages),
            limit_reached=self.limit_reached,
            timeout_reached=self.timeout_reached,
        )


def _ordered(results: list[ToolReturned], asked: list[str]) -> list[Message]:
    if len(results) > 1:
        places = {call_id: place for place, call_id in enumerate(asked)}
        results = sorted(results, key=lambda one: places.get(one.call_id, len(places)))
    return [
        Message(Role.TOOL, [ToolResultContent(one.call_id, one.content, one.is_error)])
        for one in results
    ]
