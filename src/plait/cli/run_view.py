"""A run of an agent as it is shown while it goes on; drawing only, no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from plait.cli.phrases import some_of
from plait.cli.terminal import count_label, visible
from plait.cli.trace_view import body_view, event_view, numbers_of, status_label, turn_line
from plait.traces.events import (
    RunEnded,
    RunFailed,
    RunStarted,
    ToolCalled,
    ToolReturned,
    TraceEvent,
    Turn,
)
from plait.traces.trace import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_FRAME_SECONDS = 0.1


def live_view(event: TraceEvent) -> Iterator[RenderableType]:
    """Draw an event for somebody who watches.

    What the model says is shown whole, but for its answer, which goes elsewhere; calls and results
    are cut to the width.
    """
    match event:
        case RunStarted():
            if event.servers:
                yield _tools_line(event)
        case Turn():
            yield turn_line(event)
            if event.message.thinking:
                yield body_view(event.message.thinking, full=False, style="dim italic")
            if event.message.text and event.message.tool_calls:
                yield body_view(event.message.text, full=True)
        case RunEnded() | RunFailed():  # said by others: the summary, and the error itself
            pass
        case _:
            yield from map(_cut, event_view(event, full=False))


def _tools_line(event: RunStarted) -> Text:
    servers = some_of([visible(name) for name in event.servers], 5)
    return Text(f"tools: {count_label(len(event.tools), 'tool')} of {servers}", "dim")


def _cut(part: RenderableType) -> RenderableType:
    text = part.renderable if isinstance(part, Padding) else part
    if isinstance(text, Text):
        text.no_wrap, text.overflow = True, "ellipsis"
    # Not bare: a console would copy the text, and forget that it must not be wrapped.
    return part if isinstance(part, Padding) else Padding(part, 0, expand=False)


def summary_line(trace: Trace, file: str | None) -> Text:
    """Draw how a run ended, what it needed, and where its trace is."""
    facts = [*numbers_of(trace), *([f"trace {file}"] if file else [])]
    return Text.assemble(status_label(trace), (visible("  " + " · ".join(facts)), "dim"))


class Activity:
    """What a run is waiting for at the moment."""

    def __init__(self, servers: Iterable[str], clock: Callable[[], float]) -> None:
        names = some_of(list(servers))
        self._clock = clock
        self._waiting: str | None = f"connecting to {names}" if names else "starting"
        self._since = clock()
        self._open: dict[str, ToolCalled] = {}
        self._progress: dict[str, str] = {}

    def hear(self, event: TraceEvent) -> None:
        """Learn from an event what comes next."""
        match event:
            case ToolCalled():
                self._open[event.call_id] = event
            case ToolReturned():
                called = self._open.pop(event.call_id, None)
                self._progress.pop(_where(called), None)
            case RunStarted() | Turn() | RunEnded():
                self._open.clear()
            case _:
                return
        self._waiting = None if isinstance(event, RunEnded) else self._reason()
        self._since = self._clock()

    def progress(self, where: str, text: str) -> None:
        """Learn how far a call has come; `where` is `server/tool`."""
        self._progress[where] = text

    def _reason(self) -> str:
        if not self._open:
            return "the model thinks"
        return f"calling {some_of([_where(called) for called in self._open.values()])}"

    def view(self) -> Text | None:
        """Draw one line, with a wheel that turns; `None` if there is nothing to wait for."""
        if self._waiting is None:
            return None
        elapsed = self._clock() - self._since
        frame = _FRAMES[int(elapsed / _FRAME_SECONDS) % len(_FRAMES)]
        more = ", ".join(self._progress.values())
        return Text.assemble(
            (f"{frame} ", "cyan"),
            visible(" ".join(self._waiting.split())),
            (visible(f" … {elapsed:.0f} s  {' '.join(more.split())}").rstrip(), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )


def progress_text(done: float, total: float | None, message: str | None) -> str:
    """Write how far a call has come: `2 of 5 reading`."""
    amount = f"{done:g} of {total:g}" if total else f"{done:g}"
    return f"{amount} {message or ''}".rstrip()


def _where(called: ToolCalled | None) -> str:
    if called is None:
        return ""
    return f"{called.server}/{called.tool or called.name}" if called.server else called.name
