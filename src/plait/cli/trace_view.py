"""Runs on the terminal: as a timeline, several as a table, and one while it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plait._support.exception_groups import one_line
from plait._support.redact import Redactor
from plait.cli import terminal
from plait.cli.terminal import visible
from plait.client.calls.tool_call import CallbackContext
from plait.html.pieces import count_label, seconds_label
from plait.traces import events
from plait.traces.codec import Cleaner, event_from_line, line_from_event
from plait.traces.events import TraceEvent
from plait.traces.messages.message import UsageMetadata, to_prompt_string
from plait.traces.trace import NO_RESPONSE, Trace

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
_DECIDERS = {"person": "", "program": " by the program", "policy": " by the policy"}

_TEXT_INDENT = 11
_SHORT = 160
"""Characters of a text that are shown without `full`."""

_NARROWEST = 12
"""The minimum width of the question."""

_NOT_KNOWN = "not known whether the call took effect"
"""What the text of an `OutcomeUnknownError` says: it is never cut."""

_NUMBERS = ("turns", "calls", "tokens", "time")
_DISPENSABLE = ("model", "calls", "began", "tokens", "engine", "turns")
"""The columns to drop from a table that is too wide, in order."""


def runs_table(runs: list[tuple[str, Trace]], width: int) -> Table:
    """Make a table of runs.

    The question takes the remaining width; columns are dropped if there is too little.
    """
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
    columns = {title: [row[title] for row in rows] for title in rows[0]}
    for dispensable in _DISPENSABLE:
        if _width(columns) + _NARROWEST <= width:
            break
        del columns[dispensable]
    if (excess := _width(columns) + _NARROWEST - width) > 0:
        # The end of a path tells files apart.
        longest = max(_NARROWEST, max(map(len, columns["file"])) - excess)
        columns["file"] = [
            name if len(name) <= longest else f"…{name[1 - longest :]}" for name in columns["file"]
        ]
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


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(max(map(len, (title, *column))) + 2 for title, column in columns.items())


def run_view(trace: Trace, *, full: bool) -> Iterator[RenderableType]:
    """Render the events of a run; `full` shows complete texts."""
    started = trace.started
    facts = [started.interface if started else None, trace.actual_model, *numbers_of(trace)]
    yield Text.assemble(
        (f"run {trace.run[:8]}", "bold"),
        "  ",
        status_label(trace),
        (visible("  " + " · ".join(fact for fact in facts if fact)), "dim"),
    )
    # A client of `plait serve` asks no model, so that there is no answer.
    last = trace.messages[-1].text if trace.messages and trace.turns else NO_RESPONSE
    for event in trace.events:
        yield from event_view(event, full=full)
        if isinstance(event, events.RunEnded) and event.final_response != last:
            yield body_view(event.final_response, full=full)
    if trace.ended is None:
        yield Text("the trace is incomplete: the run was killed, or is still running", "red")
    if trace.damaged:
        yield Text(f"{count_label(trace.damaged, 'line')} of the file cannot be read", "yellow")


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
            # Whoever reads that a call may have taken effect must read to the end.
            is_unknown = event.is_error and _NOT_KNOWN in event.content
            yield body_view(event.content, full=full or is_unknown)
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


def live_view(event: TraceEvent, *, streamed: bool = False) -> Iterator[RenderableType]:
    """Render an event during a run; `streamed` says that its text is on the screen already.

    Texts of the model are complete, except the answer, which goes to stdout; calls and results are
    cut to the width.
    """
    match event:
        case events.RunStarted():
            if event.servers:
                servers = terminal.some_of(list(map(terminal.visible, event.servers)), 5)
                tools = count_label(len(event.tools), "tool")
                yield Text(f"tools: {tools} of {servers}", "dim")
        case events.Turn():
            yield turn_line(event)
            if event.message.thinking:
                yield body_view(event.message.thinking, full=False, style="dim italic")
            if event.message.text and event.message.tool_calls and not streamed:
                yield body_view(event.message.text, full=True)
        case events.RunEnded() | events.RunFailed():  # printed elsewhere: summary and error
            pass
        case _:
            for part in event_view(event, full=False):
                text = part.renderable if isinstance(part, Padding) else part
                if isinstance(text, Text) and _NOT_KNOWN not in text.plain:
                    text.no_wrap, text.overflow = True, "ellipsis"
                # A console copies a bare text without its no_wrap setting.
                yield part if isinstance(part, Padding) else Padding(part, 0, expand=False)


def summary_line(trace: Trace, file: str | None) -> Text:
    """Render the status and usage of a run, and its trace file."""
    facts = [*numbers_of(trace), *([f"trace {file}"] if file else [])]
    return Text.assemble(status_label(trace), (terminal.visible("  " + " · ".join(facts)), "dim"))


class Activity:
    """What a run is currently waiting for."""

    def __init__(self, servers: Iterable[str], clock: Callable[[], float]) -> None:
        names = terminal.some_of(list(servers))
        self._clock = clock
        self._waiting: str | None = f"connecting to {names}" if names else "starting"
        self._since = clock()
        self._open: dict[str, events.ToolCalled] = {}
        self._progress: dict[str, str] = {}

    def handle(self, event: TraceEvent) -> None:
        """Update from an event."""
        match event:
            case events.ToolCalled():
                self._open[event.call_id] = event
            case events.ToolReturned():
                if called := self._open.pop(event.call_id, None):
                    self._progress.pop(called_label(called), None)
            case events.RunStarted() | events.Turn() | events.RunEnded():
                self._open.clear()
            case _:
                return
        calls = terminal.some_of(list(map(called_label, self._open.values())))
        self._waiting = f"calling {calls}" if calls else "waiting for the model"
        if isinstance(event, events.RunEnded):
            self._waiting = None
        self._since = self._clock()

    def progress(self, where: str, text: str) -> None:
        """Update the progress of a call; `where` is `server/tool`."""
        self._progress[where] = text

    def view(self) -> Text | None:
        """Render one line with a spinner; `None` if nothing is pending."""
        if self._waiting is None:
            return None
        more = ", ".join(self._progress.values())
        return terminal.spinner_line(self._waiting, self._clock() - self._since, more)


_PATIENCE_SECONDS = 0.3
"""Faster operations show no spinner."""


class RunScreen:
    """Shows the progress of a run on stderr; as plain lines if that is not a terminal.

    Events of a run contain secrets; they are redacted here.
    """

    def __init__(
        self,
        servers: Iterable[str],
        redact: Redactor,
        *,
        shown: bool,
        moving: bool,
        brief: bool = False,
    ) -> None:
        """Show nothing unless `shown`, and a spinner only if `moving`.

        A `brief` screen shows no heading for a turn that only answers, and the tools only once.
        """
        self.is_brief = brief
        self._has_shown_tools = False
        self.missing: set[str] = set()
        """The servers that the current run cannot use."""
        self._console = terminal.console_for(sys.stderr)
        self._cleaner = Cleaner(redact)
        self._redact = redact
        self._shown = shown
        steady = not self._console.is_terminal or self._console.is_dumb_terminal
        self._moving = shown and moving and not steady and terminal.colour_allowed()
        self._spinner = terminal.Spinner(
            self._waiting_line,
            hidden=not self._moving,
            patience_seconds=_PATIENCE_SECONDS,
            redirects=False,
        )
        self._activity = Activity(servers, time.monotonic)
        self._prompt_lock = asyncio.Lock()
        self._waiting: list[RenderableType] = []
        self._streamed = ""
        """The text of the last answer that is on the screen already."""
        self._is_turn_over = False
        """Whether the model called tools after that text; the next text is another answer."""
        self._is_line_open = False
        """Whether the screen ends with a part of an answer, without a line break."""

    def begin(self) -> None:
        """Begin the next run of a conversation."""
        self._activity = Activity((), time.monotonic)
        self._streamed, self._is_turn_over = "", False
        self.missing.clear()

    def spinning(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Show the spinner while a block runs."""
        return self._spinner.shown()

    def _waiting_line(self, _elapsed_seconds: float) -> Text | None:
        # A spinner would erase the line of an answer that is being written.
        is_busy = self._prompt_lock.locked() or self._is_line_open
        return None if is_busy else self._activity.view()

    def handle(self, event: TraceEvent) -> None:
        """Show an event."""
        self._activity.handle(event)
        if isinstance(event, events.Delta):
            self._stream(event)
            return
        if isinstance(event, events.Turn | events.ModelRetried):
            self._end_line()
        if isinstance(event, events.ModelRetried):
            self._streamed = ""
        elif isinstance(event, events.ToolCalled):
            self._is_turn_over = True
        if not self._shown:
            return
        if self.is_brief and isinstance(event, events.RunStarted):
            hidden, self._has_shown_tools = self._has_shown_tools, True
            if hidden:
                return
        if self.is_brief and isinstance(event, events.Turn) and not event.message.tool_calls:
            return
        clean = event_from_line(line_from_event(event, self._cleaner))
        if clean is not None:
            streamed = bool(self._streamed) and not self._is_turn_over
            self.show(*live_view(clean, streamed=streamed))

    def _stream(self, event: events.Delta) -> None:
        """Print a part of the answer on stdout, which is a terminal."""
        is_text = event.part == "text" and sys.stdout.isatty()
        if not is_text or not self._shown or self._prompt_lock.locked():
            return
        self._spinner.hide()
        if self._is_turn_over:
            self._streamed, self._is_turn_over = "", False
        self._streamed += event.text
        self._is_line_open = True
        sys.stdout.write(terminal.visible(self._redact(event.text)))
        sys.stdout.flush()

    def _end_line(self) -> None:
        if self._is_line_open:
            self._is_line_open = False
            sys.stdout.write("\n")
            sys.stdout.flush()

    def redacted(self, trace: Trace) -> Trace:
        """Return a trace without secrets."""
        lines = (line_from_event(event, self._cleaner) for event in trace.events)
        clean = tuple(event for line in lines if (event := event_from_line(line)) is not None)
        return replace(trace, events=clean)

    def line_of(self, event: TraceEvent) -> str:
        """Return an event as a line of JSON, without secrets."""
        return line_from_event(event, self._cleaner).decode()

    def has_streamed(self, text: str) -> bool:
        """Check whether a text is on the screen already."""
        return bool(text) and self._streamed.strip() == text.strip()

    def show(self, *parts: RenderableType) -> None:
        """Print lines; during a prompt they are held back."""
        if self._prompt_lock.locked():
            self._waiting += parts
            return
        self._end_line()
        # The spinner has a console of its own: its line would stay in front of what is printed.
        self._spinner.hide()
        for part in parts if self._shown else ():
            terminal.print_rich(part, err=True, console=self._console)

    def warn(self, text: str) -> None:
        """Print a warning, if `shown`."""
        if self._shown:
            self._spinner.hide()
            self._end_line()
            terminal.print_aside("warning", self._redact(text), colour="yellow")

    def progress(
        self, done: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        """Show the progress of a call."""
        where = f"{context.server_name}/{context.tool_name}"
        text = self._redact(terminal.progress_label(done, total, message))
        self._activity.progress(where, text)
        if self._shown and not self._moving and not self._prompt_lock.locked():
            terminal.print_aside("progress", f"{where} {text}", colour="blue")

    @contextlib.asynccontextmanager
    async def prompting(self) -> AsyncGenerator[None]:
        """Reserve the terminal for a prompt; events in the meantime are shown afterwards."""
        try:
            async with self._prompt_lock:
                self._spinner.hide()
                yield
        except asyncio.CancelledError:
            click.echo(err=True)  # after the prompt
            raise
        finally:
            parts, self._waiting = self._waiting, []
            self.show(*parts)
