"""Terminal output: results on stdout, everything else on stderr; labels for counts and sizes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import click

from plait._support.sanitize import escaped, sanitize_for_terminal
from plait._support.threads import in_thread

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_SECONDS = 0.2
"""Faster operations show no progress."""
MAX_LINE_BYTES = 65536
"""A typed line is read at once; terminals take less."""
_PIPE_WIDTH = 2000
"""Columns for output that is not a terminal: wide enough for every cell."""


def visible(text: str) -> str:
    """Sanitize text of a server for the terminal: show control and hidden characters."""
    return sanitize_for_terminal(text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Sanitize text of a server, folded to one line."""
    return visible(" ".join(text.split()))


def colour_allowed() -> bool:
    """Return whether `NO_COLOR` is unset: https://no-color.org."""
    return not os.environ.get("NO_COLOR")


def console_for(stream: TextIO) -> Console:
    """Make a rich console; plain and without wrapping when the stream is not a terminal."""
    from plait.cli.safe_console import SafeConsole

    plain = not stream.isatty()
    return SafeConsole(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        width=_PIPE_WIDTH if plain and "COLUMNS" not in os.environ else None,
    )


def print_rich(
    renderable: RenderableType, *, err: bool = False, console: Console | None = None
) -> None:
    """Print on stdout, or on stderr; without trailing spaces if it is not a terminal."""
    console = console or console_for(sys.stderr if err else sys.stdout)
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as captured:
        console.print(renderable)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Print text of a server: unchanged into a pipe, sanitized on a terminal."""
    stream = sys.stderr if err else sys.stdout
    shown = _encodable(visible(text) if stream.isatty() else text, stream)
    # Not click.echo: it removes colour codes from piped output.
    stream.write(shown if shown.endswith("\n") else f"{shown}\n")
    stream.flush()


def print_json(value: object) -> None:
    """Print a JSON value on stdout: indented on a terminal, else on one line."""
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent, default=str)
    click.echo(escaped(text) if sys.stdout.isatty() else text)


def print_aside(label: str, text: str, *, colour: str) -> None:
    """Print a labelled message on stderr: `note: …`, `warning: …`."""
    shown = _encodable(visible(text), sys.stderr)
    folded = wrapped(f"{label}: {shown}", sys.stderr, indent=len(label) + 2)
    start = click.style(f"{label}:", fg=colour, bold=True)
    click.echo(start + folded.removeprefix(f"{label}:"), err=True)


def wrapped(text: str, stream: TextIO, *, indent: int = 2) -> str:
    """Wrap a line to the width of the terminal; unchanged for other streams."""
    if not stream.isatty():
        return text
    return textwrap.fill(
        text,
        width=max(20, shutil.get_terminal_size().columns),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def plain_table(*columns: str) -> Table:
    """Make a table without borders, whose cells are folded."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def cell(text: str | None, style: str = "") -> Text:
    """Make a table cell of text from a server; a dash if there is none."""
    from rich.text import Text

    return Text(visible(text or "") or "–", style)


def tick(is_good: bool) -> Text:
    """Make a table cell with a green tick or a red cross."""
    from rich.text import Text

    return Text("✓", "green") if is_good else Text("✗", "red")


def print_sections(sections: Iterable[tuple[str, str, Iterable[RenderableType]]]) -> None:
    """Print lines under the heading of each server, with an empty line between servers."""
    for number, (server, facts, lines) in enumerate(sections):
        if number:
            click.echo()
        print_heading(server, facts)
        for line in lines:
            print_rich(line)


def print_heading(server: str, facts: str) -> None:
    """Print the heading of the section of a server."""
    from rich.text import Text

    print_rich(Text.assemble((visible(server), "bold"), (f"  {facts}", "dim")))


FRAME_SECONDS = 0.1
"""How long each frame of a spinner is shown."""

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def spinner_frame(elapsed_seconds: float) -> str:
    """Return the frame of a spinner at a time."""
    return _FRAMES[int(elapsed_seconds / FRAME_SECONDS) % len(_FRAMES)]


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run `work` until the end of a block, then cancel it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class WaitLine:
    """Shows on the terminal what a command waits for, and for how long."""

    def __init__(self, text: str, *, hidden: bool = False) -> None:
        self._text = visible_line(text)
        self._hidden = hidden or not sys.stderr.isatty()
        self._live: Live | None = None
        self._prompts = 0

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show the line during a block, once that has taken a moment."""
        if self._hidden:
            yield
            return
        async with in_background(self._show()):
            yield

    def without(self, callback: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Any]:
        """Return the callback; the line is hidden while it runs, since it prints or prompts."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            self._prompts += 1
            if self._live is not None:
                self._live.stop()
            try:
                return await callback(*args, **kwargs)
            finally:
                self._prompts -= 1

        return run

    async def _show(self) -> None:
        from rich.live import Live
        from rich.text import Text

        began = time.monotonic()
        await asyncio.sleep(PATIENCE_SECONDS)
        console = console_for(sys.stderr)
        with Live(console=console, transient=True, auto_refresh=False) as self._live:
            while True:
                if not self._prompts:
                    elapsed = time.monotonic() - began
                    parts = ((f"{spinner_frame(elapsed)} ", "cyan"), self._text)
                    line = Text.assemble(*parts, (f" … {elapsed:.0f} s", "dim"), no_wrap=True)
                    self._live.start()
                    self._live.update(line, refresh=True)
                await asyncio.sleep(FRAME_SECONDS)


async def read_typed_line() -> str | None:
    """Return the next line that the user types, or `None` at the end of the input."""
    file = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    try:
        loop.add_reader(file, typed.set)
    except (NotImplementedError, PermissionError):  # Windows, or a file in place of a terminal
        # Not through `sys.stdin`: a thread blocked in it holds a lock that the exit needs.
        data = await in_thread(os.read, file, MAX_LINE_BYTES)
    else:
        # No thread: after a cancellation it would take the next line, which is not for it.
        try:
            await typed.wait()
            data = os.read(file, MAX_LINE_BYTES)
        finally:
            loop.remove_reader(file)
    encoding = sys.stdin.encoding or "utf-8"
    return data.decode(encoding, "replace").rstrip("\r\n") if data else None


def size_label(size: int) -> str:
    """Format a number of bytes: `12.3 kB`."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def seconds_label(seconds: float | None) -> str:
    """Format a duration: `4 ms`, `0.92 s`, `12.4 s`; a dash for `None`."""
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "<1 ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def count_label(count: int, noun: str) -> str:
    """Format a count: `1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def and_list(words: Sequence[str]) -> str:
    """Join words with commas and an "and"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def some_of(words: Sequence[str], most: int = 3) -> str:
    """Join the first few words, and add how many more there are."""
    if len(words) <= most:
        return and_list(words)
    return and_list([*words[:most], f"{len(words) - most} more"])


def tokens_label(tokens: int) -> str:
    """Format an estimated token count: `about 1,650 tokens`."""
    return f"about {tokens:,} token{'' if tokens == 1 else 's'}"


def share_label(part: int, whole: int, noun: str) -> str:
    """Format a share: `8 of 12 tools`, or `12 tools` for all."""
    return count_label(whole, noun) if part == whole else f"{part} of {count_label(whole, noun)}"


def progress_label(done: float, total: float | None, message: str | None) -> str:
    """Format the progress of a call: `2 of 5 reading`."""
    amount = f"{done:g} of {total:g}" if total else f"{done:g}"
    return f"{amount} {message or ''}".rstrip()
