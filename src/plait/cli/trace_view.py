"""Traces on the terminal: a run as a timeline, several runs as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plait._support.exception_groups import one_line
from plait.cli.terminal import count_label, seconds_label, visible
from plait.traces import events
from plait.traces.events import TraceEvent
from plait.traces.messages.message import UsageMetadata, to_prompt_string
from plait.traces.trace import Trace

_STATUS_STYLES = {
    "completed": "green",
    "truncated": "yellow",
    "refused": "yellow",
    "limit": "yellow",
    "timeout": "yellow",
    "cancelled": "yellow",
    "failed": "red",
    "unfinished": "red",
}
_ORDINARY_STOPS = (None, "end_turn", "tool_use", "stop", "tool_calls", "completed", "STOP")
"""The reasons to stop that are not shown."""

_DECISIONS = {
    "approve": "approved",
    "edit": "approved with changes",
    "reject": "rejected",
    "deny": "denied",
}
_DECIDERS = {"person": "", "program": " without asking a person", "policy": " by the policy"}

_TEXT_INDENT = 11
_SHORT = 160
"""Characters of a text that are shown without `full`."""

_NARROWEST = 12
"""The minimum width of the question."""

_NUMBERS = ("turns", "calls", "tokens", "time")
_DISPENSABLE = ("model", "calls", "began", "tokens", "engine", "turns")
"""The columns to drop from a table that is too wide, in order."""


def runs_table(runs: list[tuple[str, Trace]], width: int) -> Table:
    """Make a table of runs.

    The question takes the remaining width; columns are dropped if there is too little.
    """
    columns = _columns(runs)
    for dispensable in _DISPENSABLE:
        if _width(columns) + _NARROWEST <= width:
            break
        del columns[dispensable]
    table = Table(box=None, pad_edge=False)
    for title in columns:
        table.add_column(title, no_wrap=True, justify="right" if title in _NUMBERS else "left")
    table.add_column("question", no_wrap=True)
    room = max(_NARROWEST, width - _width(columns))
    for place, (_, trace) in enumerate(runs):
        cells = [
            Text(column[place], status_label(trace).style if title == "ended" else "")
            for title, column in columns.items()
        ]
        question = to_prompt_string(trace.started.new_messages) if trace.started else ""
        table.add_row(*cells, visible(one_line(question, room)))
    return table


def _columns(runs: list[tuple[str, Trace]]) -> dict[str, list[str]]:
    rows = [
        {
            "file": visible(file),
            "run": trace.run[:8],
            "began": started.time[5:16].replace("T", " ") if (started := trace.started) else "–",
            "engine": started.interface if started else "–",
            "model": visible(trace.actual_model or "–"),
            "ended": trace.status,
            "turns": str(trace.turns),
            "calls": str(len(trace.calls))
            + (f" ({trace.failed_calls} failed)" if trace.failed_calls else ""),
            "tokens": str(trace.usage.total_tokens or "–"),
            "time": seconds_label(trace.seconds),
        }
        for file, trace in runs
    ]
    return {title: [row[title] for row in rows] for title in rows[0]}


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, (title, *column))) + 2 for title, column in columns.items())


def run_view(trace: Trace, *, full: bool) -> Iterator[RenderableType]:
    """Render the events of a run; `full` shows complete texts."""
    yield _heading(trace)
    last = trace.messages[-1].text if trace.messages else ""
    for event in trace.events:
        yield from event_view(event, full=full)
        if isinstance(event, events.RunEnded) and event.final_response != last:
            yield body_view(event.final_response, full=full)
    if trace.ended is None:
        yield Text("the trace is incomplete: the run was killed, or is still running", "red")
    if trace.damaged:
        yield Text(f"{count_label(trace.damaged, 'line')} of the file cannot be read", "yellow")


def _heading(trace: Trace) -> Text:
    started = trace.started
    facts = [started.interface if started else None, trace.actual_model, *numbers_of(trace)]
    return Text.assemble(
        (f"run {trace.run[:8]}", "bold"),
        "  ",
        status_label(trace),
        (visible("  " + " · ".join(fact for fact in facts if fact)), "dim"),
    )


def status_label(trace: Trace) -> Text:
    """Render the status of a run."""
    if trace.status == "completed" and trace.failed_calls:
        return Text(f"completed, {count_label(trace.failed_calls, 'call')} failed", "yellow")
    return Text(trace.status, _STATUS_STYLES[trace.status])


def numbers_of(trace: Trace) -> list[str]:
    """Return turns, calls, tokens, cost and duration of a run, as far as known."""
    usage = trace.usage
    facts = (
        count_label(trace.turns, "turn"),
        count_label(len(trace.calls), "tool call"),
        usage_label(usage),
        seconds_label(trace.seconds),
    )
    return [fact for fact in facts if fact]


def usage_label(usage: UsageMetadata | None) -> str:
    """Format tokens and costs; empty if no tokens are reported."""
    if usage is None or not usage.total_tokens:
        return ""
    return f"{usage.input_tokens} + {usage.output_tokens} tokens · {cost_label(usage.cost_usd)}"


def cost_label(cost_usd: float | None) -> str:
    """Format a cost; small ones with more digits."""
    if cost_usd is None:
        return "cost unknown"
    return f"${cost_usd:.4f}" if cost_usd >= 0.001 or not cost_usd else f"${cost_usd:.6f}"


def event_view(event: TraceEvent, *, full: bool) -> Iterator[RenderableType]:
    """Render an event; `full` shows complete texts."""
    match event:
        case events.RunStarted():
            if event.continues is not None:
                yield _line(event, f"continues run {event.continues[:8]}", "bold")
            for message in event.new_messages:
                yield _line(event, message.role.value, "bold")
                yield body_view(message.text, full=full)
            for server, reason in event.unreached.items():
                yield _line(event, f"{server} not reached", "red", reason)
        case events.Summarized():
            yield _line(event, "summary", "bold", usage_label(event.usage))
            yield body_view(event.text, full=full)
        case events.Turn():
            yield turn_line(event)
            if event.message.thinking:
                yield body_view(event.message.thinking, full=full, style="dim italic")
            if event.message.text:
                yield body_view(event.message.text, full=full)
        case events.ToolCalled():
            arguments = json.dumps(event.arguments, ensure_ascii=False)
            arguments = arguments if full else one_line(arguments, _SHORT)
            node = f"in {event.node}  " if event.node else ""
            yield _line(event, f"→ {called_label(event)}", "blue", node + arguments)
        case events.ToolReturned():
            mark, style = ("✗ ", "red") if event.is_error else ("← ", "green")
            tries = f", {event.attempts} attempts" if event.attempts > 1 else ""
            yield _line(event, mark + event.name, style, seconds_label(event.seconds) + tries)
            yield body_view(event.content, full=full)
        case events.Retried():
            what = f"retry {event.server}/{event.tool}"
            yield _line(event, what, "yellow", f"attempt {event.attempt}, {event.reason or ''}")
        case events.ModelRetried():
            yield _line(
                event, "retry model", "yellow", f"attempt {event.attempt}, {event.reason or ''}"
            )
        case events.Healed():
            yield _line(event, f"healed {event.server}", "yellow", event.reason or "")
        case events.ApprovalDecided():
            what = _DECISIONS.get(event.decision, event.decision) + _DECIDERS[event.by]
            why = f"{event.reason}: {event.message}" if event.message else event.reason
            yield _line(event, f"{what}: {event.server}/{event.tool}", "yellow", why)
        case events.Elicited():
            answer = f"{event.question} ({event.action or 'no answer'})"
            yield _line(event, f"elicitation of {event.server}", "yellow", answer)
        case events.RunFailed():
            yield _line(event, event.error, "red", event.message)
        case events.RunEnded():
            # In plain letters: whether calls failed is known only of the whole run.
            style = "" if event.status == "completed" else _STATUS_STYLES[event.status]
            yield _line(event, f"ended: {event.status}", style)
        case _:
            pass


def called_label(event: events.ToolCalled) -> str:
    """Name the tool of a call: `server/tool`."""
    return f"{event.server}/{event.tool or event.name}" if event.server else event.name


def turn_line(event: events.Turn) -> Text:
    """Render the heading of a model turn."""
    stop = "" if event.stop_reason in _ORDINARY_STOPS else f"stopped: {event.stop_reason}"
    node = f"in {event.node}" if event.node else ""
    facts = " · ".join(fact for fact in (node, usage_label(event.usage), stop) if fact)
    return _line(event, f"turn {event.number}", "bold cyan", facts)


def _line(event: TraceEvent, what: str, style: str, more: str = "") -> Text:
    return Text.assemble(
        (f"{event.at:8.2f} s ", "dim"),
        (visible(what), style),
        (visible(f"  {more}") if more else "", "dim"),
    )


def body_view(text: str, *, full: bool, style: str = "") -> Padding:
    """Render a text below its heading."""
    shown = text if full else one_line(text, _SHORT)
    return Padding(Text(visible(shown), style), (0, 0, 0, _TEXT_INDENT), expand=False)
