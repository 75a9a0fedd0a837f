"""The steps of a run: what a conversation and a waterfall show, with their places in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plait.traces import events
from plait.traces.events import ToolReturned, TraceEvent
from plait.traces.trace import Trace

StepKind = Literal[
    "connect", "question", "turn", "call", "incident", "summary", "failure", "end", "partial"
]
"""An incident is a retry, a heal, an approval, an elicitation, or an event of a later version."""


MIN_CONNECT_SECONDS = 0.01
"""Servers that were open before are used at once."""


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
    turn: str = ""
    """The key of the turn that a call or an incident came after."""

    @property
    def key(self) -> str:
        """Identifies the step in the page: `e12`."""
        if self.kind in {"partial", "connect"}:
            return self.kind
        return f"e{self.event.id}"

    @property
    def failed(self) -> bool:
        """Whether this is a failure: of a call, or of the run."""
        return self.kind == "failure" or (self.result is not None and self.result.is_error)


def steps_of(trace: Trace) -> list[Step]:
    """Return the steps of a run, in the order in which they began to be recorded."""
    images = trace.images
    results: dict[int | None, ToolReturned] = {}
    for event in trace.events:
        if isinstance(event, ToolReturned):
            # Images that an earlier result has too get their bytes from there.
            shown = tuple(
                replace(one, data=images[one.digest].data)
                if one.data is None and one.digest in images
                else one
                for one in event.images
            )
            results[event.parent] = replace(event, images=shown)
    steps: list[Step] = []
    for event in trace.events:
        kind: StepKind = "incident"
        start = end = event.at
        result = None
        match event:
            case events.ToolDefined() | events.Delta() | ToolReturned():
                continue
            case events.RunStarted():
                kind, start, end = "question", 0.0, 0.0
            case events.Turn():
                kind = "turn"
                # A turn is recorded when it is complete.
                start = max(0.0, event.at - (event.seconds or 0.0))
            case events.ToolCalled():
                kind, result = "call", results.get(event.id)
                if result is None:
                    end = max(event.at, trace.events[-1].at)
                elif result.seconds is None:
                    end = max(result.at, event.at)
                else:
                    end = event.at + result.seconds + (result.waited_seconds or 0.0)
            case events.Healed() | events.Elicited() | events.ApprovalDecided():
                # They are recorded when they are over.
                start = max(0.0, event.at - (event.seconds or 0.0))
            case events.Retried() | events.ModelRetried():
                end = event.at + (event.delay_seconds or 0.0)
            case events.Summarized():
                kind = "summary"
            case events.RunFailed():
                kind = "failure"
            case events.RunEnded():
                kind = "end"
            case _:
                pass
        steps.append(Step(kind=kind, event=event, start=start, end=end, result=result))
        has_servers = isinstance(event, events.RunStarted) and bool(event.servers)
        if has_servers and event.at >= MIN_CONNECT_SECONDS:
            steps.append(Step(kind="connect", event=event, start=0.0, end=event.at))
    if trace.partial_text and trace.ended is None:
        last = trace.events[-1]
        steps.append(Step(kind="partial", event=last, start=last.at, end=last.at))
    return _with_parallel(steps)


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
    counted: list[Step] = []
    turn = ""
    for step in steps:
        if step.kind == "turn":
            turn = step.key
        elif step.kind not in {"call", "incident"}:
            turn = ""
        own = "" if step.kind == "turn" else turn
        counted.append(replace(step, parallel=overlapping.get(step.key, 1), turn=own))
    return counted
