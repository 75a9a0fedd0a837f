"""The terminal during a run: event lines, a spinner, and prompts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

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


def live_view(event: TraceEvent) -> Iterator[RenderableType]:
    """Render an event during a run.

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
            if event.message.text and event.message.tool_calls:
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
        self, servers: Iterable[str], redact: Redactor, *, shown: bool, moving: bool
    ) -> None:
        """Show nothing unless `shown`, and a spinner only if `moving`."""
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
        if not self._shown:
            return
        clean = event_from_line(line_from_event(event, self._cleaner))
        if clean is not None:
            self.show(*live_view(clean))

    def show(self, *parts: RenderableType) -> None:
        """Print lines; during a prompt they are held back."""
        if self._prompt_lock.locked():
            self._waiting += parts
            return
        for part in parts if self._shown else ():
            terminal.print_rich(part, err=True, console=self._console)

    def warn(self, text: str) -> None:
        """Print a warning, if `shown`."""
        if self._shown:
            self._stop_spinner()
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
        finally:
            parts, self._waiting = self._waiting, []
            self.show(*parts)

    async def _spin(self) -> None:
        await asyncio.sleep(_PATIENCE_SECONDS)
        while True:
            view = None if self._prompt_lock.locked() else self._activity.view()
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
