"""`plait demo`: see servers killed, and what becomes of two clients."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.base import ExampleCommand
from plait.cli.terminal import console_for, print_rich

if TYPE_CHECKING:
    from rich.text import Text

    from plait.cli.demo import Stage


def closing_lines(stage: Stage) -> list[Text]:
    """Say how it ended, and what to try next."""
    from rich.text import Text

    lines = [Text(), *stage.summary()]
    if stage.left is None:
        lines.append(Text("The MCP SDK's own client plays beside it: pip install 'plait[demo]'"))
    own, found = Path(sys.executable).with_name("plait"), shutil.which("plait")
    is_elsewhere = own.exists() and (found is None or not own.samefile(found))
    place = f" (with {os.path.relpath(own)})" if is_elsewhere else ""
    lines.append(Text(f"\nKill servers yourself, in a browser{place}:"))
    return [*lines, Text("  plait view --demo", "bold")]


@click.command(cls=ExampleCommand)
def demo() -> None:
    """Kill servers of two clients, and see which one goes on (15 seconds).

    The client of the MCP SDK is on the left, plait on the right. Both have the
    same five small servers, which are killed with kill -9, one of them in the
    middle of a payment. All that is shown is measured as you watch. It needs no
    key and no network, and leaves nothing behind.

    Without a terminal, or on a narrow one, it prints lines. The left half needs
    pip install 'plait[demo]'.

    Examples:
        plait demo
    """
    from rich.live import Live
    from rich.text import Text

    from plait.cli.demo import MIN_WIDTH, Event, Stage, play_and_paint

    console = console_for(sys.stdout)
    is_screen = console.is_terminal and console.width >= MIN_WIDTH and not console.is_dumb_terminal

    def print_event(event: Event) -> None:
        if not is_screen:
            line = Text.assemble((f"{event.at:4.1f} s  ", "dim"), (event.who, "cyan"), " ")
            print_rich(line + event.text, console=console)

    with tempfile.TemporaryDirectory(prefix="plait-demo-") as name:
        stage = Stage(Path(name).resolve(), for_readers=console.is_terminal, on_event=print_event)
        if is_screen:
            with Live(stage.draw(), console=console, auto_refresh=False) as live:
                asyncio.run(play_and_paint(stage, lambda: live.update(stage.draw(), refresh=True)))
        else:
            asyncio.run(play_and_paint(stage, None))
    for line in closing_lines(stage):
        print_rich(line, console=console)
