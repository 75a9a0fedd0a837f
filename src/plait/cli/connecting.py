"""A transient progress display of connections on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from plait.cli import terminal
from plait.cli.session import error_line

if TYPE_CHECKING:
    from rich.console import Group

    from plait.client.connections.status import ServerStatus, Status
    from plait.client.toolbox import Toolbox

_PATIENCE_SECONDS = 0.2
"""Faster operations show no progress."""


@contextlib.asynccontextmanager
async def showing_progress(box: Toolbox) -> AsyncGenerator[None]:
    """Show the state of every server on stderr while a block runs, if stderr is a terminal."""
    if not terminal.is_terminal(sys.stderr):
        yield
        return
    async with terminal.in_background(_show(box)):
        yield


async def _show(box: Toolbox) -> None:
    from rich.live import Live

    started = time.monotonic()
    await asyncio.sleep(_PATIENCE_SECONDS)
    with Live(console=terminal.console_for(sys.stderr), transient=True, auto_refresh=False) as live:
        while True:
            elapsed = time.monotonic() - started
            live.update(progress_view(box.status(), elapsed), refresh=True)
            await asyncio.sleep(terminal.FRAME_SECONDS)


def progress_view(status: Status, elapsed_seconds: float) -> Group:
    """Make one line per server: a spinner, tick or cross, and its state."""
    from rich.console import Group
    from rich.text import Text

    width = max(map(len, status.servers), default=0)
    lines: list[Text] = []
    for server in status.servers.values():
        mark, style, detail = _line(server, elapsed_seconds)
        detail = (terminal.visible(detail), "dim")
        parts = ((f"{mark} ", style), server.name.ljust(width + 2), detail)
        lines.append(Text.assemble(*parts, no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def _line(server: ServerStatus, elapsed_seconds: float) -> tuple[str, str, str]:
    if server.state == "ready":
        return "✓", "green", f"ready in {terminal.seconds_label(server.connect_seconds)}"
    if server.error is not None:
        return "✗", "red", error_line(server.name, server.error).removeprefix(f"{server.name}: ")
    return (
        terminal.spinner_frame(elapsed_seconds),
        "cyan",
        f"{server.state} over {server.transport} … {elapsed_seconds:.0f} s",
    )
