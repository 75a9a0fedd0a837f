"""The steps of a run: what a conversation and a waterfall show, with their places in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plait.traces import events
from plait.traces.events import ToolReturned, TraceEvent
from plait.traces.messages.content import ImageContent
from plait.traces.trace import Trace

StepKind = Literal["question", "turn", "call", "incident", "summary", "failure", "end", "partial"]
"""An incident is a retry, a heal, an approval, an elicitation, or an event of a later version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened, from its start to its end in seconds of the run."""

    kind: StepKind
    event: TraceEvent
    start: float
    end: float
    result: ToolReturned | None = None
    """The result of a call; `None` while there is none."""
    parallel: int = 1
    """How many calls ran at the same time as this one, itself included."""

    @property
    def key(self) -> str:
        """Identifies the step in the page: `e12`."""
        return "partial" if self.kind == "partial" else f"e{self.event.id}"

    @property
    def failed(self) -> bool:
        """Whether this is a failure: of a call, or of the run."""
        return self.kind == "failure" or (self.result is not None and self.result.is_error)


def steps_of(trace: Trace) -> list[Step]:
    """Return the steps of a run, in the order in which they began to be recorded."""
    images = trace.images
    results = {
        event.parent: _with_images(event, images)
        for event in trace.events
        if isinstance(event, ToolReturned)
    }
    steps = [step for event in trace.events for step in _steps(event, results, trace)]
    if trace.partial_text and trace.ended is None:
        last = trace.events[-1]
        steps.append(Step(kind="partial", event=last, start=last.at, end=last.at))
    return _with_parallel(steps)


def _with_images(event: ToolReturned, known: Mapping[str, ImageContent]) -> ToolReturned:
    """Give images that an earlier result has too their bytes from there."""
    if all(one.data for one in event.images):
        return event
    images = [
        replace(one, data=known[one.digest].data) if one.digest in known else one
        for one in event.images
    ]
    return replace(event, images=tuple(images))


def _steps(
    event: TraceEvent, results: dict[int | None, ToolReturned], trace: Trace
) -> Iterator[Step]:
    match event:
        case events.RunStarted():
            yield Step(kind="question", event=event, start=event.at, end=event.at)
        case events.Turn():
            # A turn is recorded when it is complete.
            start = max(0.0, event.at - (event.seconds or 0.0))
            yield Step(kind="turn", event=event, start=start, end=event.at)
        case events.ToolCalled():
            result = results.get(event.id)
            end = _call_end(event, result, trace)
            yield Step(kind="call", event=event, start=event.at, end=end, result=result)
        case events.Healed() | events.Elicited() | events.ApprovalDecided():
            # They are recorded when they are over.
            start = max(0.0, event.at - (event.seconds or 0.0))
            yield Step(kind="incident", event=event, start=start, end=event.at)
        case events.Retried() | events.ModelRetried():
            end = event.at + (event.delay_seconds or 0.0)
            yield Step(kind="incident", event=event, start=event.at, end=end)
        case events.Summarized():
            yield Step(kind="summary", event=event, start=event.at, end=event.at)
        case events.RunFailed():
            yield Step(kind="failure", event=event, start=event.at, end=event.at)
        case events.RunEnded():
            yield Step(kind="end", event=event, start=event.at, end=event.at)
        case events.ToolDefined() | events.Delta() | ToolReturned():
            pass
        case _:
            yield Step(kind="incident", event=event, start=event.at, end=event.at)


def _call_end(call: events.ToolCalled, result: ToolReturned | None, trace: Trace) -> float:
    if result is None:
        return max(call.at, trace.events[-1].at)
    if result.seconds is None:
        return max(result.at, call.at)
    return call.at + result.seconds + (result.waited_seconds or 0.0)


def _with_parallel(steps: Sequence[Step]) -> list[Step]:
    """Count for each call the calls that overlap it in time."""
    calls = sorted((step for step in steps if step.kind == "call"), key=lambda step: step.start)
    overlapping = dict.fromkeys((step.key for step in calls), 1)
    running: list[Step] = []
    for step in calls:
        running = [other for other in running if other.end > step.start]
        for other in running:
            overlapping[other.key] += 1
        overlapping[step.key] += len(running)
        running.append(step)
    return [
        step if overlapping.get(step.key, 1) == 1 else replace(step, parallel=overlapping[step.key])
        for step in steps
    ]
