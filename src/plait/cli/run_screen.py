"""What a run shows on the terminal while it goes on: events, answers and a spinner."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import replace

import click
from rich.console import RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from plait._support.redact import Redactor
from plait.cli import terminal
from plait.cli.trace_view import (
    body_view,
    called_label,
    event_view,
    numbers_of,
    status_label,
    turn_line,
)
from plait.client.calls.tool_call import CallbackContext
from plait.traces import events
from plait.traces.codec import Cleaner, event_from_line, line_from_event
from plait.traces.events import TraceEvent
from plait.traces.trace import Trace


def live_view(event: TraceEvent, *, streamed: bool = False) -> Iterator[RenderableType]:
    """Render an event during a run; `streamed` says that its text is on the screen already.

    Texts of the model are complete, except the answer, which goes to stdout; calls and results are
    cut to the width.
    """
    match event:
        case events.RunStarted():
            if event.servers:
                servers = terminal.some_of(list(map(terminal.visible, event.servers)), 5)
                tools = terminal.count_label(len(event.tools), "tool")
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
            yield from map(_cut, event_view(event, full=False))


def _cut(part: RenderableType) -> RenderableType:
    text = part.renderable if isinstance(part, Padding) else part
    if isinstance(text, Text):
        text.no_wrap, text.overflow = True, "ellipsis"
    # A console copies a bare text without its no_wrap setting.
    return part if isinstance(part, Padding) else Padding(part, 0, expand=False)


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
        self._waiting = None if isinstance(event, events.RunEnded) else self._reason()
        self._since = self._clock()

    def progress(self, where: str, text: str) -> None:
        """Update the progress of a call; `where` is `server/tool`."""
        self._progress[where] = text

    def _reason(self) -> str:
        if not self._open:
            return "waiting for the model"
        return f"calling {terminal.some_of(list(map(called_label, self._open.values())))}"

    def view(self) -> Text | None:
        """Render one line with a spinner; `None` if nothing is pending."""
        if self._waiting is None:
            return None
        elapsed = self._clock() - self._since
        more = ", ".join(self._progress.values())
        return Text.assemble(
            (f"{terminal.spinner_frame(elapsed)} ", "cyan"),
            terminal.visible_line(self._waiting),
            (terminal.visible(f" … {elapsed:.0f} s  {' '.join(more.split())}").rstrip(), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )


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
        self._activity = Activity(servers, time.monotonic)
        self._live: Live | None = None
        self._prompt_lock = asyncio.Lock()
        self._waiting: list[RenderableType] = []
        self._streamed = ""
        """The text of the current answer that is on the screen already."""
        self._is_line_open = False
        """Whether the screen ends with a part of an answer, without a line break."""

    def begin(self) -> None:
        """Begin the next run of a conversation."""
        self._activity = Activity((), time.monotonic)
        self._streamed = ""
        self.missing.clear()

    @contextlib.asynccontextmanager
    async def spinning(self) -> AsyncGenerator[None]:
        """Show the spinner while a block runs."""
        try:
            async with (
                terminal.in_background(self._spin()) if self._moving else contextlib.nullcontext()
            ):
                yield
        finally:
            self._stop_spinner()

    def handle(self, event: TraceEvent) -> None:
        """Show an event."""
        self._activity.handle(event)
        if isinstance(event, events.Delta):
            self._stream(event)
            return
        if isinstance(event, events.Turn | events.ModelRetried):
            self._end_line()
        if isinstance(event, events.ModelRetried | events.ToolCalled):
            self._streamed = ""
        if not self._shown:
            return
        clean = event_from_line(line_from_event(event, self._cleaner))
        if clean is not None and not self._is_hidden(clean):
            self.show(*live_view(clean, streamed=bool(self._streamed)))

    def _is_hidden(self, event: TraceEvent) -> bool:
        if not self.is_brief:
            return False
        if isinstance(event, events.RunStarted):
            hidden, self._has_shown_tools = self._has_shown_tools, True
            return hidden
        return isinstance(event, events.Turn) and not event.message.tool_calls

    def _stream(self, event: events.Delta) -> None:
        """Print a part of the answer on stdout, which is a terminal."""
        is_text = event.part == "text" and sys.stdout.isatty()
        if not is_text or not self._shown or self._prompt_lock.locked():
            return
        self._stop_spinner()
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
        for part in parts if self._shown else ():
            terminal.print_rich(part, err=True, console=self._console)

    def warn(self, text: str) -> None:
        """Print a warning, if `shown`."""
        if self._shown:
            self._stop_spinner()
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
                self._stop_spinner()
                yield
        except asyncio.CancelledError:
            click.echo(err=True)  # after the prompt
            raise
        finally:
            parts, self._waiting = self._waiting, []
            self.show(*parts)

    async def _spin(self) -> None:
        await asyncio.sleep(_PATIENCE_SECONDS)
        while True:
            # A spinner would erase the line of an answer that is being written.
            is_busy = self._prompt_lock.locked() or self._is_line_open
            view = None if is_busy else self._activity.view()
            if view is None:
                self._stop_spinner()
            else:
                self._live = self._live or self._started()
                self._live.update(view, refresh=True)
            await asyncio.sleep(terminal.FRAME_SECONDS)

    def _started(self) -> Live:
        live = Live(
            console=self._console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live

    def _stop_spinner(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
