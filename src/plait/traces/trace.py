"""The trace of one run, and what is derived from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Literal, TypeVar

from plait.traces.events import (
    Delta,
    ModelRetried,
    RunEnded,
    RunFailed,
    RunStarted,
    Status,
    Summarized,
    ToolCalled,
    ToolDefined,
    ToolReturned,
    TraceEvent,
    Turn,
)
from plait.traces.messages.message import ImageContent, Message, Role, UsageMetadata, answered
from plait.traces.raw import messages_to_raw_trace, with_note

Kind = TypeVar("Kind", bound=TraceEvent)

NO_RESPONSE = "[No final response extracted]"
"""The final response of a run that ended without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one run, in order."""

    run: str
    events: tuple[TraceEvent, ...]
    damaged: int = 0
    """Invalid lines of the file; a killed run may leave one."""
    shared_definitions: Mapping[str, ToolDefined] = field(
        default_factory=dict[str, ToolDefined], repr=False, compare=False
    )
    """Definitions of tools in the same file, by digest: each is stored once."""

    def _last(self, kind: type[Kind]) -> Kind | None:
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    @property
    def started(self) -> RunStarted | None:
        """The start of the run."""
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def ended(self) -> RunEnded | None:
        """The end of the run; `None` if it still runs, or was killed."""
        return self._last(RunEnded)

    @property
    def failure(self) -> RunFailed | None:
        """The error that ended the run, if one did."""
        return self._last(RunFailed)

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
    def stop_reason(self) -> str | None:
        """Why the model stopped in its last answer, as the provider names it."""
        last = self._last(Turn)
        return last.stop_reason if last else (self.ended.stop_reason if self.ended else None)

    @property
    def calls(self) -> list[tuple[ToolCalled, ToolReturned | None]]:
        """Each call with its result; `None` if there is none."""
        results = {event.parent: event for event in self.events if isinstance(event, ToolReturned)}
        calls = [event for event in self.events if isinstance(event, ToolCalled)]
        return [(call, results.get(call.id)) for call in calls]

    @property
    def failed_calls(self) -> int:
        """How many calls failed, or returned an error of their tool."""
        return sum(result is not None and result.is_error for _, result in self.calls)

    @property
    def messages(self) -> list[Message]:
        """The messages of model and tools, with results in the order of their calls."""
        messages: list[Message] = []
        results: list[ToolReturned] = []
        call_ids: list[str] = []
        for event in self.events:
            match event:
                case Turn():
                    messages += _in_order_of_calls(results, call_ids)
                    results = []
                    message = event.message
                    if event.usage is not None and message.usage_metadata is None:
                        message = replace(message, usage_metadata=event.usage.to_dict())
                    messages.append(message)
                    call_ids = [call.id for call in event.message.tool_calls]
                case ToolReturned():
                    # A later one is what the model read in its place.
                    results = [one for one in results if one.call_id != event.call_id]
                    results.append(event)
                case _:
                    pass
        return messages + _in_order_of_calls(results, call_ids)

    @property
    def trace_messages(self) -> list[Message]:
        """The same as `messages`, under the name that results have."""
        return self.messages

    @property
    def conversation(self) -> list[Message]:
        """The input of the run and its messages, to continue from.

        The beginning of an answer that was stopped is a message of the model, too.
        """
        before = self.started.messages if self.started else ()
        partial = self.partial_text
        stopped = [Message.assistant(partial)] if partial.strip() else []
        return answered([*before, *self.messages, *stopped])

    @property
    def definitions(self) -> dict[str, ToolDefined]:
        """The tools of the run as its models knew them, by `server/tool`, as far as recorded."""
        digests: Mapping[str, str] = self.started.definitions if self.started else {}
        own = {event.digest: event for event in self.events if isinstance(event, ToolDefined)}
        known = {**self.shared_definitions, **own}
        offered = {name: known[digest] for name, digest in digests.items() if digest in known}
        at_start = {*digests.values()}
        later = {one.name: one for one in own.values() if one.digest not in at_start}
        return {**later, **offered}

    @property
    def images(self) -> dict[str, ImageContent]:
        """The images of tool results whose bytes are recorded, by their digests."""
        results = (event for event in self.events if isinstance(event, ToolReturned))
        images = (image for result in results for image in result.images)
        return {
            image.digest: ImageContent(image.data, image.mime_type)
            for image in images
            if image.data is not None
        }

    @property
    def partial_text(self) -> str:
        """The text of an answer that was streamed and did not come to its end."""
        parts: list[str] = []
        for event in reversed(self.events):
            match event:
                case Turn() | ModelRetried():
                    break
                case Delta(part="text", text=text):
                    parts.append(text)
                case _:
                    pass
        return "".join(reversed(parts))

    @property
    def usage(self) -> UsageMetadata:
        """The usage as reported at the end, else the sum of the turns."""
        return self.ended.usage if self.ended else self.usage_so_far

    @property
    def usage_so_far(self) -> UsageMetadata:
        """The sum over turns and summaries; without a cost, if that of one is not known."""
        spent = [event for event in self.events if isinstance(event, Turn | Summarized)]
        usages = [event.usage for event in spent if event.usage]
        total = reduce(add, usages, UsageMetadata())
        is_known = len(usages) == len(spent) and all(one.cost_usd is not None for one in usages)
        return total if is_known else replace(total, cost_usd=None)

    @property
    def actual_model(self) -> str | None:
        """The model that answered last, as the provider names it."""
        if self.ended and self.ended.actual_model:
            return self.ended.actual_model
        turns = [event for event in self.events if isinstance(event, Turn)]
        models = [event.model for event in turns if event.model]
        started = self.started
        if models or not turns:
            return models[-1] if models else None
        return started.model if started else None

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
        if partial := self.partial_text:
            return partial
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


def _in_order_of_calls(results: list[ToolReturned], call_ids: list[str]) -> list[Message]:
    if len(results) > 1:
        order = {call_id: index for index, call_id in enumerate(call_ids)}
        results = sorted(results, key=lambda result: order.get(result.call_id, len(order)))
    return [
        Message.tool_result(result.call_id, result.content, result.is_error) for result in results
    ]
