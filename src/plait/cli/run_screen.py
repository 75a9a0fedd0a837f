"""The terminal during a run: lines that stay, a wheel that turns, and room for questions."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Self

from rich.console import RenderableType
from rich.live import Live

from plait._support.redact import Redactor
from plait.cli.run_view import Activity, live_view, progress_text
from plait.cli.terminal import colour_allowed, console_for, print_aside, print_rich
from plait.client.calls.callbacks import CallbackContext
from plait.traces.codec import Cleaner, event_from_line, line_from_event
from plait.traces.events import TraceEvent

_PERIOD_SECONDS = 0.1

_PATIENCE_SECONDS = 0.3
"""What is done sooner than this needs no wheel."""


class RunScreen:
    """Shows on stderr how a run goes; as plain lines where that is no terminal.

    Secrets are hidden here: what a run tells its listeners holds them.
    """

    def __init__(
        self, servers: Iterable[str], redact: Redactor, *, shown: bool, moving: bool
    ) -> None:
        """Show nothing unless `shown`; turn a wheel only if `moving`."""
        self._console = console_for(sys.stderr)
        self._cleaner = Cleaner(redact)
        self._redact = redact
        self._shown = shown
        steady = not self._console.is_terminal or self._console.is_dumb_terminal
        self._moving = shown and moving and not steady and colour_allowed()
        self._activity = Activity(servers, time.monotonic)
        self._live: Live | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._waiting: list[RenderableType] = []

    async def __aenter__(self) -> Self:
        if self._moving:
            self._task = asyncio.create_task(self._turn_wheel())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._stop_wheel()

    def hear(self, event: TraceEvent) -> None:
        """Show an event of the run."""
        self._activity.hear(event)
        if not self._shown:
            return
        clean = event_from_line(line_from_event(event, self._cleaner))
        if clean is not None:
            self.show(*live_view(clean))

    def show(self, *parts: RenderableType) -> None:
        """Print lines that stay; while somebody is asked, they wait."""
        if self._turn.locked():
            self._waiting += parts
            return
        for part in parts if self._shown else ():
            print_rich(part, err=True, console=self._console)

    def warn(self, text: str) -> None:
        """Print a warning, unless nothing is to be shown."""
        if self._shown:
            self._stop_wheel()
            print_aside("warning", self._redact(text), colour="yellow")

    def progress(
        self, done: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        """Show how far a call has come."""
        where = f"{context.server_name}/{context.tool_name}"
        text = self._redact(progress_text(done, total, message))
        self._activity.progress(where, text)
        if self._shown and not self._moving and not self._turn.locked():
            print_aside("progress", f"{where} {text}", colour="blue")

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncGenerator[None]:
        """Leave the terminal to one question; what happens meanwhile is shown afterwards."""
        try:
            async with self._turn:
                self._stop_wheel()
                yield
        finally:
            parts, self._waiting = self._waiting, []
            self.show(*parts)

    async def _turn_wheel(self) -> None:
        await asyncio.sleep(_PATIENCE_SECONDS)
        while True:
            view = None if self._turn.locked() else self._activity.view()
            if view is None:
                self._stop_wheel()
            else:
                if self._live is None:
                    self._live = self._started()
                self._live.update(view, refresh=True)
            await asyncio.sleep(_PERIOD_SECONDS)

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

    def _stop_wheel(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
