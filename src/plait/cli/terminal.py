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
from plait.html.pieces import count_label

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


def plain_table(*columns: str, dispensable: Sequence[str] = ()) -> Table:
    """Make a table without borders, whose cells are folded.

    On a terminal that is too narrow, it leaves the `dispensable` columns out, in this order.
    """
    from plait.cli.fitting_table import FittingTable

    table = FittingTable(
        box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), dispensable=dispensable
    )
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


class Spinner:
    """Shows on stderr what a command waits for, once that has taken a moment."""

    def __init__(
        self,
        view: Callable[[float], RenderableType | None] | str,
        *,
        hidden: bool = False,
        patience_seconds: float = PATIENCE_SECONDS,
        redirects: bool = True,
    ) -> None:
        """Take what is shown after some seconds, or a text; `None` shows nothing at the moment.

        Other output on the terminal goes above it, unless it `redirects` none.
        """
        self._view = view
        self._hidden = hidden or not sys.stderr.isatty()
        self._patience_seconds = patience_seconds
        self._redirects = redirects
        self._live: Live | None = None
        self._prompts = 0

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show it during a block."""
        if self._hidden:
            yield
            return
        try:
            async with in_background(self._show()):
                yield
        finally:
            self.hide()

    def hide(self) -> None:
        """Remove it from the terminal, until its next frame."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def without(self, callback: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Any]:
        """Return the callback; nothing is shown while it runs, since it prints or prompts."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            self._prompts += 1
            self.hide()
            try:
                return await callback(*args, **kwargs)
            finally:
                self._prompts -= 1

        return run

    async def _show(self) -> None:
        from rich.live import Live

        began = time.monotonic()
        await asyncio.sleep(self._patience_seconds)
        console = console_for(sys.stderr)
        while True:
            elapsed = time.monotonic() - began
            text = self._view
            view = spinner_line(text, elapsed) if isinstance(text, str) else text(elapsed)
            if view is None or self._prompts:
                self.hide()
            else:
                if self._live is None:
                    self._live = Live(
                        console=console,
                        transient=True,
                        auto_refresh=False,
                        redirect_stdout=self._redirects,
                        redirect_stderr=self._redirects,
                    )
                    self._live.start()
                self._live.update(view, refresh=True)
            await asyncio.sleep(FRAME_SECONDS)


def spinner_line(text: str, elapsed_seconds: float, more: str = "") -> Text:
    """Make the line of a spinner: what is waited for, for how long, and its progress."""
    from rich.text import Text

    return Text.assemble(
        (f"{spinner_frame(elapsed_seconds)} ", "cyan"),
        visible_line(text),
        (visible(f" … {elapsed_seconds:.0f} s  {' '.join(more.split())}").rstrip(), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


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
