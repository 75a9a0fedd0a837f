"""A transient progress display of connections on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from plait.cli.query_servers import error_line
from plait.cli.terminal import console_for, is_terminal, seconds_label, visible

if TYPE_CHECKING:
    from rich.console import Group

    from plait.client.connections.status import ServerStatus, Status
    from plait.client.toolbox import Toolbox

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_PERIOD_SECONDS = 0.1

_PATIENCE_SECONDS = 0.2
"""Faster operations show no progress."""


class Progress:
    """Shows the state of every server on stderr while a block runs, if stderr is a terminal."""

    def __init__(self, box: Toolbox, *, enabled: bool) -> None:
        self._box = box
        self._enabled = enabled and is_terminal(sys.stderr)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._enabled:
            self._task = asyncio.create_task(self._show())
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

    async def _show(self) -> None:
        from rich.live import Live

        started = time.monotonic()
        await asyncio.sleep(_PATIENCE_SECONDS)
        console = console_for(sys.stderr)
        with Live(console=console, transient=True, auto_refresh=False) as live:
            while True:
                elapsed = time.monotonic() - started
                live.update(progress_view(self._box.status(), elapsed), refresh=True)
                await asyncio.sleep(_PERIOD_SECONDS)


def progress_view(status: Status, elapsed_seconds: float) -> Group:
    """Make one line per server: a spinner, tick or cross, and its state."""
    from rich.console import Group
    from rich.text import Text

    width = max(map(len, status.servers), default=0)
    lines: list[Text] = []
    for server in status.servers.values():
        mark, style, detail = _line(server, elapsed_seconds)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{mark} ", style)
        line.append(f"{server.name:<{width}}  ")
        line.append(visible(detail), "dim")
        lines.append(line)
    return Group(*lines)


def _line(server: ServerStatus, elapsed_seconds: float) -> tuple[str, str, str]:
    if server.state == "ready":
        return "✓", "green", f"ready in {seconds_label(server.connect_seconds)}"
    if server.error is not None:
        return "✗", "red", error_line(server.name, server.error).removeprefix(f"{server.name}: ")
    frame = _FRAMES[int(elapsed_seconds / _PERIOD_SECONDS) % len(_FRAMES)]
    return frame, "cyan", f"{server.state} over {server.transport} … {elapsed_seconds:.0f} s"
