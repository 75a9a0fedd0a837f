"""Reads the messages of a user: with line editing and history on a terminal, else line by line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, Self

import click

from plait.cli.terminal import is_terminal

_MOST_LINES: Final = 1000
"""Lines of the history that are kept."""

_MORE: Final = "...> "
"""The prompt for the next line of a message."""


class LineReader:
    """Reads messages from stdin, and keeps those of a terminal in a history file."""

    def __init__(self, prompt: str, commands: Sequence[str], folder: Path) -> None:
        """Complete `commands` with the tab key; the history is in `folder`."""
        self._prompt = prompt
        self._commands = commands
        self._history = folder / "chat_history"
        self.is_interactive = is_terminal(sys.stdin)
        # Only with both is the terminal under the control of readline.
        edits = self.is_interactive and is_terminal(sys.stdout)
        self._readline = _readline() if edits else None

    def __enter__(self) -> Self:
        if self._readline is not None:
            self._set_up(self._readline)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._readline is None:
            return
        with contextlib.suppress(OSError):  # the history is a convenience
            self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.write_history_file(str(self._history))

    def _set_up(self, readline: ModuleType) -> None:
        with contextlib.suppress(OSError):
            readline.read_history_file(str(self._history))
        readline.set_history_length(_MOST_LINES)
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def _complete(self, text: str, state: int) -> str | None:
        matches = [name for name in self._commands if text and name.startswith(text)]
        return matches[state] if state < len(matches) else None

    def read(self) -> str | None:
        r"""Return the next message, or `None` at the end; a line that ends with \ goes on."""
        lines: list[str] = []
        while True:
            line = self._line(_MORE if lines else self._prompt)
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])

    def _line(self, prompt: str) -> str | None:
        if self._readline is not None:
            try:
                return input(prompt)
            except EOFError:
                click.echo(err=True)
                return None
        if self.is_interactive:
            click.echo(prompt, err=True, nl=False)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise click.UsageError("stdin is not UTF-8") from error
        return line.rstrip("\r\n") if line else None


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:  # Python without it, or Windows
        return None
    return readline
